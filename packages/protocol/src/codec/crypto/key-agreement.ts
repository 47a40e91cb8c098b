import { cryptoSuite } from '#crypto';
import { platform } from '#platform';
import { encodeUtf8 } from '../../base/text.js';
import { X25519_KEY_LENGTH } from '../../platform/crypto-suite.js';
import { DERIVED_KEY_LENGTH } from './keys.js';

/** Agrees on a key with a peer whose public key is known: X25519, then HKDF (section 7). */

export interface KeyPair {
  /** 32 bytes. Keep it secret; it is never sent. */
  readonly secretKey: Uint8Array;
  /** 32 bytes, to send to peers. */
  readonly publicKey: Uint8Array;
}

/**
 * @param secretKey 32 bytes. @default a random key
 * @throws {ProtocolError} `invalid_key` for another length.
 */
export function createKeyPair(secretKey: Uint8Array = platform.randomBytes(X25519_KEY_LENGTH)): KeyPair {
  return { secretKey, publicKey: cryptoSuite.x25519.publicKey(secretKey) };
}

/**
 * Computes the shared secret of two key pairs, the same from either side. It is not uniformly random: derive
 * keys from it, as {@link agreeKey} does.
 *
 * @throws {ProtocolError} `invalid_key` if a key does not have 32 bytes, or if the public key has low order:
 * anyone could then compute the result.
 */
export function sharedSecret(secretKey: Uint8Array, peerPublicKey: Uint8Array): Uint8Array<ArrayBuffer> {
  return cryptoSuite.x25519.sharedSecret(secretKey, peerPublicKey);
}

/**
 * Derives a key of 32 bytes that only the owners of the two key pairs can compute.
 *
 * @param context the purpose of the key; another context gives an unrelated key.
 * @throws {ProtocolError} as {@link sharedSecret}; `lone_surrogate`.
 */
export function agreeKey(
  secretKey: Uint8Array,
  peerPublicKey: Uint8Array,
  context: string,
): Uint8Array<ArrayBuffer> {
  const info = encodeUtf8(context);
  return cryptoSuite.hkdfSha256(sharedSecret(secretKey, peerPublicKey), info, DERIVED_KEY_LENGTH);
}
