import { create } from '../../shared/dom.js';
import { type Turn, wordsOf } from '../conversation.js';
import type { ChatRecord } from './library.js';

/** Chats as files that other programs read. */

export interface Exported {
  readonly chat: ChatRecord;
  /** All of them; their parents make a tree. */
  readonly turns: readonly Turn[];
  /** The IDs of those that are shown. */
  readonly shown: readonly string[];
}

/** The shown turns of a chat as Markdown. */
export function markdownOf({ chat, turns, shown }: Exported): string {
  const parts = [`# ${chat.title}`];
  for (const turn of turns.filter(({ id }) => shown.includes(id))) {
    parts.push(
      '## You',
      turn.question ?? '*Asked in another tab*',
      '## Answer',
      wordsOf(turn) || '*No answer*',
    );
  }
  return `${parts.join('\n\n')}\n`;
}

/** All versions of all turns. */
export function jsonOf({ chat, turns }: Exported): string {
  const written = turns.map(
    ({ id, parent, asked, question, answer, refusal, thinking, calls, end, state }) => ({
      id,
      parent: parent ?? null,
      asked: new Date(asked).toISOString(),
      question: question ?? null,
      answer,
      ...(refusal !== '' && { refusal }),
      ...(thinking !== '' && { thinking }),
      ...(calls.length > 0 && { calls }),
      end: end ?? null,
      state,
    }),
  );
  const { id, title, createdAt } = chat;
  return `${JSON.stringify({ id, title, created: new Date(createdAt).toISOString(), turns: written }, undefined, 2)}\n`;
}

const MAX_NAME = 60;

/** Has the browser save a text as a file. */
export function download(title: string, extension: 'md' | 'json', text: string): void {
  const type = extension === 'md' ? 'text/markdown' : 'application/json';
  const url = URL.createObjectURL(new Blob([text], { type }));
  const name =
    title
      .replace(/[^\p{L}\p{N}._ -]+/gu, ' ')
      .trim()
      .slice(0, MAX_NAME) || 'chat';
  const link = create('a', { href: url, download: `${name}.${extension}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url));
}
