import { decodeMsgpack, encodeMsgpack } from '#msgpack';
import { ProtocolError } from '../base/errors.js';
import { bad, type Fields, isFields } from '../base/fields.js';

/** Maps of plain values as MessagePack, and the bounds of control messages, which are such maps. */

/** UTF-16 units. */
export const MAX_MESSAGE_LENGTH = 1024;
/** Bytes of a control message after ACCEPT: the longest token in an envelope. */
export const MAX_CONTROL_SIZE = 20 * 1024;
/** Entries of all lists and maps of a control message together; an empty list or map counts as one entry. */
export const MAX_CONTROL_ENTRIES = 512;

/**
 * Decodes one MessagePack map of plain values.
 *
 * @param what the map's name in errors.
 * @param maxEntries entries of all its lists and maps together. @default unlimited
 * @throws {ProtocolError} `bad_message`, `json_too_deep`, `bad_utf8`, `message_too_large` for too many entries.
 */
export function decodeMap(bytes: Uint8Array, maxDepth: number, what: string, maxEntries?: number): Fields {
  const value = decodeMsgpack(bytes, maxDepth, what, maxEntries);
  if (!isFields(value)) throw bad(what, 'a map');
  return value;
}

/**
 * Encodes a map of plain values; `undefined` entries are left out.
 *
 * @throws {ProtocolError} `invalid_argument` if a value has no MessagePack form, `lone_surrogate`.
 */
export function encodeMap(fields: Fields): Uint8Array<ArrayBuffer> {
  return encodeMsgpack(fields);
}

/** @throws {ProtocolError} `message_too_large`. */
export function assertControlSize(size: number, max: number): void {
  if (size <= max) return;
  throw new ProtocolError(
    'message_too_large',
    `a control message of ${size} bytes; at most ${max} are accepted`,
  );
}
