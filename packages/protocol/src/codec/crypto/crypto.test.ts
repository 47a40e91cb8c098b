import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { fromHex } from '../../base/testing/bytes.js';
import { checkedSuite } from '../../platform/crypto-suite.js';
import { cryptoSuite as nodeCrypto } from '../../platform/node-crypto.js';
import { cryptoSuite as webCrypto } from '../../platform/web-crypto.js';
import { loadOn, type UnderTest } from '../../testing/on-platform.js';

const bytes = (maxLength: number, minLength = 0) => fc.uint8Array({ minLength, maxLength });
const exactly = (length: number) => bytes(length, length);

describe.each(['node', 'web'] as const)('crypto on %s', (name) => {
  let on: UnderTest;
  beforeAll(async () => {
    on = await loadOn(name);
  });

  it('refuses every public key of low order, in every encoding', () => {
    // The points of order 1, 2, 4 and 8 on curve and twist, and their other encodings modulo p.
    const points = [
      `00${'00'.repeat(31)}`,
      `01${'00'.repeat(31)}`,
      'e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800',
      '5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157',
      `ec${'ff'.repeat(30)}7f`,
      `ed${'ff'.repeat(30)}7f`,
      `ee${'ff'.repeat(30)}7f`,
    ].map(fromHex);
    for (const point of points) {
      for (const topBit of [0, 0x80]) {
        const spelled = point.slice();
        spelled[31]! |= topBit;
        expect(on.codeOf(() => on.sharedSecret(new Uint8Array(32).fill(0x42), spelled))).toBe('invalid_key');
      }
    }
  });

  it('agrees on a key between new pairs, and on another for another context', () => {
    const [a, b] = [on.createKeyPair(), on.createKeyPair()];
    const key = on.agreeKey(a.secretKey, b.publicKey, 'x');
    expect(on.agreeKey(b.secretKey, a.publicKey, 'x')).toEqual(key);
    expect(on.agreeKey(b.secretKey, a.publicKey, 'y')).not.toEqual(key);
    expect(on.agreeKey(on.createKeyPair().secretKey, a.publicKey, 'x')).not.toEqual(key);
  });

  it('throws the same error for a wrong key and for damaged data', () => {
    const { seal, open } = on.cryptoSuite.chacha20poly1305;
    const [key, nonce, none] = [new Uint8Array(32), new Uint8Array(12), new Uint8Array(0)];
    const sealed = seal(key, nonce, Uint8Array.of(1, 2, 3), none);
    const errorOf = (run: () => unknown) => {
      try {
        return run();
      } catch (error) {
        const { code, message, cause } = error as InstanceType<UnderTest['ProtocolError']>;
        return { code, message, cause };
      }
    };
    const wrongKey = errorOf(() => open(new Uint8Array(32).fill(1), nonce, sealed, none));
    expect(wrongKey).toMatchObject({ code: 'authentication_failed' });
    expect(errorOf(() => open(key, nonce, sealed.with(0, 99), none))).toEqual(wrongKey);
    expect(errorOf(() => open(key, nonce, sealed.with(18, sealed[18]! ^ 1), none))).toEqual(wrongKey);
    expect(errorOf(() => open(key, nonce, sealed.subarray(0, 15), none))).toEqual(wrongKey);
    expect(errorOf(() => open(key, nonce.with(0, 1), sealed, none))).toEqual(wrongKey);
  });

  it('refuses keys and lengths just outside the bounds', () => {
    const { hkdfSha256, chacha20poly1305, x25519 } = on.cryptoSuite;
    const none = new Uint8Array(0);
    expect(hkdfSha256(none, none, 8160)).toHaveLength(8160);
    expect(hkdfSha256(none, new Uint8Array(1024), 1)).toHaveLength(1);
    for (const [info, length] of [
      [0, 8161],
      [0, 0],
      [0, 1.5],
      [1025, 32],
    ] as const) {
      expect(on.codeOf(() => hkdfSha256(none, new Uint8Array(info), length))).toBe('invalid_argument');
    }
    expect(on.deriveKey(new Uint8Array(16), 'x')).toHaveLength(32);
    expect(on.codeOf(() => on.deriveKey(new Uint8Array(15), 'x'))).toBe('invalid_key');
    for (const length of [31, 33]) {
      const key = new Uint8Array(length);
      expect(on.codeOf(() => chacha20poly1305.seal(key, new Uint8Array(12), none, none))).toBe('invalid_key');
      expect(on.codeOf(() => chacha20poly1305.open(key, new Uint8Array(12), key, none))).toBe('invalid_key');
      expect(on.codeOf(() => x25519.publicKey(key))).toBe('invalid_key');
      expect(on.codeOf(() => x25519.sharedSecret(key, new Uint8Array(32)))).toBe('invalid_key');
      expect(on.codeOf(() => x25519.sharedSecret(new Uint8Array(32), key))).toBe('invalid_key');
    }
    for (const length of [11, 13]) {
      const nonce = new Uint8Array(length);
      expect(on.codeOf(() => chacha20poly1305.seal(new Uint8Array(32), nonce, none, none))).toBe(
        'invalid_argument',
      );
    }
  });

  it('never gives an agent the key of its organisation or of a session', () => {
    for (const id of ['shared', 'session']) {
      expect(on.isKeyId(id)).toBe(false);
      expect(on.codeOf(() => on.keyPath.agent('org', id))).toBe('invalid_argument');
      expect(on.codeOf(() => on.keyPath.session('org', 'a', id, 's'))).toBe('invalid_argument');
    }
    for (const sessionId of ['', 'a/b', 'a b', 'é', 'x'.repeat(129)]) {
      expect(on.codeOf(() => on.keyPath.session('org', 'a', 'b', sessionId))).toBe('invalid_argument');
    }
    const longest = 'x'.repeat(128);
    expect(on.keyPath.session('org', 'a', 'b', longest)).toBe(`m2m/v1/org/session/a:b/${longest}`);
    expect(on.codeOf(() => on.keyPath.agent('org', 'a', 'shared' as never))).toBe('invalid_argument');
  });
});

it('refuses a shared secret of zeros even if the library accepts it', () => {
  const lax = checkedSuite({
    ...nodeCrypto,
    x25519: { ...nodeCrypto.x25519, sharedSecret: () => new Uint8Array(32) },
  });
  expect(() => lax.x25519.sharedSecret(new Uint8Array(32), new Uint8Array(32))).toThrow('low order');
});

describe('both crypto platforms compute the same results', () => {
  const both = <T>(run: (suite: typeof nodeCrypto) => T) => expect(run(webCrypto)).toEqual(run(nodeCrypto));

  it('hashes, tags and derived keys', () => {
    fc.assert(
      fc.property(bytes(200), bytes(300), fc.integer({ min: 1, max: 200 }), (key, data, length) => {
        both((suite) => suite.sha256(data));
        both((suite) => suite.hmacSha256(key, data));
        both((suite) => suite.hkdfSha256(key, data, length));
        both((suite) => suite.equal(key, data));
        both((suite) => suite.equal(key, key.slice()));
      }),
    );
  });

  it('sealed messages, which each can open for the other', () => {
    fc.assert(
      fc.property(exactly(32), exactly(12), bytes(300), bytes(50), (key, nonce, plaintext, associated) => {
        both((suite) => suite.chacha20poly1305.seal(key, nonce, plaintext, associated));
        const sealed = nodeCrypto.chacha20poly1305.seal(key, nonce, plaintext, associated);
        both((suite) => suite.chacha20poly1305.open(key, nonce, sealed, associated));
        expect(webCrypto.chacha20poly1305.open(key, nonce, sealed, associated)).toEqual(plaintext);
      }),
    );
  });

  it('public keys and shared secrets from any 32 bytes', () => {
    fc.assert(
      fc.property(exactly(32), exactly(32), (secretKey, publicKey) => {
        both((suite) => suite.x25519.publicKey(secretKey));
        both((suite) => suite.x25519.sharedSecret(secretKey, publicKey));
      }),
      { numRuns: 50 },
    );
  });

  it('whether two secrets are equal, at every position of a difference', () => {
    const secret = Uint8Array.from({ length: 32 }, (_, i) => i);
    for (let i = 0; i < 32; i++) {
      for (const suite of [nodeCrypto, webCrypto]) {
        expect(suite.equal(secret, secret.with(i, 0xff))).toBe(false);
        expect(suite.equal(secret, secret.subarray(0, i))).toBe(false);
      }
    }
  });
});
