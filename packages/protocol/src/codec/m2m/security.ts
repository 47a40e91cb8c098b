import { cryptoSuite } from '#crypto';
import { platform } from '#platform';
import { copyBytes } from '../../base/bytes.js';
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
 * Protection of M2M v1 frames (wire document, section 3.3.4). After the prefix, a frame holds:
 *
 *     NONE   header tail
 *     HMAC   header tail tag:32            the tag is over everything before it
 *     AEAD   header nonce:12 sealed tag:16 the header is the associated data, the tail is sealed
 *
 * where the tail is `payload_len:4 crc32:4 payload`. The mode is part of the header, which an attacker can
 * rewrite, so a receiver that has a key accepts only the mode of that key.
 */

/** The protection that an encoder gives frames and that a decoder requires of them. */
export interface M2MSecurity {
  readonly mode: 'HMAC' | 'AEAD';
  /**
   * HMAC: at least 16 bytes. AEAD: exactly 32; nonces are random, so use one key for at most 2^32 frames. Use
   * a separate key for each mode and direction.
   */
  readonly key: Uint8Array;
}

/**
 * Checks a protection before it is used.
 *
 * @throws {ProtocolError} `invalid_option`, `invalid_key`; the message never holds the key.
 */
export function resolveSecurity(security: M2MSecurity | undefined): M2MSecurity | undefined {
  if (security === undefined) return undefined;
  assertOptions(security, { mode: 'text', key: 'object' }, 'security');
  if (!(security.key instanceof Uint8Array)) {
    throw new ProtocolError('invalid_key', 'security.key: a Uint8Array is expected');
  }
  assertSecurity(security);
  // The caller may erase its own.
  return { mode: security.mode, key: copyBytes(security.key) };
}

/** The number of bytes that `security` adds to a frame. */
export function protectionLength(security: M2MSecurity | undefined): number {
  if (security === undefined) return 0;
  return security.mode === 'HMAC' ? SHA256_LENGTH : AEAD_NONCE_LENGTH + AEAD_TAG_LENGTH;
}

/**
 * Protects a frame in place.
 *
 * @param frame header and tail, followed by {@link protectionLength} bytes of room.
 * @param headerLength where the tail begins.
 * @param nonce for AEAD, and for tests only: a repeated nonce reveals both messages. @default random
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
    frame.set(cryptoSuite.hmacSha256(security.key, frame.subarray(0, end)), end);
    return;
  }
  const fresh = nonce ?? platform.randomBytes(AEAD_NONCE_LENGTH);
  const sealed = cryptoSuite.chacha20poly1305.seal(
    security.key,
    fresh,
    frame.subarray(headerLength, end),
    frame.subarray(0, headerLength),
  );
  frame.set(fresh, headerLength);
  frame.set(sealed, headerLength + AEAD_NONCE_LENGTH);
}

/**
 * Checks a frame's protection against `security` and returns its tail. Callers must not read anything after
 * the fixed header before this succeeds.
 *
 * @throws {ProtocolError} `security_required` if the frame's mode is not the required one, or if the frame is
 * protected and the decoder has no key; `authentication_failed`; `truncated`; `invalid_key`.
 */
export function unprotect(
  body: Uint8Array,
  fixed: FixedHeader,
  security: M2MSecurity | undefined,
): Uint8Array {
  if (security !== undefined) assertSecurity(security);
  const required = security?.mode ?? 'NONE';
  if (fixed.security !== required) {
    throw new ProtocolError(
      'security_required',
      security === undefined
        ? `the frame is protected by ${fixed.security}; give its receiver the same key as \`security\``
        : `the frame declares security ${fixed.security}, ${required} is required`,
    );
  }
  const { headerLength } = fixed;
  if (security === undefined) return body.subarray(headerLength);

  if (security.mode === 'HMAC') {
    const end = body.length - SHA256_LENGTH;
    if (end < headerLength) throw tooShort(body.length - headerLength, SHA256_LENGTH);
    const tag = cryptoSuite.hmacSha256(security.key, body.subarray(0, end));
    if (!cryptoSuite.equal(tag, body.subarray(end))) {
      throw new ProtocolError(
        'authentication_failed',
        'the frame is not authentic under this key; do both ends have the same?',
      );
    }
    return body.subarray(headerLength, end);
  }

  const sealedAt = headerLength + AEAD_NONCE_LENGTH;
  if (body.length < sealedAt + AEAD_TAG_LENGTH) {
    throw tooShort(body.length - headerLength, AEAD_NONCE_LENGTH + AEAD_TAG_LENGTH);
  }
  return cryptoSuite.chacha20poly1305.open(
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
    throw new ProtocolError('invalid_option', `security mode must be HMAC or AEAD, not ${String(mode)}`);
  }
  if (mode === 'HMAC' && key.length < MIN_SECRET_LENGTH) {
    throw new ProtocolError(
      'invalid_key',
      `an HMAC key must have at least ${MIN_SECRET_LENGTH} bytes, not ${key.length}`,
    );
  }
  if (mode === 'AEAD' && key.length !== AEAD_KEY_LENGTH) {
    throw new ProtocolError(
      'invalid_key',
      `an AEAD key must have ${AEAD_KEY_LENGTH} bytes, not ${key.length}`,
    );
  }
}

function tooShort(length: number, needed: number): ProtocolError {
  return new ProtocolError(
    'truncated',
    `${length} bytes follow the M2M header, but its security mode needs at least ${needed}`,
  );
}
