import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { encodeMap } from '../../control/maps.js';
import { errorCode } from '../../testing/error-code.js';
import { decodeMetadata, encodeMetadata, type Metadata } from './metadata.js';

it('decodes the metadata that it encoded', () => {
  const names = fc.string({ unit: 'grapheme', maxLength: 10 }).filter((name) => name !== '__proto__');
  const values = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      fc.string({ unit: 'grapheme' }),
      fc.double({ noNaN: true }).map((number) => number + 0),
      fc.boolean(),
      fc.constant(null),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(names, tie('value'), { maxKeys: 3, noNullPrototype: true }),
    ),
  })).value;
  fc.assert(
    fc.property(fc.dictionary(names, values, { maxKeys: 4, noNullPrototype: true }), (metadata) => {
      const encoded = encodeMetadata(metadata as Metadata, Infinity);
      expect(encoded === undefined).toBe(Object.keys(metadata).length === 0);
      expect(decodeMetadata(encoded, 32)).toEqual(metadata);
    }),
  );
});

it('accepts metadata of the maximum size, and refuses one byte more', () => {
  expect(encodeMetadata({ a: 'xxxxx' }, 9)).toHaveLength(9);
  expect(errorCode(() => encodeMetadata({ a: 'xxxxxx' }, 9))).toBe('metadata_too_large');
  expect(encodeMetadata(undefined, 0)).toBeUndefined();
});

it('accepts 256 entries, wherever they are, and refuses one more at both ends', () => {
  const flat = (entries: number) =>
    Object.fromEntries(Array.from({ length: entries }, (_, i) => [String(i), 0]));
  const nested = (entries: number) => ({ list: Array.from({ length: entries - 1 }, () => 0) });
  for (const metadata of [flat, nested]) {
    expect(errorCode(() => encodeMetadata(metadata(256), Infinity))).toBe('none');
    expect(errorCode(() => encodeMetadata(metadata(257), Infinity))).toBe('metadata_too_large');
    expect(errorCode(() => decodeMetadata(encodeMap(metadata(256)), 32))).toBe('none');
    expect(errorCode(() => decodeMetadata(encodeMap(metadata(257)), 32))).toBe('metadata_too_large');
  }
});

it('refuses values that cannot be encoded', () => {
  for (const value of [1n, () => 1]) {
    expect(errorCode(() => encodeMetadata({ value: value as never }, 100))).toBe('invalid_argument');
  }
});

it('refuses at the caller what readers refuse or would read as something else, and says where it is', () => {
  class Point {
    x = 1;
  }
  const deep = (levels: number): unknown => (levels === 0 ? 1 : { a: deep(levels - 1) });
  const encode = (metadata: unknown) => errorCode(() => encodeMetadata(metadata as Metadata, 1e6));
  for (const value of [
    new Map([[1, 2]]),
    new Set([1]),
    new Date(0),
    new Point(),
    new Error('x'),
    /x/,
    new Number(1),
  ]) {
    expect(encode({ list: [{ value }] })).toBe('invalid_argument');
    expect(() => encodeMetadata({ list: [{ value }] } as never, 1e6)).toThrow('metadata.list[0].value is a');
  }
  expect(encode(JSON.parse('{"__proto__":1}'))).toBe('invalid_argument');
  expect(encode({ a: [JSON.parse('{"__proto__":1}')] })).toBe('invalid_argument');
  expect([
    encode(deep(32)),
    encode(deep(33)),
    encode({ a: Array.from({ length: 1 }, () => deep(31)) }),
  ]).toEqual(['none', 'invalid_argument', 'invalid_argument']);
  expect(errorCode(() => decodeMetadata(encodeMetadata(deep(32) as Metadata, 1e6), 32))).toBe('none');
  const endless: Record<string, unknown> = {};
  endless['self'] = endless;
  expect(encode(endless)).toBe('invalid_argument');
  const hostile = {
    get a() {
      throw new Error('of the application');
    },
  };
  expect(encode(hostile)).toBe('invalid_argument');
  // Objects of another realm, without a prototype, and behind a proxy are plain.
  const plain = [
    runInNewContext('({ a: [1, { b: 2 }] })'),
    Object.assign(Object.create(null), { a: 1 }),
    new Proxy({ a: 1 }, {}),
  ];
  for (const metadata of plain) expect(encode(metadata)).toBe('none');
});

it('decodes only maps within the maximum depth, and freezes them', () => {
  expect(Object.isFrozen(decodeMetadata(encodeMetadata({ a: 1 }, 9), 32))).toBe(true);
  expect(Object.isFrozen(decodeMetadata(undefined, 32))).toBe(true);
  expect(errorCode(() => decodeMetadata(Uint8Array.of(0x90), 32))).toBe('bad_message');
  const nested = encodeMetadata({ a: [[]] }, 9);
  expect([errorCode(() => decodeMetadata(nested, 3)), errorCode(() => decodeMetadata(nested, 2))]).toEqual([
    'none',
    'json_too_deep',
  ]);
});
