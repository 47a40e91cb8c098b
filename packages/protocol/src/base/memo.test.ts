import { describe, expect, it } from 'vitest';
import { Memo } from './memo.js';

/** Counts how often the value of each key was made. */
function counted() {
  const memo = new Memo<string>();
  const made: string[] = [];
  const ask = (key: string) => {
    const value = memo.recall(key, () => {
      made.push(key);
      return `of ${key}`;
    });
    expect(value).toBe(`of ${key}`);
  };
  return { made, ask };
}

describe('a memo', () => {
  it('makes each of 64 values once, and forgets all of them for the next', () => {
    const { made, ask } = counted();
    const keys = Array.from({ length: 64 }, (_, index) => `${index}`);
    for (const key of [...keys, ...keys]) ask(key);
    expect(made).toEqual(keys);
    ask('one more');
    ask('0');
    expect(made).toEqual([...keys, 'one more', '0']);
  });

  it('remembers a key of 4,096 characters, and no longer one', () => {
    const { made, ask } = counted();
    const [longest, longer] = ['x'.repeat(4096), 'x'.repeat(4097)];
    for (const key of [longest, longest, longer, longer]) ask(key);
    expect(made).toEqual([longest, longer, longer]);
  });
});
