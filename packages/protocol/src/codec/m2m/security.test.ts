import { beforeAll, describe, expect, it } from 'vitest';
import { toHex } from '../../base/testing/bytes.js';
import { AEAD, defined, HMAC, key, LARGE, PREFIX, SMALL } from '../../testing/m2m-shapes.js';
import { loadOn, type UnderTest } from '../../testing/on-platform.js';
import type { M2MSecurity } from './security.js';

describe.each(['node', 'web'] as const)('M2M v1 security on %s', (name) => {
  let on: UnderTest;
  beforeAll(async () => {
    on = await loadOn(name);
  });

  it('accepts exactly the required mode', () => {
    for (const sent of [undefined, HMAC, AEAD]) {
      const frame = on.encodeM2M(SMALL, defined({ security: sent }));
      for (const demanded of [undefined, HMAC, AEAD]) {
        const code = on.codeOf(() => on.decodeM2M(frame, defined({ security: demanded })));
        expect(code).toBe(sent === demanded ? 'no error' : 'security_required');
      }
    }
  });

  it.each([
    ['HMAC', HMAC, SMALL],
    ['HMAC', HMAC, LARGE],
    ['AEAD', AEAD, SMALL],
    ['AEAD', AEAD, LARGE],
  ] as const)('%s: every single flipped bit and every truncation is refused', (_, security, json) => {
    const frame = on.encodeM2M(json, { security });
    for (let bit = 0; bit < frame.length * 8; bit++) {
      const at = bit >> 3;
      const flipped = frame.with(at, frame[at]! ^ (1 << (bit & 7)));
      expect(
        on.codeOf(() => on.decodeM2M(flipped, { security })),
        `bit ${bit}`,
      ).not.toBe('no error');
    }
    for (let length = 0; length < frame.length; length++) {
      const cut = frame.subarray(0, length);
      expect(
        on.codeOf(() => on.decodeM2M(cut, { security })),
        `length ${length}`,
      ).not.toBe('no error');
    }
    expect(on.codeOf(() => on.decodeM2M(Buffer.concat([frame, key.subarray(0, 1)]), { security }))).toBe(
      'authentication_failed',
    );
    expect(on.decodeM2M(frame, { security }).json).toBe(json);
  });

  it('throws the same error for another key as for damage', () => {
    for (const security of [HMAC, AEAD]) {
      const frame = on.encodeM2M(SMALL, { security });
      const other = { ...security, key: key.with(0, 1) };
      expect(on.codeOf(() => on.decodeM2M(frame, { security: other }))).toBe('authentication_failed');
    }
  });

  it('accepts only keys of the right length', () => {
    const lengths = [
      ['HMAC', 15, 'invalid_key'],
      ['HMAC', 16, 'no error'],
      ['HMAC', 100, 'no error'],
      ['AEAD', 31, 'invalid_key'],
      ['AEAD', 32, 'no error'],
      ['AEAD', 33, 'invalid_key'],
    ] as const;
    for (const [mode, length, code] of lengths) {
      const security = { mode, key: new Uint8Array(length) };
      expect(on.codeOf(() => on.encodeM2M(SMALL, { security }))).toBe(code);
      const frame = on.encodeM2M(SMALL, { security: mode === 'HMAC' ? HMAC : AEAD });
      expect(on.codeOf(() => on.decodeM2M(frame, { security }))).toBe(
        code === 'no error' ? 'authentication_failed' : code,
      );
    }
    const unknown = { mode: 'NONE', key } as unknown as M2MSecurity;
    expect(on.codeOf(() => on.encodeM2M(SMALL, { security: unknown }))).toBe('invalid_option');
    expect(on.codeOf(() => on.decodeM2M(on.encodeM2M(SMALL), { security: unknown }))).toBe('invalid_option');
  });

  it('uses a new nonce for each frame, or the one from the options', () => {
    const nonces = Array.from({ length: 100 }, () => {
      const frame = on.encodeM2M(SMALL, { security: AEAD });
      const at = PREFIX + on.readM2MHeader(frame).headerLength;
      return toHex(frame.subarray(at, at + 12));
    });
    expect(new Set(nonces).size).toBe(100);
    const nonce = new Uint8Array(12).fill(7);
    const [a, b] = [1, 2].map(() => on.encodeM2M(SMALL, { security: AEAD, nonce }));
    expect(a).toEqual(b);
    const short = nonce.subarray(1);
    expect(on.codeOf(() => on.encodeM2M(SMALL, { security: AEAD, nonce: short }))).toBe('invalid_argument');
  });
});
