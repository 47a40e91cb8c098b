import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  hkdfSync,
  timingSafeEqual,
} from 'node:crypto';
import { AEAD_TAG_LENGTH, type CryptoSuite, checkedSuite } from './crypto-suite.js';

const AEAD = 'chacha20-poly1305';
const NO_SALT = new Uint8Array(0);

// OpenSSL accepts X25519 keys only in ASN.1. The bytes before the 32 of a PKCS #8 secret key, and of an SPKI
// public key, are always the same (RFC 8410).
const SECRET_KEY_HEAD = Uint8Array.of(48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 110, 4, 34, 4, 32);
const PUBLIC_KEY_HEAD = Uint8Array.of(48, 42, 48, 5, 6, 3, 43, 101, 110, 3, 33, 0);

/** The primitives of `node:crypto`. */
export const cryptoSuite: CryptoSuite = checkedSuite({
  sha256: (bytes) => plain(createHash('sha256').update(bytes).digest()),

  hmacSha256: (key, bytes) => plain(createHmac('sha256', key).update(bytes).digest()),

  hkdfSha256: (secret, info, length) =>
    new Uint8Array(hkdfSync('sha256', secret, NO_SALT, info, length) as ArrayBuffer),

  chacha20poly1305: {
    seal(key, nonce, plaintext, associated) {
      const cipher = createCipheriv(AEAD, key, nonce, { authTagLength: AEAD_TAG_LENGTH });
      cipher.setAAD(associated, { plaintextLength: plaintext.length });
      const sealed = new Uint8Array(plaintext.length + AEAD_TAG_LENGTH);
      sealed.set(cipher.update(plaintext));
      cipher.final();
      sealed.set(cipher.getAuthTag(), plaintext.length);
      return sealed;
    },
    open(key, nonce, sealed, associated) {
      const length = sealed.length - AEAD_TAG_LENGTH;
      const decipher = createDecipheriv(AEAD, key, nonce, { authTagLength: AEAD_TAG_LENGTH });
      decipher.setAAD(associated, { plaintextLength: length });
      decipher.setAuthTag(sealed.subarray(length));
      const plaintext = decipher.update(sealed.subarray(0, length));
      decipher.final(); // throws if the tag does not match
      return plain(plaintext);
    },
  },

  x25519: {
    publicKey(secretKey) {
      const spki = createPublicKey(secretKeyObject(secretKey)).export({ format: 'der', type: 'spki' });
      return new Uint8Array(spki.subarray(PUBLIC_KEY_HEAD.length));
    },
    sharedSecret(secretKey, publicKey) {
      const key = Buffer.concat([PUBLIC_KEY_HEAD, publicKey]);
      return plain(
        diffieHellman({
          privateKey: secretKeyObject(secretKey),
          publicKey: createPublicKey({ key, format: 'der', type: 'spki' }),
        }),
      );
    },
  },

  equal: (a, b) => a.length === b.length && timingSafeEqual(a, b),
});

function secretKeyObject(secretKey: Uint8Array) {
  return createPrivateKey({
    key: Buffer.concat([SECRET_KEY_HEAD, secretKey]),
    format: 'der',
    type: 'pkcs8',
  });
}

/** The memory of `buffer` as a plain `Uint8Array`, as the interface promises. */
function plain(buffer: Buffer): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer.buffer as ArrayBuffer, buffer.byteOffset, buffer.length);
}
