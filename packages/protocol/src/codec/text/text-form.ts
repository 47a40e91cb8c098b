import type { Prefix } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import { DEFAULT_LIMITS, type Limits } from '../../base/limits.js';
import { encodeUtf8, utf8Length } from '../../base/text.js';

/** The parts common to all text forms: a prefix, and a limit on the size. */

/** @returns `wire` without its prefix. @throws {ProtocolError} `unknown_prefix`. */
export function stripPrefix(wire: string, ...prefixes: readonly Prefix[]): string {
  for (const prefix of prefixes) if (wire.startsWith(prefix)) return wire.slice(prefix.length);
  throw new ProtocolError('unknown_prefix', `expected text that begins with ${prefixes.join(' or ')}`);
}

/**
 * Checks the UTF-8 size of a message, without encoding it.
 *
 * @throws {ProtocolError} `message_too_large`.
 */
export function assertMessageSize(text: string, limits: Partial<Limits> = DEFAULT_LIMITS): void {
  const limit = limits.maxMessageSize ?? DEFAULT_LIMITS.maxMessageSize;
  // A code unit takes one to three bytes, so nearly every text passes without being measured.
  if (text.length * 3 <= limit) return;
  const size = text.length > limit ? text.length : utf8Length(text);
  if (size > limit) {
    throw new ProtocolError(
      'message_too_large',
      `the message has at least ${size} bytes, the limit is ${limit}`,
    );
  }
}

/** @throws {ProtocolError} `message_too_large`, `lone_surrogate`. */
export function encodeMessage(text: string, limits?: Partial<Limits>): Uint8Array<ArrayBuffer> {
  assertMessageSize(text, limits);
  return encodeUtf8(text);
}
