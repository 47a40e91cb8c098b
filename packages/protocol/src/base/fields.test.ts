import { describe, expect, it } from 'vitest';
import { errorCode } from '../testing/error-code.js';
import {
  booleanField,
  countField,
  get,
  isCount,
  isFields,
  namesField,
  objectField,
  stringField,
  stringMapField,
} from './fields.js';

describe('a field', () => {
  it('of the prototype counts as absent', () => {
    for (const name of ['constructor', 'toString', '__proto__']) expect(get({}, name)).toBeUndefined();
    expect(get(Object.assign(Object.create({ inherited: 1 }), { own: 2 }), 'inherited')).toBeUndefined();
    expect(get(JSON.parse('{"__proto__":7}'), '__proto__')).toBe(7);
  });

  it('that is absent or null gives the fallback; an empty one does not', () => {
    for (const fields of [{}, { f: undefined }, { f: null }]) {
      expect(stringField(fields, 'f', 'fallback', 9)).toBe('fallback');
      expect(booleanField(fields, 'f', true)).toBe(true);
      expect(countField(fields, 'f', 9)).toBe(9);
      expect(objectField(fields, 'f')).toEqual({});
      expect(namesField(fields, 'f', 9, String)).toEqual([]);
      expect(stringMapField(fields, 'f', 9, 9)).toEqual({});
    }
    expect([stringField({ f: '' }, 'f', 'x', 9), booleanField({ f: false }, 'f', true)]).toEqual(['', false]);
    expect(countField({ f: 0 }, 'f', 9)).toBe(0);
  });

  it('is named in the error', () => {
    expect(() => countField({ depth: -1 }, 'depth', 0)).toThrow(/depth/);
  });

  it.each([
    ['0', 0, true],
    ['the largest safe integer', 2 ** 53 - 1, true],
    ['one more', 2 ** 53, false],
    ['a negative number', -1, false],
    ['a fraction', 0.5, false],
    ['NaN', Number.NaN, false],
    ['Infinity', Infinity, false],
    ['a string', '1', false],
    ['a bigint', 1n, false],
  ])('%s is recognised as a count or not', (_what, value, counts) => {
    expect(isCount(value)).toBe(counts);
  });

  it('holds a map only if it is a plain object', () => {
    expect([{}, Object.create(null)].map(isFields)).toEqual([true, true]);
    expect([null, undefined, [], new Uint8Array(1), 'x', 1].some(isFields)).toBe(false);
  });
});

describe('bounds of a field', () => {
  it('a string of n characters is accepted, one of n + 1 refused', () => {
    expect(stringField({ f: 'abc' }, 'f', '', 3)).toBe('abc');
    expect(errorCode(() => stringField({ f: 'abcd' }, 'f', '', 3))).toBe('bad_message');
  });

  it('a list of n names is accepted, one of n + 1 refused, counting repeated and unknown names', () => {
    const parse = (name: string) => (name === 'unknown' ? undefined : name);
    expect(namesField({ f: ['a', 'unknown', 'a'] }, 'f', 3, parse)).toEqual(['a']);
    expect(errorCode(() => namesField({ f: ['a', 'unknown', 'a', 'a'] }, 'f', 3, parse))).toBe('bad_message');
  });

  it('a map within both limits is accepted, one more entry or character refused', () => {
    const map = (entries: number, key: number, value: number) => ({
      f: Object.fromEntries(
        Array.from({ length: entries }, (_, i) => [String(i).padEnd(key, 'k'), 'v'.repeat(value)]),
      ),
    });
    const read = (...sizes: [number, number, number]) =>
      errorCode(() => stringMapField(map(...sizes), 'f', 3, 5));
    expect(read(3, 5, 5)).toBe('none');
    expect([read(4, 5, 5), read(3, 6, 5), read(3, 5, 6)]).toEqual([
      'bad_message',
      'bad_message',
      'bad_message',
    ]);
  });

  it('a map is frozen and inherits nothing', () => {
    const map = stringMapField({ f: { toString: 'x' } }, 'f', 3, 8);
    expect(Object.isFrozen(map)).toBe(true);
    expect(Object.getPrototypeOf(map)).toBeNull();
    expect(map['toString']).toBe('x');
  });
});
