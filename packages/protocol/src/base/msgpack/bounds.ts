import { ProtocolError } from '../errors.js';
import { decodeUtf8 } from '../text.js';

/**
 * MessagePack within bounds. A decoder allocates a list as soon as it has read its head, and a head takes
 * three bytes: 64 KiB of nested heads would make it allocate 11 GB. So one pass over the heads, without
 * recursion and before any value is built, finds nesting beyond the limit and lists that the bytes cannot
 * hold. Strings are checked strictly here, because the decoder repairs invalid UTF-8 instead of refusing it.
 */

/** Bytes of the length, or of the value, after the heads from 0xc4 to 0xdf. */
const WIDTHS: readonly number[] = [
  ...[1, 2, 4, 1, 2, 4], // bin, ext
  ...[4, 8, 1, 2, 4, 8, 1, 2, 4, 8], // float, uint, int
  ...[2, 3, 5, 9, 17], // fixext, its type included
  ...[1, 2, 4, 2, 4, 2, 4], // str, array, map
];
const FIRST_WIDTH = 0xc4;
/** The decoder drops the byte-order mark of longer strings. */
const MAX_MARKED_STRING = 200;

/**
 * Strings up to this length are scanned for non-ASCII bytes first: a map of many short strings costs a tenth
 * of decoding each.
 */
const MAX_SCANNED_STRING = 64;

function isAscii(bytes: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if ((bytes[at] as number) >= 0x80) return false;
  return true;
}

const isMarked = (bytes: Uint8Array, at: number) =>
  bytes[at] === 0xef && bytes[at + 1] === 0xbb && bytes[at + 2] === 0xbf;

/**
 * Checks that `bytes` are exactly one MessagePack value.
 *
 * @param maxDepth how deep lists and maps may be nested.
 * @param what names the value in errors.
 * @param maxEntries entries of all lists and maps together; an empty list or map counts as one entry.
 * @throws {ProtocolError} `bad_message` if the bytes end too early or too late, or announce more values than
 * they can hold; `message_too_large` for too many entries; `json_too_deep`; `bad_utf8`.
 */
export function assertMsgpackBounds(
  bytes: Uint8Array,
  maxDepth: number,
  what: string,
  maxEntries = Infinity,
): void {
  /** Values still to come in each open list or map, the innermost last. */
  const open: number[] = [];
  /** Values still to come in all of them; each takes at least one byte. */
  let pending = 1;
  let at = 0;
  let entriesLeft = maxEntries;

  const malformed = (fault: string) =>
    new ProtocolError('bad_message', `${what} is not well-formed MessagePack: it ${fault}`);
  const number = (width: number): number => {
    let value = 0;
    for (const end = at + width; at < end; at++) value = value * 0x100 + (bytes[at] ?? 0);
    return value;
  };

  while (pending > 0) {
    const head = bytes[at++];
    if (head === undefined) throw malformed('ends too early');
    pending--;
    if (open.length > 0) open.push((open.pop() as number) - 1);

    let items = -1;
    let skipped = 0;
    const isMap = (head >= 0x80 && head <= 0x8f) || head === 0xde || head === 0xdf;
    if (head >= 0x80 && head <= 0x8f) items = (head & 0x0f) * 2;
    else if (head >= 0x90 && head <= 0x9f) items = head & 0x0f;
    else if (head >= 0xa0 && head <= 0xbf) skipped = head & 0x1f;
    else if (head === 0xc1) throw malformed('holds the byte 0xc1, which means nothing');
    else if (head >= FIRST_WIDTH && head <= 0xdf) {
      const width = WIDTHS[head - FIRST_WIDTH] as number;
      if (head >= 0xde) items = number(width) * 2;
      else if (head >= 0xdc) items = number(width);
      else if (head >= 0xd9 || head <= 0xc6) skipped = number(width);
      else if (head <= 0xc9) skipped = number(width) + 1;
      else skipped = width;
    }
    at += skipped;
    if (at > bytes.length) throw malformed('ends too early');
    const isString = (head >= 0xa0 && head <= 0xbf) || (head >= 0xd9 && head <= 0xdb);
    if (isString) {
      if (skipped > MAX_SCANNED_STRING || !isAscii(bytes, at - skipped, at)) {
        decodeUtf8(bytes.subarray(at - skipped, at));
      }
      if (skipped > MAX_MARKED_STRING && isMarked(bytes, at - skipped)) {
        throw malformed('holds a long string that begins with a byte-order mark, which would be lost');
      }
    }

    if (items >= 0) {
      if (open.length >= maxDepth) {
        throw new ProtocolError('json_too_deep', `${what} is nested more than ${maxDepth} levels deep`);
      }
      pending += items;
      if (pending > bytes.length - at) throw malformed('announces more values than its bytes can hold');
      entriesLeft -= Math.max(1, isMap ? items / 2 : items);
      if (entriesLeft < 0) {
        throw new ProtocolError('message_too_large', `${what} holds more than ${maxEntries} entries`);
      }
      open.push(items);
    }
    while (open.at(-1) === 0) open.pop();
  }
  if (at < bytes.length) throw malformed(`continues for ${bytes.length - at} bytes after its end`);
}
