import { ProtocolError } from '../base/errors.js';

/**
 * Token IDs as LEB128 varints (compression document, section 5.4.4): up to 32 bits each, in their shortest
 * form, one after another.
 */

/**
 * Writes IDs as varints into a buffer of exactly their length.
 *
 * @param count how many of `ids` to write. @default all
 * @param headroom number of zero bytes to leave at the start, for the caller's header. @default 0
 */
export function encodeTokenIds(ids: Uint32Array, count = ids.length, headroom = 0): Uint8Array<ArrayBuffer> {
  let length = headroom;
  for (let i = 0; i < count; i++) {
    const id = ids[i] as number;
    length += id < 0x80 ? 1 : id < 0x4000 ? 2 : id < 0x200000 ? 3 : id < 0x10000000 ? 4 : 5;
  }
  const bytes = new Uint8Array(length);
  let at = headroom;
  for (let i = 0; i < count; i++) {
    let rest = ids[i] as number;
    while (rest >= 0x80) {
      bytes[at++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    bytes[at++] = rest;
  }
  return bytes;
}

/**
 * Reads varints up to the end of `bytes`. Does not check whether a vocabulary has these IDs.
 *
 * @param maxTokens the most tokens to accept, checked before anything is allocated.
 * @throws {ProtocolError} `message_too_large`; `truncated` if the last varint is incomplete; `bad_varint` if
 * one is overlong or over 32 bits.
 */
export function decodeTokenIds(bytes: Uint8Array, maxTokens = Number.POSITIVE_INFINITY): Uint32Array {
  let count = 0;
  for (let i = 0; i < bytes.length; i++) count += (bytes[i] as number) < 0x80 ? 1 : 0;
  if (count > maxTokens) {
    throw new ProtocolError(
      'message_too_large',
      `the frame holds ${count} tokens, but at most ${maxTokens} are accepted`,
    );
  }
  if (bytes.length > 0 && (bytes[bytes.length - 1] as number) >= 0x80) {
    throw new ProtocolError('truncated', 'the last token ID ends before its last byte');
  }
  const ids = new Uint32Array(count);
  let at = 0;
  for (let i = 0; i < count; i++) {
    let byte = bytes[at++] as number;
    let id = byte & 0x7f;
    if (byte >= 0x80) {
      let shift = 7;
      do {
        byte = bytes[at++] as number;
        if (shift === 28 && byte > 0x0f) {
          throw new ProtocolError('bad_varint', `token ID ${i} has more than 32 bits`);
        }
        id |= (byte & 0x7f) << shift;
        shift += 7;
      } while (byte >= 0x80);
      if (byte === 0) throw new ProtocolError('bad_varint', `token ID ${i} has a superfluous zero byte`);
    }
    ids[i] = id;
  }
  return ids;
}
