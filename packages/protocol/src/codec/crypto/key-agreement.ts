import { platform } from '#platform';
import { encodeUtf8 } from '../../base/text.js';
import { X25519_KEY_LENGTH } from '../../platform/crypto-suite.js';
import { DERIVED_KEY_LENGTH } from './keys.js';

/** Agreeing on a key with somebody whose public key is known: X25519, then HKDF (section 7). */

export interface KeyPair {
  /** 32 bytes, never sent. */
  readonly secretKey: Uint8Array;
  /** 32 bytes, for anybody. */
  readonly publicKey: Uint8Array;
}

/**
 * @param secretKey 32 bytes. @default random ones
 * @throws {ProtocolError} `invalid_key` for another length.
 */
export function createKeyPair(secretKey: Uint8Array = platform.randomBytes(X25519_KEY_LENGTH)): KeyPair {
  return { secretKey, publicKey: platform.crypto.x25519.publicKey(secretKey) };
}

/**
 * The secret of two key pairs, the same from either side. It is not uniformly random: derive keys
 * from it, as {@link agreeKey} does.
 *
 * @throws {ProtocolError} `invalid_key` for a length other than 32 bytes, and for a public key of
 * low order, with which anybody could compute the result.
 */
export function sharedSecret(secretKey: Uint8Array, peerPublicKey: Uint8Array): Uint8Array<ArrayBuffer> {
  return platform.crypto.x25519.sharedSecret(secretKey, peerPublicKey);
}

/**
 * A key of 32 bytes that only the two owners of the key pairs can compute.
 *
 * @param context what the key is for; another context gives an unrelated key.
 * @throws {ProtocolError} as {@link sharedSecret}.
 */
export function agreeKey(
  secretKey: Uint8Array,
  peerPublicKey: Uint8Array,
  context: string,
): Uint8Array<ArrayBuffer> {
  const info = encodeUtf8(context);
  return platform.crypto.hkdfSha256(sharedSecret(secretKey, peerPublicKey), info, DERIVED_KEY_LENGTH);
}
