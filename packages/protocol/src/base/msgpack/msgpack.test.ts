import { describe, expect, it } from 'vitest';
import { errorCode } from '../../testing/error-code.js';
import { fromHex, toHex } from '../testing/bytes.js';
import * as library from './library.js';
import * as small from './small.js';
import { REFUSED_SUITE, SUITE } from './testing/suite.js';

/** MessagePack on Node and in pages, each on its own; `agreement.test.ts` compares the two. */

type Msgpack = typeof small;
const BOTH: readonly (readonly [where: string, msgpack: Msgpack])[] = [
  ['on Node', library],
  ['in pages', small],
];
const bytesOf = (form: string) => fromHex(form.replaceAll('-', ''));
const map = (...entries: (number | string)[]) =>
  Uint8Array.from(entries.flatMap((each) => (typeof each === 'number' ? [each] : [...Buffer.from(each)])));

/** How deep a list of lists is. */
const nested = (levels: number) => Uint8Array.from([...new Array<number>(levels).fill(0x91), 0xc0]);

describe.each(BOTH)('MessagePack %s', (_where, { assertMsgpackBounds, decodeMsgpack, encodeMsgpack }) => {
  const decode = (bytes: Uint8Array, maxEntries?: number) => decodeMsgpack(bytes, 32, 'this', maxEntries);
  const codeOf = (bytes: Uint8Array, maxDepth = 32, maxEntries?: number) =>
    errorCode(() => decodeMsgpack(bytes, maxDepth, 'this', maxEntries));
  const boundsOf = (bytes: Uint8Array, maxDepth = 32, maxEntries?: number) =>
    errorCode(() => assertMsgpackBounds(bytes, maxDepth, 'this', maxEntries));

  const cases = Object.entries(SUITE).flatMap(([file, list]) =>
    list.flatMap(({ value, forms }) => forms.map((form) => ({ file, value, form }))),
  );
  it.each(cases)('reads $form, of $file', ({ value, form }) => {
    expect(decode(bytesOf(form))).toStrictEqual(value);
    expect(decode(Uint8Array.of(0x92, ...bytesOf(form), 0x01))).toStrictEqual([value, 1]);
    expect(decode(map(0x81, 0xa1, 'a', ...bytesOf(form)))).toStrictEqual({ a: value });
    expect(boundsOf(bytesOf(form))).toBe('none');
  });

  it('refuses every part of every form, and one byte more', () => {
    for (const { form } of cases) {
      const bytes = bytesOf(form);
      for (let length = 0; length < bytes.length; length++)
        expect([form, length, codeOf(bytes.subarray(0, length))]).toEqual([form, length, 'bad_message']);
      expect([form, codeOf(Uint8Array.of(...bytes, 0xc0))]).toEqual([form, 'bad_message']);
    }
  });

  it('writes the first form of every value', () => {
    for (const { value, forms } of Object.values(SUITE).flat()) {
      // Integers over 2^53 are not exact, so they are written as floats.
      if (typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER) continue;
      const floats = typeof value === 'number' && !Number.isInteger(value) ? forms.slice(1) : forms;
      expect(toHex(encodeMsgpack(value))).toBe(floats[0]?.replaceAll('-', ''));
    }
  });

  it.each(Object.entries(REFUSED_SUITE).flatMap(([file, forms]) => forms.map((form) => ({ file, form }))))(
    'refuses $form, of $file, as a value and as a key',
    ({ form }) => {
      const bytes = bytesOf(form);
      for (const each of [bytes, Uint8Array.of(0x91, ...bytes), Uint8Array.of(0x81, ...bytes, 1)]) {
        expect(codeOf(each)).toBe('bad_message');
        // Well formed nevertheless.
        expect(boundsOf(each)).toBe('none');
      }
    },
  );

  it('refuses the byte 0xc1 wherever it stands', () => {
    for (const bytes of [map(0xc1), map(0x91, 0xc1), map(0x81, 0xc1, 1), map(0x81, 1, 0xc1)]) {
      expect(codeOf(bytes)).toBe('bad_message');
      expect(boundsOf(bytes)).toBe('bad_message');
    }
  });

  it('accepts n levels and refuses n + 1', () => {
    for (const depth of [0, 1, 32, 100]) {
      expect(codeOf(nested(depth), depth)).toBe('none');
      expect(codeOf(nested(depth + 1), depth)).toBe('json_too_deep');
      expect(codeOf(nested(60_000), depth)).toBe('json_too_deep');
    }
    expect(codeOf(Uint8Array.of(0x91, 0x90), 1)).toBe('json_too_deep');
    expect(codeOf(Uint8Array.of(0x91, 0x80), 1)).toBe('json_too_deep');
  });

  it('accepts n entries and refuses n + 1, empty lists and maps counted as one', () => {
    for (const [bytes, entries] of [
      [map(0x93, 1, 2, 3), 3],
      [map(0x82, 1, 2, 3, 4), 2],
      [map(0x92, 0x90, 0x80), 4],
      [map(0x81, 1, 0x92, 1, 1), 3],
    ] as const) {
      expect(codeOf(bytes, 32, entries)).toBe('none');
      expect(codeOf(bytes, 32, entries - 1)).toBe('message_too_large');
      expect(boundsOf(bytes, 32, entries)).toBe('none');
      expect(boundsOf(bytes, 32, entries - 1)).toBe('message_too_large');
    }
  });

  it.each([
    ['a list', [0xdd, 0xff, 0xff, 0xff, 0xff]],
    ['a map', [0xdf, 0xff, 0xff, 0xff, 0xff]],
    ['a string', [0xdb, 0xff, 0xff, 0xff, 0xff]],
    ['bytes', [0xc6, 0xff, 0xff, 0xff, 0xff]],
    ['an extension', [0xc9, 0xff, 0xff, 0xff, 0xff, 1]],
  ])('refuses %s of 4 GiB that is not there, and allocates nothing', (_what, head) => {
    const bytes = Uint8Array.from([0x94, ...new Array(4).fill(head).flat(), ...new Array(40_000).fill(0)]);
    const before = process.memoryUsage();
    expect(codeOf(bytes)).toBe('bad_message');
    const after = process.memoryUsage();
    expect(after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers).toBeLessThan(
      5_000_000,
    );
  });

  it('compares what is announced with the bytes that are left, not with those already read', () => {
    const text = [0xda, 0x40, 0x00, ...new Array<number>(0x4000).fill(0x78)];
    const list = (announced: number) => Uint8Array.from([0x92, ...text, 0x90 | announced, 0, 0, 0]);
    expect(codeOf(list(3))).toBe('none');
    expect(codeOf(list(4))).toBe('bad_message');
  });

  it('refuses strings that are not UTF-8, as values and as keys', () => {
    for (const text of [[0xff], [0xe2, 0x82], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80]]) {
      expect(codeOf(Uint8Array.of(0xa0 + text.length, ...text))).toBe('bad_utf8');
      expect(codeOf(Uint8Array.of(0x81, 0xa0 + text.length, ...text, 1))).toBe('bad_utf8');
      expect(
        codeOf(Uint8Array.of(0xd9, 70, ...new Array<number>(70 - text.length).fill(0x61), ...text)),
      ).toBe('bad_utf8');
    }
  });

  it('keeps the byte-order mark of a string of 200 bytes and refuses it in one of 201', () => {
    const marked = (length: number) => `\ufeff${'x'.repeat(length - 3)}`;
    expect(decode(encodeMsgpack(marked(200)))).toBe(marked(200));
    expect(errorCode(() => encodeMsgpack(marked(201)))).toBe('bad_message');
    expect(codeOf(map(0xd9, 201, marked(201)))).toBe('bad_message');
    expect(decode(encodeMsgpack({ [marked(200)]: 1 }))).toStrictEqual({ [marked(200)]: 1 });
  });

  it('refuses the key __proto__ and changes no prototype', () => {
    const key = [0xa9, '__proto__'];
    for (const value of [0x80, 0x01, 0xc0]) expect(codeOf(map(0x81, ...key, value))).toBe('bad_message');
    expect(codeOf(map(0x91, 0x82, 0xa1, 'a', 1, ...key, 0x81, 0xa1, 'b', 2))).toBe('bad_message');
    expect(codeOf(map(0xde, 0, 1, 0xd9, 9, '__proto__', 0x80))).toBe('bad_message');
    expect(({} as { b?: number }).b).toBeUndefined();
    // As a value it means nothing, and other names of the prototype are ordinary keys.
    expect(decode(map(0x91, ...key))).toStrictEqual(['__proto__']);
    expect(decode(map(0x81, 0xab, 'constructor', 1))).toStrictEqual({ constructor: 1 });
  });

  it('takes numbers as keys, the last of equal keys, and no other kind of key', () => {
    expect(decode(map(0x82, 0x01, 0x02, 0xff, 0x03))).toStrictEqual({ 1: 2, '-1': 3 });
    expect(decode(map(0x82, 0x01, 0x02, 0xa1, '1', 0x03))).toStrictEqual({ 1: 3 });
    for (const key of [[0xc0], [0xc2], [0x90], [0x80], [0xc4, 0], [0x81, 0xa8, 'toString', 1]])
      expect(codeOf(map(0x81, ...key, 1))).toBe('bad_message');
  });

  it('reads bytes in the middle of a buffer', () => {
    const bytes = encodeMsgpack({ a: [1.5, 'text', new Uint8Array([1, 2])], b: -70_000 });
    const padded = Uint8Array.of(9, 9, 9, ...bytes, 9, 9);
    expect(decode(padded.subarray(3, -2))).toStrictEqual(decode(bytes));
  });

  it('writes every width of integer, length, and float', () => {
    const written = (value: unknown) => toHex(encodeMsgpack(value).subarray(0, 9));
    for (const [value, hex] of [
      [-33, 'd0df'],
      [-128, 'd080'],
      [-129, 'd1ff7f'],
      [-32_768, 'd18000'],
      [-32_769, 'd2ffff7fff'],
      [-(2 ** 31), 'd280000000'],
      [-(2 ** 31) - 1, 'd3ffffffff7fffffff'],
      [Number.MIN_SAFE_INTEGER, 'd3ffe0000000000001'],
      [Number.MAX_SAFE_INTEGER, 'cf001fffffffffffff'],
      [2 ** 53, 'cb4340000000000000'],
      [-(2 ** 53), 'cbc340000000000000'],
      [2 ** 64, 'cb43f0000000000000'],
      [-0, '00'],
      [1.5, 'cb3ff8000000000000'],
      [Number.NaN, 'cb7ff8000000000000'],
      [-Infinity, 'cbfff0000000000000'],
    ] as const)
      expect([value, written(value)]).toEqual([value, hex]);
    for (const length of [0, 15, 16, 31, 32, 255, 256, 65_535, 65_536]) {
      const list = new Array<number>(length).fill(0);
      const record = { ...list };
      for (const value of ['x'.repeat(length), new Uint8Array(length), list, record]) {
        const bytes = encodeMsgpack(value);
        expect(decode(bytes)).toStrictEqual(value);
        expect(toHex(bytes.subarray(0, 5))).toBe(toHex(library.encodeMsgpack(value).subarray(0, 5)));
      }
    }
  });

  it('leaves undefined out of maps, and writes it as nil elsewhere', () => {
    expect(toHex(encodeMsgpack({ a: 1, b: undefined, c: null }))).toBe('82a16101a163c0');
    const holed: unknown[] = [undefined];
    holed[2] = 1;
    expect(toHex(encodeMsgpack(holed))).toBe('93c0c001');
    expect(toHex(encodeMsgpack(undefined))).toBe('c0');
  });

  it('writes the bytes of every view, and other objects as maps of their own entries', () => {
    expect(toHex(encodeMsgpack(new Uint16Array([0x0201, 0x0403]).subarray(1)))).toBe('c4020304');
    expect(toHex(encodeMsgpack(new DataView(Uint8Array.of(1, 2, 3).buffer, 1, 1)))).toBe('c40102');
    expect(toHex(encodeMsgpack([new Date(0), new Map([[1, 2]]), Object.create({ a: 1 })]))).toBe('93808080');
  });

  it('refuses values without a MessagePack form, 101 levels, and what throws', () => {
    const deep = (levels: number) => {
      let value: unknown = 1;
      for (let i = 1; i < levels; i++) value = i % 2 === 0 ? [value] : { a: value };
      return value;
    };
    const cyclic: unknown[] = [];
    cyclic.push(cyclic);
    const throwing = {
      get a() {
        throw new Error('no');
      },
    };
    for (const value of [1n, () => 1, Symbol('s'), deep(101), cyclic, throwing]) {
      expect(errorCode(() => encodeMsgpack({ value }))).toBe('invalid_argument');
      expect(errorCode(() => encodeMsgpack([[value]]))).toBe('invalid_argument');
    }
    expect(errorCode(() => encodeMsgpack(deep(100)))).toBe('none');
    expect(errorCode(() => encodeMsgpack(deep(101)))).toBe('invalid_argument');
  });

  it('refuses half of a surrogate pair in values and keys', () => {
    for (const half of ['\ud800', 'a\udc00', '\udc00\ud800']) {
      for (const text of [half, half + 'x'.repeat(100), 'x'.repeat(1_000) + half]) {
        expect(errorCode(() => encodeMsgpack({ text }))).toBe('lone_surrogate');
        expect(errorCode(() => encodeMsgpack({ [text]: 1 }))).toBe('lone_surrogate');
        expect(errorCode(() => encodeMsgpack({ list: [{ deep: [text] }] }))).toBe('lone_surrogate');
      }
    }
  });

  it('writes U+FFFD itself', () => {
    const value = { text: `\ufffd${'x'.repeat(100)}\ufffd`, bytes: Uint8Array.of(0xef, 0xbf, 0xbd) };
    expect(decodeMsgpack(encodeMsgpack(value), 9, 'the map')).toEqual(value);
  });

  it('still writes after a failure', () => {
    errorCode(() => encodeMsgpack({ a: { b: 1n } }));
    expect(toHex(encodeMsgpack({ a: 1 }))).toBe('81a16101');
  });
});

describe('MessagePack in pages', () => {
  it('reads at most 1,000 levels, also with a higher bound, so that the stack is never exhausted', () => {
    const codeOf = (levels: number) => errorCode(() => small.decodeMsgpack(nested(levels), Infinity, 'this'));
    expect([codeOf(1_000), codeOf(1_001), codeOf(1_000_000)]).toEqual([
      'none',
      'json_too_deep',
      'json_too_deep',
    ]);
  });
});
