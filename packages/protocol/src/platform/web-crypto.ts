import { chacha20poly1305 } from '@noble/ciphers/chacha.js';
import { x25519 } from '@noble/curves/ed25519.js';
import { hkdf } from '@noble/hashes/hkdf.js';
import { hmac } from '@noble/hashes/hmac.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { type CryptoSuite, checkedSuite } from './crypto-suite.js';

type Bytes = Uint8Array<ArrayBuffer>;

/** The primitives of `@noble`, for browsers and workers: WebCrypto has no synchronous calls. */
export const cryptoSuite: CryptoSuite = checkedSuite({
  sha256: (bytes) => sha256(bytes) as Bytes,

  hmacSha256: (key, bytes) => hmac(sha256, key, bytes) as Bytes,

  hkdfSha256: (secret, info, length) => hkdf(sha256, secret, undefined, info, length) as Bytes,

  chacha20poly1305: {
    seal: (key, nonce, plaintext, associated) =>
      chacha20poly1305(key, nonce, associated).encrypt(plaintext) as Bytes,
    open: (key, nonce, sealed, associated) =>
      chacha20poly1305(key, nonce, associated).decrypt(sealed) as Bytes,
  },

  x25519: {
    publicKey: (secretKey) => x25519.getPublicKey(secretKey) as Bytes,
    sharedSecret: (secretKey, publicKey) => x25519.getSharedSecret(secretKey, publicKey) as Bytes,
  },

  equal(a, b) {
    if (a.length !== b.length) return false;
    let difference = 0;
    for (let i = 0; i < a.length; i++) difference |= (a[i] as number) ^ (b[i] as number);
    return difference === 0;
  },
});
