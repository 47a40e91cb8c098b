import { describe, expect, it } from 'vitest';
import { turnKey, unmask, unmaskWords } from './unmask.js';

const KEY = 0x3d21fa87;
const KEY_BYTES = [0x87, 0xfa, 0x21, 0x3d] as const;

/** Bytes at a place in memory that is `offset` bytes after a multiple of eight. */
function bytesAt(offset: number, length: number): Buffer {
  const bytes = Buffer.from(new ArrayBuffer(offset + length), offset, length);
  for (let at = 0; at < length; at++) bytes[at] = at * 7;
  return bytes;
}

describe.each([
  ['native code, if there is any', unmask],
  ['words', unmaskWords],
])('unmasking by %s', (_by, run) => {
  it('is the same at any place and of any length', () => {
    for (const length of [0, 1, 2, 3, 4, 5, 31, 32, 33, 34, 35, 36, 63, 255, 256, 257, 258, 4_099]) {
      for (let offset = 0; offset < 8; offset++) {
        const bytes = bytesAt(offset, length);
        const expected = Buffer.from(bytes.map((byte, at) => byte ^ (KEY_BYTES[at & 3] as number)));
        run(bytes, KEY);
        expect(bytes.equals(expected), `${length} bytes at ${offset}`).toBe(true);
      }
    }
  });

  it('continues within a payload with the key turned', () => {
    for (const cut of [1, 2, 3, 4, 5, 300]) {
      const whole = bytesAt(0, 700);
      const parts = Buffer.from(whole);
      run(whole, KEY);
      run(parts.subarray(0, cut), KEY);
      run(parts.subarray(cut), turnKey(KEY, cut));
      expect(parts.equals(whole), `cut at ${cut}`).toBe(true);
    }
  });

  it('changes nothing with a key of zeros', () => {
    const bytes = bytesAt(0, 300);
    const before = Buffer.from(bytes);
    run(bytes, 0);
    expect(bytes.equals(before)).toBe(true);
  });
});
