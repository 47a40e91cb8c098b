import { ProtocolError } from '../base/errors.js';

/**
 * The primitives of section 7 in one interface: `node:crypto` on Node, `@noble` elsewhere. Everything is
 * synchronous. {@link checkedSuite} gives both the same checks and errors, so that callers cannot tell them
 * apart.
 */

type Bytes = Uint8Array<ArrayBuffer>;

export interface CryptoSuite {
  /** 32 bytes. */
  sha256(bytes: Uint8Array): Bytes;

  /** A tag of 32 bytes (RFC 2104). The key may have any length; one of more than 64 bytes is hashed first. */
  hmacSha256(key: Uint8Array, bytes: Uint8Array): Bytes;

  /**
   * HKDF without salt (RFC 5869).
   *
   * @param info at most 1024 bytes.
   * @param length bytes to derive, 1 to 8160.
   * @throws {ProtocolError} `invalid_argument` outside these bounds.
   */
  hkdfSha256(secret: Uint8Array, info: Uint8Array, length: number): Bytes;

  /** RFC 8439; the key has 32 bytes, the nonce 12. The caller must never use the same pair twice. */
  readonly chacha20poly1305: {
    /** @returns the ciphertext, as long as the plaintext, and 16 bytes of tag. */
    seal(key: Uint8Array, nonce: Uint8Array, plaintext: Uint8Array, associated: Uint8Array): Bytes;
    /**
     * @param sealed ciphertext and tag.
     * @throws {ProtocolError} `authentication_failed` for a wrong key or damaged data; unauthenticated
     * plaintext is never returned.
     */
    open(key: Uint8Array, nonce: Uint8Array, sealed: Uint8Array, associated: Uint8Array): Bytes;
  };

  /** RFC 7748; all keys and results have 32 bytes. */
  readonly x25519: {
    publicKey(secretKey: Uint8Array): Bytes;
    /**
     * @throws {ProtocolError} `invalid_key` if the public key has low order, so that the result would not
     * depend on the secret key (RFC 7748, section 6.1).
     */
    sharedSecret(secretKey: Uint8Array, publicKey: Uint8Array): Bytes;
  };

  /** Compares secrets of equal length in a time that does not depend on their content. */
  equal(a: Uint8Array, b: Uint8Array): boolean;
}

/** Minimum length, in bytes, of a secret to derive from or to authenticate with. */
export const MIN_SECRET_LENGTH = 16;
export const SHA256_LENGTH = 32;
export const AEAD_KEY_LENGTH = 32;
export const AEAD_NONCE_LENGTH = 12;
export const AEAD_TAG_LENGTH = 16;
export const X25519_KEY_LENGTH = 32;
/** RFC 5869: 255 blocks of the hash. */
export const MAX_HKDF_LENGTH = 255 * SHA256_LENGTH;
/** OpenSSL's limit; the other libraries would accept more. */
const MAX_HKDF_INFO_LENGTH = 1024;

/** Checks every length before calling `suite`, and turns its failures into `ProtocolError`s. */
export function checkedSuite(suite: CryptoSuite): CryptoSuite {
  const { chacha20poly1305, x25519 } = suite;
  return {
    sha256: suite.sha256,
    hmacSha256: suite.hmacSha256,
    equal: suite.equal,

    hkdfSha256(secret, info, length) {
      if (!Number.isInteger(length) || length < 1 || length > MAX_HKDF_LENGTH) {
        throw new ProtocolError(
          'invalid_argument',
          `HKDF derives 1 to ${MAX_HKDF_LENGTH} bytes, not ${length}`,
        );
      }
      if (info.length > MAX_HKDF_INFO_LENGTH) {
        throw new ProtocolError(
          'invalid_argument',
          `HKDF info has ${info.length} bytes, at most ${MAX_HKDF_INFO_LENGTH} are allowed`,
        );
      }
      return suite.hkdfSha256(secret, info, length);
    },

    chacha20poly1305: {
      seal(key, nonce, plaintext, associated) {
        checkAead(key, nonce);
        return chacha20poly1305.seal(key, nonce, plaintext, associated);
      },
      open(key, nonce, sealed, associated) {
        checkAead(key, nonce);
        if (sealed.length < AEAD_TAG_LENGTH) throw notAuthentic();
        try {
          return chacha20poly1305.open(key, nonce, sealed, associated);
        } catch {
          // No `cause`: the libraries' messages differ, and none may reveal why it failed.
          throw notAuthentic();
        }
      },
    },

    x25519: {
      publicKey(secretKey) {
        checkKey(secretKey, X25519_KEY_LENGTH, 'an X25519 secret key');
        return x25519.publicKey(secretKey);
      },
      sharedSecret(secretKey, publicKey) {
        checkKey(secretKey, X25519_KEY_LENGTH, 'an X25519 secret key');
        checkKey(publicKey, X25519_KEY_LENGTH, 'an X25519 public key');
        let shared: Bytes | undefined;
        try {
          shared = x25519.sharedSecret(secretKey, publicKey);
        } catch {
          // Both libraries refuse the all-zero result themselves; the test below does not rely on it.
        }
        if (shared === undefined || shared.every((byte) => byte === 0)) {
          throw new ProtocolError('invalid_key', 'the X25519 public key has low order; ask for another');
        }
        return shared;
      },
    },
  };
}

function checkAead(key: Uint8Array, nonce: Uint8Array): void {
  checkKey(key, AEAD_KEY_LENGTH, 'a ChaCha20-Poly1305 key');
  if (nonce.length !== AEAD_NONCE_LENGTH) {
    throw new ProtocolError(
      'invalid_argument',
      `a ChaCha20-Poly1305 nonce must have ${AEAD_NONCE_LENGTH} bytes, not ${nonce.length}`,
    );
  }
}

function checkKey(key: Uint8Array, length: number, what: string): void {
  if (key.length !== length) {
    throw new ProtocolError('invalid_key', `${what} must have ${length} bytes, not ${key.length}`);
  }
}

function notAuthentic(): ProtocolError {
  return new ProtocolError(
    'authentication_failed',
    'the data is not authentic under this key; do both ends have the same?',
  );
}
