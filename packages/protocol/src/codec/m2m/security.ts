import { platform } from '#platform';
import { ProtocolError } from '../../base/errors.js';
import { assertOptions } from '../../base/options.js';
import {
  AEAD_KEY_LENGTH,
  AEAD_NONCE_LENGTH,
  AEAD_TAG_LENGTH,
  MIN_SECRET_LENGTH,
  SHA256_LENGTH,
} from '../../platform/crypto-suite.js';
import type { FixedHeader } from './fields.js';

/**
 * Protection of M2M v1 frames (wire document, section 3.3.4), all of it behind the prefix:
 *
 *     NONE   header tail
 *     HMAC   header tail tag:32            the tag is over everything before it
 *     AEAD   header nonce:12 sealed tag:16 the header is the associated data, the tail is sealed
 *
 * where the tail is `payload_len:4 crc32:4 payload`. The header states the mode, so an attacker can
 * rewrite it: a receiver that has a key takes nothing but the mode it was given.
 */

/** A protection that frames are given and, where it is set on a decoder, must have. */
export interface M2MSecurity {
  readonly mode: 'HMAC' | 'AEAD';
  /**
   * HMAC: at least 16 bytes. AEAD: exactly 32; nonces are random, so that one key serves 2^32 frames
   * at most. Use one key for each mode and direction.
   */
  readonly key: Uint8Array;
}

/**
 * Checks a protection before anything is sent under it.
 *
 * @throws {ProtocolError} `invalid_option`, `invalid_key`; never with the key.
 */
export function resolveSecurity(security: M2MSecurity | undefined): M2MSecurity | undefined {
  if (security === undefined) return undefined;
  assertOptions(security, { mode: 'text', key: 'object' }, 'security');
  if (!(security.key instanceof Uint8Array)) {
    throw new ProtocolError('invalid_key', 'security.key: bytes are expected (a Uint8Array)');
  }
  assertSecurity(security);
  return security;
}

/** Bytes that `security` adds to a frame. */
export function protectionLength(security: M2MSecurity | undefined): number {
  if (security === undefined) return 0;
  return security.mode === 'HMAC' ? SHA256_LENGTH : AEAD_NONCE_LENGTH + AEAD_TAG_LENGTH;
}

/**
 * Protects a frame in its own memory.
 *
 * @param frame header and tail, with {@link protectionLength} bytes of room behind.
 * @param headerLength where the tail begins.
 * @param nonce for AEAD; for tests only, as a repeated nonce gives both messages away. @default random
 * @throws {ProtocolError} `invalid_key`, `invalid_option` for an unknown mode, `invalid_argument` for
 * a nonce of another length.
 */
export function protect(
  frame: Uint8Array,
  headerLength: number,
  security: M2MSecurity | undefined,
  nonce?: Uint8Array,
): void {
  if (security === undefined) return;
  assertSecurity(security);
  const end = frame.length - protectionLength(security);
  if (security.mode === 'HMAC') {
    frame.set(platform.crypto.hmacSha256(security.key, frame.subarray(0, end)), end);
    return;
  }
  const fresh = nonce ?? platform.randomBytes(AEAD_NONCE_LENGTH);
  const sealed = platform.crypto.chacha20poly1305.seal(
    security.key,
    fresh,
    frame.subarray(headerLength, end),
    frame.subarray(0, headerLength),
  );
  frame.set(fresh, headerLength);
  frame.set(sealed, headerLength + AEAD_NONCE_LENGTH);
}

/**
 * Checks a frame's protection against `security` and returns its tail; nothing behind the fixed
 * header has been looked at before this succeeds.
 *
 * @throws {ProtocolError} `security_required` where the frame's mode is not the one demanded, or a
 * protected frame meets a decoder without a key; `authentication_failed`; `truncated`;
 * `invalid_key`.
 */
export function unprotect(
  body: Uint8Array,
  fixed: FixedHeader,
  security: M2MSecurity | undefined,
): Uint8Array {
  if (security !== undefined) assertSecurity(security);
  const demanded = security?.mode ?? 'NONE';
  if (fixed.security !== demanded) {
    throw new ProtocolError(
      'security_required',
      security === undefined
        ? `the frame is protected by ${fixed.security}; give the decoder its key as \`security\``
        : `the frame states security ${fixed.security}, ${demanded} is required`,
    );
  }
  const { headerLength } = fixed;
  if (security === undefined) return body.subarray(headerLength);

  if (security.mode === 'HMAC') {
    const end = body.length - SHA256_LENGTH;
    if (end < headerLength) throw tooShort(body.length - headerLength, SHA256_LENGTH);
    const tag = platform.crypto.hmacSha256(security.key, body.subarray(0, end));
    if (!platform.crypto.equal(tag, body.subarray(end))) {
      throw new ProtocolError('authentication_failed', 'the frame is not authentic under this key');
    }
    return body.subarray(headerLength, end);
  }

  const sealedAt = headerLength + AEAD_NONCE_LENGTH;
  if (body.length < sealedAt + AEAD_TAG_LENGTH) {
    throw tooShort(body.length - headerLength, AEAD_NONCE_LENGTH + AEAD_TAG_LENGTH);
  }
  return platform.crypto.chacha20poly1305.open(
    security.key,
    body.subarray(headerLength, sealedAt),
    body.subarray(sealedAt),
    body.subarray(0, headerLength),
  );
}

/**
 * @throws {ProtocolError} `invalid_option` for an unknown mode, `invalid_key` for a key of the wrong
 * length.
 */
export function assertSecurity({ mode, key }: M2MSecurity): void {
  if (mode !== 'HMAC' && mode !== 'AEAD') {
    throw new ProtocolError('invalid_option', `security mode is HMAC or AEAD, not ${String(mode)}`);
  }
  if (mode === 'HMAC' && key.length < MIN_SECRET_LENGTH) {
    throw new ProtocolError(
      'invalid_key',
      `an HMAC key has at least ${MIN_SECRET_LENGTH} bytes, not ${key.length}`,
    );
  }
  if (mode === 'AEAD' && key.length !== AEAD_KEY_LENGTH) {
    throw new ProtocolError('invalid_key', `an AEAD key has ${AEAD_KEY_LENGTH} bytes, not ${key.length}`);
  }
}

function tooShort(length: number, needed: number): ProtocolError {
  return new ProtocolError(
    'truncated',
    `${length} bytes follow the M2M header, its security mode needs ${needed} at least`,
  );
}
