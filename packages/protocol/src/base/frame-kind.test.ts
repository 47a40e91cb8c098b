import { expect, it } from 'vitest';
import { errorCode } from '../testing/error-code.js';
import { Prefix } from './constants.js';
import { frameKind, prefixOf } from './frame-kind.js';

it('the first byte alone decides the kind of a frame', () => {
  const expected = (first: number): string => {
    if (first <= 2) return 'token-native';
    if (first >> 4 === 1) return 'link';
    if (first === 0x23) return 'tagged';
    if (first === 0x41) return 'avp';
    if (first >> 4 === 8 || first === 0xde || first === 0xdf) return 'control';
    return 'bad_frame';
  };
  for (let first = 0; first < 256; first++) {
    for (const bytes of [Uint8Array.of(first), Uint8Array.of(first, 0xff, 0)]) {
      const code = errorCode(() => frameKind(bytes));
      expect([first, code === 'none' ? frameKind(bytes) : code]).toEqual([first, expected(first)]);
    }
  }
  expect(errorCode(() => frameKind(new Uint8Array(0)))).toBe('bad_frame');
});

it('a text begins with exactly one prefix or with none', () => {
  for (const prefix of Object.values(Prefix)) {
    expect(prefixOf(prefix)).toBe(prefix);
    expect(prefixOf(`${prefix}rest`)).toBe(prefix);
    for (const near of [prefix.slice(0, -1), ` ${prefix}`, prefix.toLowerCase(), `#${prefix}`])
      expect([near, prefixOf(near)]).toEqual([near, undefined]);
  }
  for (const plain of ['', '#', '# M2M', 'M2M|1|', '#M2M|2|', '#M2M[v4.0]|DATA:'])
    expect(prefixOf(plain)).toBeUndefined();
});
