import { describe, expect, it } from 'vitest';
import { createTurn, type Turn } from './conversation.js';
import { OpenChat } from './open-chat.js';

/** The turns of a chat, and which of them are shown. */

const questions = (turns: readonly Turn[]) => turns.map(({ question }) => question);

/** A chat with these questions, one after the other. */
function chatOf(...asked: string[]): OpenChat {
  const chat = new OpenChat();
  for (const question of asked) chat.add(createTurn(question, chat.last?.id));
  return chat;
}

function turnOf(chat: OpenChat, question: string): Turn {
  return chat.all.find((turn) => turn.question === question) ?? expect.fail(`there is no ${question}`);
}

/** Asks another question in place of one. */
function edit(chat: OpenChat, question: string, by: string): void {
  const turn = turnOf(chat, question);
  chat.cut(turn);
  chat.add(createTurn(by, turn.parent));
}

describe('a chat', () => {
  it('keeps what an edited question has replaced, and shows it again', () => {
    const chat = chatOf('a', 'b', 'c');
    edit(chat, 'b', 'B');
    expect(questions(chat.path)).toEqual(['a', 'B']);
    expect(questions(chat.versions(turnOf(chat, 'B')))).toEqual(['b', 'B']);
    chat.choose(turnOf(chat, 'b'));
    expect(questions(chat.path)).toEqual(['a', 'b', 'c']);
    chat.choose(turnOf(chat, 'B'));
    expect(questions(chat.path)).toEqual(['a', 'B']);
    edit(chat, 'a', 'A');
    expect(questions(chat.path)).toEqual(['A']);
    expect(questions(chat.versions(turnOf(chat, 'A')))).toEqual(['a', 'A']);
    // The version that was asked last.
    chat.choose(turnOf(chat, 'a'));
    expect(questions(chat.path)).toEqual(['a', 'B']);
  });

  it('is shown as it was left', () => {
    const chat = chatOf('a', 'b');
    edit(chat, 'b', 'B');
    const other = new OpenChat();
    other.show(chat.all, turnOf(chat, 'b').id);
    expect(questions(other.path)).toEqual(['a', 'b']);
    other.show(chat.all, 'unknown');
    expect(questions(other.path)).toEqual(['a', 'B']);
    other.show([], undefined);
    expect(other.last).toBeUndefined();
  });

  it('that is damaged is shown as far as it is whole', () => {
    const [first, second] = [createTurn('a'), createTurn('b')];
    const chat = new OpenChat();
    chat.show(
      [
        { ...first, parent: second.id },
        { ...second, parent: first.id },
      ],
      second.id,
    );
    expect(chat.path).toHaveLength(2);
    chat.show([{ ...second, parent: 'gone' }], second.id);
    expect(questions(chat.path)).toEqual(['b']);
  });

  it('of a former version of the page gets its order', () => {
    const chat = new OpenChat();
    chat.adopt([createTurn('a'), createTurn('b'), createTurn('c')]);
    edit(chat, 'c', 'C');
    expect(questions(chat.path)).toEqual(['a', 'b', 'C']);
  });

  it('takes over what another tab has stored, but not what this tab knows better', () => {
    const chat = chatOf('a', 'b');
    const [a, b] = [turnOf(chat, 'a'), turnOf(chat, 'b')];
    b.state = 'done';
    b.answer = 'all of it';
    const theirs = [
      { ...a, state: 'done' as const, answer: 'theirs' },
      { ...b, state: 'streaming' as const, answer: 'all' },
      createTurn('c', b.id),
    ];
    expect(chat.merge(theirs, theirs[2]?.id, undefined)).toEqual([a]);
    expect(questions(chat.path)).toEqual(['a', 'b', 'c']);
    expect(chat.path.slice(0, 2)).toEqual([a, b]);
    expect([a.answer, b.answer]).toEqual(['theirs', 'all of it']);
  });

  it('keeps the turn whose answer this tab receives, stored or not', () => {
    const chat = chatOf('a', 'b');
    const [a, b] = [turnOf(chat, 'a'), turnOf(chat, 'b')];
    chat.merge([a], a.id, b);
    expect(chat.path).toEqual([a, b]);
    chat.merge([a, { ...b, state: 'interrupted' }], a.id, b);
    expect(chat.last).toBe(b);
    expect(b.state).toBe('waiting');
  });
});
