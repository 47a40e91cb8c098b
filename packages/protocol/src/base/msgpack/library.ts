import { Decoder, Encoder, ExtensionCodec } from '@msgpack/msgpack';
import { ProtocolError, toProtocolError } from '../errors.js';
import { assertWellFormed } from '../text.js';
import { assertMsgpackBounds } from './bounds.js';

/** MessagePack on Node: a library for speed, within bounds. Pages load `small.ts` in its place. */

export { assertMsgpackBounds };

/** The nesting depth that the encoder allows. */
const MAX_OWN_DEPTH = 101;

// MessagePack's extension types (timestamps among them) have no place in the protocol.
class NoExtensions extends ExtensionCodec {
  override tryToEncode(): null {
    return null;
  }
  override decode(): never {
    throw new ProtocolError('bad_message', 'MessagePack extension types are not used in control messages');
  }
}
const extensionCodec = new NoExtensions();
const encoder = new Encoder({ extensionCodec, ignoreUndefined: true });

/**
 * Decodes exactly one MessagePack value.
 *
 * @param maxDepth how deep lists and maps may be nested.
 * @param what names the value in errors.
 * @param maxEntries entries of all its lists and maps together. @default unlimited
 * @throws {ProtocolError} `bad_message`, also for extension types and the key `__proto__`; `json_too_deep`; `bad_utf8`;
 * `message_too_large` for too many entries.
 */
export function decodeMsgpack(
  bytes: Uint8Array,
  maxDepth: number,
  what: string,
  maxEntries?: number,
): unknown {
  assertMsgpackBounds(bytes, maxDepth, what, maxEntries);
  try {
    return new Decoder({ extensionCodec }).decode(bytes);
  } catch (cause) {
    throw toProtocolError(cause, 'bad_message', `${what} is not well-formed MessagePack`);
  }
}

/**
 * Encodes a plain value; `undefined` entries of maps are left out.
 *
 * @throws {ProtocolError} `invalid_argument` if a value has no MessagePack form, `lone_surrogate`, `bad_message` for
 * a long string that begins with a byte-order mark.
 */
export function encodeMsgpack(value: unknown): Uint8Array<ArrayBuffer> {
  try {
    const bytes = encoder.encode(value);
    // The encoder writes a lone surrogate as bytes that are not UTF-8, which every peer would refuse.
    assertMsgpackBounds(bytes, MAX_OWN_DEPTH, 'the map');
    // In longer strings it writes U+FFFD in its place.
    if (holdsReplacement(bytes)) assertStrings(value);
    return bytes;
  } catch (cause) {
    if (cause instanceof ProtocolError && cause.code === 'bad_utf8') {
      throw new ProtocolError('lone_surrogate', 'a string of the map has half of a surrogate pair', {
        cause,
      });
    }
    throw toProtocolError(cause, 'invalid_argument', 'a value of the map has no MessagePack form');
  }
}

/** Whether the bytes contain U+FFFD in UTF-8. */
function holdsReplacement(bytes: Uint8Array): boolean {
  for (let at = bytes.indexOf(0xef); at !== -1; at = bytes.indexOf(0xef, at + 1)) {
    if (bytes[at + 1] === 0xbf && bytes[at + 2] === 0xbd) return true;
  }
  return false;
}

/** Checks all strings of a value that was encoded. @throws {ProtocolError} `lone_surrogate`. */
function assertStrings(value: unknown): void {
  if (typeof value === 'string') assertWellFormed(value);
  else if (Array.isArray(value)) value.forEach(assertStrings);
  else if (typeof value === 'object' && value !== null && !ArrayBuffer.isView(value)) {
    for (const [key, member] of Object.entries(value)) {
      assertWellFormed(key);
      assertStrings(member);
    }
  }
}
