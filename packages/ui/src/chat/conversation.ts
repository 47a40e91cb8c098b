import { randomName } from '../shared/profile.js';
import type { Problem } from './problems.js';
import { NO_READING, type Reading } from './proof/reading.js';
import { NO_TRAFFIC, type TurnTraffic } from './traffic.js';

export type TurnState =
  /** Sent, without any answer yet. */
  | 'waiting'
  | 'streaming'
  | 'done'
  /** A page of this profile pressed Stop. */
  | 'stopped'
  /** The session ended before the answer did, and the server has not kept it. */
  | 'interrupted'
  /** Another tab, of which this one is a copy, reads the rest of the answer. */
  | 'elsewhere'
  /** The request could not be sent, or the answer is an error. */
  | 'failed';

/** How to continue an answer that is not complete. */
export interface TurnReply {
  /** The name under which the server keeps the answer, or its ID. */
  readonly name: string;
  /** The number of the part that was read last. */
  position: number;
  /** Of the parts up to there, see `nextSum`; `undefined` if it is not known. */
  sum: string | undefined;
}

export interface ToolCall {
  readonly index: number;
  readonly name: string;
  /** JSON, as far as it has arrived. */
  readonly arguments: string;
}

/** A file that goes with a question. */
export interface Attachment {
  readonly name: string;
  readonly kind: 'picture' | 'text';
  /** The text, or the picture as a `data:` address. */
  readonly content: string;
}

export interface Turn {
  readonly id: string;
  /**
   * The ID of the turn before it; `undefined` if it is the first. Turns with the same one before them are versions of each other: the
   * user has edited the question, or has asked it again.
   */
  readonly parent: string | undefined;
  /** Unix milliseconds; no two turns of a page have the same. */
  readonly asked: number;
  /** `undefined` if another tab asked. */
  readonly question: string | undefined;
  readonly files: readonly Attachment[];
  answer: string;
  /** The text of the model in place of an answer. */
  refusal: string;
  /** The text before its answer, if the API shows that. */
  thinking: string;
  /** How long this page has received thoughts, in milliseconds. */
  thoughtMs: number;
  /** The tools that it calls, which this page does not have. */
  calls: readonly ToolCall[];
  /** The reason that the API gives for the end, such as `stop` and `length`; `undefined` until it has given one. */
  end: string | undefined;
  state: TurnState;
  /** Why it failed. */
  problem: Problem | undefined;
  /** All attempts at an answer. */
  traffic: TurnTraffic;
  /** `undefined` if there is nothing more to read. */
  reply: TurnReply | undefined;
  /** How the answer has come. */
  reading: Reading;
}

export type ChatMessage =
  | { readonly role: 'system' | 'assistant'; readonly content: string }
  | { readonly role: 'user'; readonly content: string | ContentPart[] };

export type ContentPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image_url'; readonly image_url: { readonly url: string } };

let lastAsked = 0;

/** The present time, later than any that it has returned before: turns are put in the order of their times. */
export function askedNow(): number {
  lastAsked = Math.max(Date.now(), lastAsked + 1);
  return lastAsked;
}

/** @param parent the ID of the turn before it. */
export function createTurn(question: string, parent?: string, files: readonly Attachment[] = []): Turn {
  return {
    id: randomName(),
    parent,
    asked: askedNow(),
    question,
    files,
    answer: '',
    refusal: '',
    thinking: '',
    thoughtMs: 0,
    calls: [],
    end: undefined,
    state: 'waiting',
    problem: undefined,
    traffic: NO_TRAFFIC,
    reply: { name: `chat-${randomName()}`, position: 0, sum: '' },
    reading: NO_READING,
  };
}

/** An answer that another tab has asked for. */
export function createForeignTurn(name: string): Turn {
  return { ...createTurn(''), question: undefined, reply: { name, position: 0, sum: '' } };
}

/** The conversation so far as the messages of a chat request. Includes unfinished answers. */
export function messagesOf(turns: readonly Turn[]): ChatMessage[] {
  return turns.flatMap((turn): ChatMessage[] => {
    const content = wordsOf(turn);
    return [
      ...(turn.question === undefined ? [] : [{ role: 'user' as const, content: contentOf(turn) }]),
      ...(content === '' ? [] : [{ role: 'assistant' as const, content }]),
    ];
  });
}

/** Texts are part of the question, as every model reads them; a question with pictures has parts. */
function contentOf({ question = '', files }: Turn): string | ContentPart[] {
  const of = (wanted: Attachment['kind']) => files.filter(({ kind }) => kind === wanted);
  const texts = of('text').map(({ name, content }) => `File “${name}”:\n\n${fenced(content)}`);
  const text = [...texts, question].filter((each) => each !== '').join('\n\n');
  const pictures = of('picture').map(({ content }) => ({
    type: 'image_url' as const,
    image_url: { url: content },
  }));
  return pictures.length === 0 ? text : [{ type: 'text', text }, ...pictures];
}

/** Between fences that are longer than any in the text. */
function fenced(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map(([fence]) => fence.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}\n${text}${text.endsWith('\n') ? '' : '\n'}${fence}`;
}

/** The words of the model: its answer without thoughts, or its refusal. */
export function wordsOf({ answer, refusal }: Pick<Turn, 'answer' | 'refusal'>): string {
  const { said } = thoughtsIn(answer);
  return said === '' || refusal === '' ? said + refusal : `${said}\n\n${refusal}`;
}

/** The thoughts of the model, whether the API tells them from the answer or not. */
export function thoughtsOf({ thinking, answer }: Pick<Turn, 'thinking' | 'answer'>): string {
  return thinking + thoughtsIn(answer).thought;
}

const [OPEN, CLOSE] = ['<think>', '</think>'];

/** Some APIs send thoughts as the beginning of the answer. */
function thoughtsIn(answer: string): { readonly thought: string; readonly said: string } {
  if (!answer.startsWith(OPEN)) return { thought: '', said: answer };
  const end = answer.indexOf(CLOSE);
  if (end < 0) return { thought: answer.slice(OPEN.length), said: '' };
  return {
    thought: answer.slice(OPEN.length, end).trim(),
    said: answer.slice(end + CLOSE.length).trimStart(),
  };
}

/** The content of a chunk of an answer. */
export interface Piece {
  readonly answer: string;
  readonly refusal: string;
  readonly thinking: string;
  readonly calls: readonly ToolCall[];
  readonly end: string | undefined;
}

/** Whether there is anything new to show. */
export function isNews({ answer, refusal, thinking, calls }: Piece): boolean {
  return answer + refusal + thinking !== '' || calls.length > 0;
}

/** Adds a piece to the turn. */
export function take(turn: Turn, { answer, refusal, thinking, calls, end }: Piece): void {
  turn.answer += answer;
  turn.refusal += refusal;
  turn.thinking += thinking;
  for (const call of calls) {
    const before = turn.calls.find(({ index }) => index === call.index);
    const others = turn.calls.filter((each) => each !== before);
    const name = (before?.name ?? '') + call.name;
    turn.calls = [...others, { ...call, name, arguments: (before?.arguments ?? '') + call.arguments }];
  }
  turn.end = end ?? turn.end;
}
