import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fromHex, toHex } from '../base/testing/bytes.js';
import { errorCode } from '../testing/error-code.js';
import { decodeTokenIds, encodeTokenIds } from './varints.js';

describe('token IDs as varints', () => {
  it.each<[number[], string]>([
    [[], ''],
    [
      [0, 1, 127, 128, 255, 16383, 16384, 100255, 100256, 200018, 128255],
      '00017f8001ff01ff7f8080019f8f06a08f06d29a0cffe907',
    ],
    [[2097151, 2097152, 268435455, 268435456, 4294967295], 'ffff7f80808001ffffff7f8080808001ffffffff0f'],
  ])('%j', (ids, expected) => {
    expect(toHex(encodeTokenIds(Uint32Array.from(ids)))).toBe(expected);
    expect([...decodeTokenIds(fromHex(expected))]).toEqual(ids);
  });

  it('round-trip for all IDs', () => {
    fc.assert(
      fc.property(fc.uint32Array({ maxLength: 200 }), (ids) => {
        expect(decodeTokenIds(encodeTokenIds(ids))).toEqual(ids);
      }),
    );
  });

  it('have one form: readable bytes are exactly those that would be written', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 30 }), (input) => {
        const code = errorCode(() => decodeTokenIds(input));
        if (code === 'none') expect(toHex(encodeTokenIds(decodeTokenIds(input)))).toBe(toHex(input));
        else expect(['truncated', 'bad_varint']).toContain(code);
      }),
      { numRuns: 3000 },
    );
  });

  it.each([
    ['80', 'truncated'],
    ['0180', 'truncated'],
    ['ffffffff', 'truncated'],
    ['8000', 'bad_varint'],
    ['ff8000', 'bad_varint'],
    ['808080808000', 'bad_varint'],
    ['ffffffff10', 'bad_varint'],
    ['ffffffffff01', 'bad_varint'],
    ['ffffffffffffffffffff01', 'bad_varint'],
  ])('%s is %s', (input, code) => {
    expect(errorCode(() => decodeTokenIds(fromHex(input)))).toBe(code);
  });

  it('are counted before they are read', () => {
    expect(decodeTokenIds(fromHex('010203'), 3).length).toBe(3);
    expect(errorCode(() => decodeTokenIds(fromHex('010203'), 2))).toBe('message_too_large');
  });

  it('leave headroom and ignore IDs after the count', () => {
    expect(toHex(encodeTokenIds(Uint32Array.of(1, 300, 5), 2, 3))).toBe('00000001ac02');
  });
});
