import { describe, expect, it } from 'vitest';
import { encodeData, MAX_DATA_SIZE } from './served-session.js';

describe('the data of a session', () => {
  it('is JSON, or nothing', () => {
    expect(encodeData({ turns: [1, 'two', null] })).toBe('{"turns":[1,"two",null]}');
    expect(encodeData(undefined)).toBeUndefined();
  });

  it('has at most 64 KiB, counted in UTF-8', () => {
    const fits = 'é'.repeat((MAX_DATA_SIZE - 2) / 2);
    expect(encodeData(fits)).toHaveLength(fits.length + 2);
    expect(() => encodeData(`${fits}x`)).toThrow(expect.objectContaining({ code: 'message_too_large' }));
  });

  const cycle: unknown[] = [];
  cycle.push(cycle);
  it.each<[string, unknown]>([
    ['a function', () => {}],
    ['a symbol', Symbol('x')],
    ['a cycle', cycle],
    ['a BigInt', 1n],
    [
      'what throws',
      {
        toJSON() {
          throw new Error('no');
        },
      },
    ],
    ['what is nothing', { toJSON: () => undefined }],
  ])('is refused: %s', (_what, value) => {
    expect(() => encodeData(value)).toThrow(expect.objectContaining({ code: 'invalid_argument' }));
  });
});
