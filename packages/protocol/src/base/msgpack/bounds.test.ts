import { Encoder } from '@msgpack/msgpack';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { errorCode } from '../../testing/error-code.js';
import { ProtocolError } from '../errors.js';
import { assertMsgpackBounds } from './bounds.js';

const check = (bytes: Uint8Array, maxDepth = 100): string =>
  errorCode(() => assertMsgpackBounds(bytes, maxDepth, 'this'));
const filled = (head: number[], body: number): number[] => [...head, ...new Array<number>(body).fill(0)];

/** Levels of nesting; an empty container counts as one. */
const depthOf = (value: unknown): number =>
  typeof value !== 'object' || value === null || value instanceof Uint8Array
    ? 0
    : 1 + Math.max(0, ...Object.values(value).map(depthOf));

describe('bounds of MessagePack', () => {
  const encoder = new Encoder({ useBigInt64: true });
  const values = fc.anything({
    maxDepth: 5,
    values: [
      fc.integer(),
      fc.double(),
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n }),
      fc.string({ maxLength: 40 }),
      fc.boolean(),
      fc.constant(null),
      fc.uint8Array({ maxLength: 40 }),
    ],
  });

  it('accept everything an encoder writes at its own depth, and nothing deeper than the limit', () => {
    fc.assert(
      fc.property(values, (value) => {
        const bytes = encoder.encode(value);
        const depth = depthOf(value);
        expect(check(bytes, depth)).toBe('none');
        if (depth > 0) expect(check(bytes, depth - 1)).toBe('json_too_deep');
      }),
    );
  });

  it('refuse a value with any number of bytes missing, or with one too many', () => {
    fc.assert(
      fc.property(values, (value) => {
        const bytes = encoder.encode(value);
        for (let length = 0; length < bytes.length; length++)
          expect(check(bytes.subarray(0, length))).toBe('bad_message');
        expect(check(Uint8Array.of(...bytes, 0xc0))).toBe('bad_message');
      }),
    );
  });

  it.each([
    ['fixint', [0x00]],
    ['fixint', [0x7f]],
    ['negative fixint', [0xe0]],
    ['negative fixint', [0xff]],
    ['nil', [0xc0]],
    ['false', [0xc2]],
    ['true', [0xc3]],
    ['bin 8', filled([0xc4, 3], 3)],
    ['bin 16', filled([0xc5, 1, 2], 258)],
    ['bin 32', filled([0xc6, 0, 1, 0, 2], 65_538)],
    ['ext 8', filled([0xc7, 3], 4)],
    ['ext 16', filled([0xc8, 1, 2], 259)],
    ['ext 32', filled([0xc9, 0, 1, 0, 2], 65_539)],
    ['float 32', filled([0xca], 4)],
    ['float 64', filled([0xcb], 8)],
    ['uint 8', filled([0xcc], 1)],
    ['uint 16', filled([0xcd], 2)],
    ['uint 32', filled([0xce], 4)],
    ['uint 64', filled([0xcf], 8)],
    ['int 8', filled([0xd0], 1)],
    ['int 16', filled([0xd1], 2)],
    ['int 32', filled([0xd2], 4)],
    ['int 64', filled([0xd3], 8)],
    ['fixext 1', filled([0xd4], 2)],
    ['fixext 2', filled([0xd5], 3)],
    ['fixext 4', filled([0xd6], 5)],
    ['fixext 8', filled([0xd7], 9)],
    ['fixext 16', filled([0xd8], 17)],
    ['fixstr', filled([0xa0], 0)],
    ['fixstr', filled([0xbf], 31)],
    ['str 8', filled([0xd9, 3], 3)],
    ['str 16', filled([0xda, 1, 2], 258)],
    ['str 32', filled([0xdb, 0, 1, 0, 2], 65_538)],
    ['fixarray', filled([0x9f], 15)],
    ['array 16', filled([0xdc, 1, 2], 258)],
    ['array 32', filled([0xdd, 0, 1, 0, 2], 65_538)],
    ['fixmap', filled([0x8f], 30)],
    ['map 16', filled([0xde, 1, 2], 516)],
    ['map 32', filled([0xdf, 0, 1, 0, 2], 131_076)],
  ])('know the length of a %s', (_name, bytes) => {
    expect(check(Uint8Array.from(bytes))).toBe('none');
    expect(check(Uint8Array.from(bytes.slice(0, -1)))).toBe('bad_message');
    expect(check(Uint8Array.from([...bytes, 0]))).toBe('bad_message');
  });

  it('refuse the byte 0xc1', () => {
    expect(check(Uint8Array.of(0xc1))).toBe('bad_message');
  });

  it.each([
    ['lists', [0xdc, 0x40, 0x00]],
    ['long lists', [0xdd, 0x00, 0x00, 0x40, 0x00]],
    ['maps', [0xde, 0x40, 0x00]],
  ])('refuse nested %s that together announce more than the bytes can hold', (_what, head) => {
    // 20,000 elements are there, so that each head alone is plausible.
    const nested = (levels: number) =>
      Uint8Array.from([
        ...Array.from({ length: levels }, () => head).flat(),
        ...new Array<number>(40_000).fill(0),
      ]);
    expect(() => assertMsgpackBounds(nested(3), 100, 'this')).toThrow(
      expect.objectContaining({ code: 'bad_message', message: expect.stringMatching(/^this .*announces/) }),
    );
  });

  it('compare with the bytes that are left, not with those already read', () => {
    const text = [0xda, 0x40, 0x00, ...new Array<number>(0x4000).fill(0x78)];
    const list = (announced: number) => Uint8Array.from([0x92, ...text, 0x90 | announced, 0, 0, 0]);
    expect(check(list(3))).toBe('none');
    expect(() => assertMsgpackBounds(list(4), 100, 'this')).toThrow(/announces more values/);
  });

  it('report the number of surplus bytes', () => {
    expect(() => assertMsgpackBounds(Uint8Array.of(0xc0, 0, 0), 100, 'this')).toThrow(
      /2 bytes after its end/,
    );
  });

  it('throw only ProtocolErrors for arbitrary bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        try {
          assertMsgpackBounds(bytes, 8, 'this');
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});
