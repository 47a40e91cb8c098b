import { describe, expect, it } from 'vitest';
import { createTurn, isNews, messagesOf, take, wordsOf } from './conversation.js';
import { isWhole, noteOf } from './endings.js';
import { pieceOf } from './piece.js';

/** Reads the chunks of an API, malformed ones included. */

const chunk = (delta: unknown, finish_reason?: unknown) => ({
  choices: [{ index: 0, delta, finish_reason }],
});
const turnOf = (...chunks: unknown[]) => {
  const turn = createTurn('question');
  for (const each of chunks) take(turn, pieceOf(each));
  turn.state = 'done';
  turn.reply = undefined;
  return turn;
};
const call = (name: string, given: string, index: unknown = 0) => ({
  tool_calls: [{ index, function: { name, arguments: given } }],
});

describe('a chunk', () => {
  it.each([
    null,
    5,
    'text',
    {},
    { choices: null },
    { choices: [] },
    { choices: [null] },
    { choices: [{}] },
    chunk(null),
    chunk({ content: null, refusal: null, tool_calls: null, function_call: null }, null),
    chunk({ content: 5, refusal: {}, tool_calls: [null, 5, {}, { function: 'f' }] }, ''),
    chunk({ tool_calls: { function: { name: 'f' } } }, 7),
  ])('that says nothing adds nothing: %j', (each) => {
    const turn = createTurn('question');
    expect(isNews(pieceOf(each))).toBe(false);
    take(turn, pieceOf(each));
    expect(turn).toMatchObject({ answer: '', refusal: '', thinking: '', calls: [], end: undefined });
  });

  it('adds words, a refusal, thoughts under both names, and the reason for the end', () => {
    const turn = turnOf(
      chunk({ reasoning_content: 'one ' }),
      chunk({ reasoning: 'two' }),
      chunk({ content: 'Hello' }),
      chunk({ content: ' world' }),
      chunk({ refusal: 'No.' }),
      chunk({}, 'stop'),
      // The usage comes after it.
      { choices: [], usage: {} },
    );
    expect(turn).toMatchObject({ thinking: 'one two', answer: 'Hello world', refusal: 'No.', end: 'stop' });
    expect(wordsOf(turn)).toBe('Hello world\n\nNo.');
    expect(messagesOf([turn])).toEqual([
      { role: 'user', content: 'question' },
      { role: 'assistant', content: 'Hello world\n\nNo.' },
    ]);
  });

  it('adds to the call that it names, in pieces and beside others', () => {
    const turn = turnOf(
      chunk(call('first', '{"a"')),
      chunk(call('second', '[1', 1)),
      chunk(call('', ':1}')),
      chunk(call('', ']', 1)),
      // A list of a thousand calls helps no reader.
      chunk(call('far', '', 1_000)),
      chunk(call('odd', '', -1)),
      chunk({}, 'tool_calls'),
    );
    expect(noteOf(turn)).toBe(
      'The model calls the tool first({"a":1}), which this page does not have. The model calls the tool second([1]), which this page does not have.',
    );
  });

  it('may call a function, as before there were tools', () => {
    const turn = turnOf(
      chunk({ function_call: { name: 'f', arguments: '{' } }),
      chunk({ function_call: { arguments: '}' } }),
      chunk({}, 'function_call'),
    );
    expect(noteOf(turn)).toBe('The model calls the tool f({}), which this page does not have.');
  });
});

describe('an answer', () => {
  it.each([
    ['stop', true],
    ['tool_calls', true],
    ['length', false],
    ['content_filter', false],
    ['anything', false],
    [undefined, false],
  ])('that ends with %s is whole: %s', (end, expected) => {
    const turn = turnOf(chunk({ content: 'words' }, end));
    expect(isWhole(turn)).toBe(expected);
    expect(noteOf(turn) === '').toBe(expected);
    expect(isWhole({ ...turn, state: 'interrupted' })).toBe(false);
  });
});
