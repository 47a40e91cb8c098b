import { describe, expect, it } from 'vitest';
import { errorCode } from '../../../../protocol/src/testing/error-code.js';
import { resolveSeal, Seal, SealKey } from './keys.js';
import { sealed } from './sealed.js';

const KEY = new Uint8Array(32).fill(1);
const TEXT = Buffer.from(KEY).toString('base64');

describe('the keys that seal', () => {
  it('are bytes or base64', () => {
    const [bytes, text] = [KEY, TEXT].map((key) => resolveSeal({ key }));
    expect(bytes?.newest.id).toEqual(text?.newest.id);
    expect(resolveSeal({ key: KEY, otherKeys: [TEXT] }).keys).toHaveLength(2);
  });

  it.each([
    [{ key: new Uint8Array(31) }],
    [{ key: new Uint8Array(33) }],
    [{ key: '' }],
    [{ key: `${TEXT}AAAA` }],
    [{ key: 7 }],
    [{}],
    [{ key: KEY, otherKeys: [KEY, 'short'] }],
    [{ key: KEY, other: [] }],
  ])('are refused otherwise (%#)', (options) => {
    expect(errorCode(() => resolveSeal(options as never))).toBe('invalid_option');
  });

  it('need an engine', () => {
    for (const engine of [undefined, null, 'redis://127.0.0.1'])
      expect(errorCode(() => sealed(engine as never, { key: KEY }))).toBe('invalid_option');
  });

  it('are not repeated by errors', () => {
    const secret = 'hunter2-is-too-short';
    expect(() => resolveSeal({ key: secret })).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('hunter2') }),
    );
  });

  it('give other bytes for each purpose, and other names for each list of texts', () => {
    const key = new SealKey(KEY);
    const lists = [[''], ['a'], ['a', 'b'], ['a:b'], ['ab'], ['a', ''], ['b', 'a'], ['A'], ['\ud800']];
    expect(new Set(lists.map((list) => key.nameOf(...list)))).toHaveLength(lists.length);
    const derived = lists.map((list) => Buffer.from(key.derive(32, ...list)).toString('hex'));
    expect(new Set(derived)).toHaveLength(lists.length);
    expect(new SealKey(new Uint8Array(32).fill(2)).nameOf('a')).not.toBe(key.nameOf('a'));
    expect(new SealKey(KEY).nameOf('a')).toBe(key.nameOf('a'));
  });

  it('are found by their IDs, and do not change with what the application passed', () => {
    const given = KEY.slice();
    const seal = resolveSeal({ key: given });
    const { id } = seal.newest;
    given.fill(9);
    expect(seal.newest.derive(4, 'id')).toEqual(id);
    expect(seal.find(id)).toBe(seal.newest);
    expect(seal.find(new Uint8Array(4))).toBeUndefined();
    expect(new Seal(KEY).newest.id).toEqual(id);
  });
});
