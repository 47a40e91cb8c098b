import { expect, it } from 'vitest';
import { MAX_LENGTH, MAX_TEXTS, remembered } from './remembered.js';

function counting() {
  const calls: string[] = [];
  const read = remembered((text) => {
    calls.push(text);
    if (text === 'bad') throw new Error('bad');
    return { text };
  });
  return { calls, read };
}

it('reads a short text once, and gives the same result', () => {
  const { calls, read } = counting();
  expect(read('a')).toBe(read('a'));
  expect(read('a')).toEqual({ text: 'a' });
  expect(calls).toEqual(['a']);
});

it('remembers nothing that was thrown, and no text of 513 units', () => {
  const { calls, read } = counting();
  for (let i = 0; i < 2; i++) expect(() => read('bad')).toThrow('bad');
  for (const text of ['x'.repeat(MAX_LENGTH), 'y'.repeat(MAX_LENGTH + 1)])
    for (let i = 0; i < 2; i++) read(text);
  expect(calls.map((text) => text.length)).toEqual([3, 3, MAX_LENGTH, MAX_LENGTH + 1, MAX_LENGTH + 1]);
});

it('begins again with the 65th text', () => {
  const { calls, read } = counting();
  for (let i = 0; i < MAX_TEXTS; i++) read(`${i}`);
  read('0');
  expect(calls).toHaveLength(MAX_TEXTS);
  read('one more');
  read('0');
  expect(calls).toHaveLength(MAX_TEXTS + 2);
});
