import { ByteWriter } from '../bytes.js';
import { ProtocolError, toProtocolError } from '../errors.js';
import { decodeUtf8, encodeUtf8 } from '../text.js';

/**
 * MessagePack for pages: a kilobyte in place of the library behind `library.ts`, with the same values, bytes and error
 * codes. The reader takes one pass. It checks what a head announces before it builds anything, and it recurses at most
 * {@link MAX_DEPTH} levels.
 */

const MAP = 0xde;
const LIST = 0xdc;
const TEXT = 0xd9;
/** Bytes of the length, or of the value, after the heads from 0xc4 to 0xdf: code units from `0` on; `A` is 17. */
const WIDTHS = '12412448124812482359A1242424';
/** The library drops the byte-order mark of longer strings. */
const MAX_MARKED_STRING = 200;
/** How deep lists and maps may be nested in a value that is written. */
const MAX_OWN_DEPTH = 100;
/** How deep they may be nested in a value that is read, at most: the reader recurses. */
const MAX_DEPTH = 1_000;

/**
 * Reads exactly one MessagePack value.
 *
 * @returns the value; it throws if the value holds something that is well formed and has no place in the protocol.
 */
function read(bytes: Uint8Array, maxDepth: number, what: string, maxEntries = Infinity): () => unknown {
  const deepest = Math.min(maxDepth, MAX_DEPTH);
  /** Values still to come in all open lists and maps; each takes at least one byte. */
  let pending = 1;
  let at = 0;
  let entries = 0;
  let isPlain = true;

  const malformed = (how = '') =>
    new ProtocolError('bad_message', `${what} is not well-formed MessagePack${how}`);
  /** The next bytes; fewer at the end, which is refused afterwards. */
  const take = (size: number) => {
    at += size;
    return bytes.subarray(at - size, at);
  };
  const integer = (part: Uint8Array) => part.reduce((number, byte) => number * 256n + BigInt(byte), 0n);

  const next = (depth: number): unknown => {
    const head = bytes[at++] ?? 0;
    pending--;
    let kind = head;
    let size = 0;
    if (head >= 0x80 && head < 0xc0) {
      kind = head < 0x90 ? MAP : head < 0xa0 ? LIST : TEXT;
      size = head & (head < 0xa0 ? 15 : 31);
    } else if (head >= 0xc4 && head < 0xe0) {
      size = WIDTHS.charCodeAt(head - 0xc4) - 48;
      if (head < 0xca || head > 0xd8) size = Number(integer(take(size)));
      // The type of an extension.
      if (head > 0xc6 && head < 0xca) size++;
    }

    const isOpened = kind >= LIST && kind < 0xe0;
    const body = take(isOpened ? 0 : size);
    if (at > bytes.length || head === 0xc1) throw malformed();

    if (isOpened) {
      if (depth >= deepest) {
        throw new ProtocolError('json_too_deep', `${what} is nested more than ${deepest} levels deep`);
      }
      pending += kind < MAP ? size : size * 2;
      if (pending > bytes.length - at) throw malformed();
      entries += size || 1;
      if (entries > maxEntries) {
        throw new ProtocolError('message_too_large', `${what} holds more than ${maxEntries} entries`);
      }
      const list: unknown[] = [];
      const map: Record<string, unknown> = {};
      while (size-- > 0) {
        const item = next(depth + 1);
        if (kind < MAP) list.push(item);
        else {
          const value = next(depth + 1);
          if ((typeof item === 'string' && item !== '__proto__') || typeof item === 'number')
            map[item] = value;
          else isPlain = false;
        }
      }
      return kind < MAP ? list : map;
    }
    if (kind < 0x80) return kind;
    if (kind > 0xdf) return kind - 0x100;
    if (kind >= TEXT) {
      const text = decodeUtf8(body);
      if (size > MAX_MARKED_STRING && text[0] === '\ufeff') {
        throw malformed(': it holds a long string that begins with a byte-order mark');
      }
      return text;
    }
    if (kind < 0xc4) return kind > 0xc0 ? kind > 0xc2 : null;
    if (kind < 0xc7) return body;
    if (kind < 0xca || kind > 0xd3) {
      isPlain = false;
      return;
    }
    if (kind < 0xcc) {
      const view = new DataView(bytes.buffer, body.byteOffset);
      return size > 4 ? view.getFloat64(0) : view.getFloat32(0);
    }
    const number = integer(body);
    return Number(kind < 0xd0 ? number : BigInt.asIntN(size * 8, number));
  };

  const value = next(0);
  if (at < bytes.length) throw malformed();
  return () => {
    if (!isPlain) throw malformed();
    return value;
  };
}

/**
 * Checks that `bytes` are exactly one MessagePack value; the arguments are those of {@link decodeMsgpack}.
 *
 * @throws {ProtocolError} `bad_message`, `json_too_deep`, `bad_utf8`, `message_too_large`.
 */
export const assertMsgpackBounds: (
  bytes: Uint8Array,
  maxDepth: number,
  what: string,
  maxEntries?: number,
) => void = read;

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
  return read(bytes, maxDepth, what, maxEntries)();
}

/**
 * Encodes a plain value; `undefined` entries of maps are left out.
 *
 * @throws {ProtocolError} `invalid_argument` if a value has no MessagePack form, `lone_surrogate`, `bad_message` for
 * a long string that begins with a byte-order mark.
 */
export function encodeMsgpack(value: unknown): Uint8Array<ArrayBuffer> {
  const writer = new ByteWriter();

  /**
   * Writes a length or an integer: within the byte `fixed` if its magnitude is below `limit`, otherwise after one of
   * the heads from `group` on, which are for 1, 2, 4 and 8 bytes.
   */
  const put = (integer: number, fixed: number, limit: number, group: number, magnitude = integer) => {
    if (magnitude < limit) writer.u8(fixed + integer);
    else {
      // Lists and maps begin with 2 bytes.
      const log =
        magnitude < 0x100 && group <= TEXT ? 0 : magnitude < 0x10000 ? 1 : magnitude < 2 ** 32 ? 2 : 3;
      writer.u8(group + log);
      for (let i = 1 << log; i-- > 0; ) writer.u8(Math.floor(integer / 0x100 ** i));
    }
  };
  const write = (value: unknown, depth: number): void => {
    if (depth > MAX_OWN_DEPTH) throw new RangeError('nested too deep');
    if (value === undefined || value === null) writer.u8(0xc0);
    else if (typeof value === 'boolean') writer.u8(value ? 0xc3 : 0xc2);
    else if (typeof value === 'string') {
      const body = encodeUtf8(value);
      put(body.length, 0xa0, 32, TEXT);
      writer.append(body);
    } else if (typeof value === 'number') {
      if (!Number.isSafeInteger(value)) {
        const body = new DataView(new ArrayBuffer(8));
        body.setFloat64(0, value);
        writer.u8(0xcb).append(new Uint8Array(body.buffer));
      } else if (value < 0) put(value, 0, 64, 0xd0, (-1 - value) * 2);
      else put(value, 0, 128, 0xcc);
    } else if (Array.isArray(value)) {
      put(value.length, 0x90, 16, LIST - 1);
      for (const item of value) write(item, depth + 1);
    } else if (ArrayBuffer.isView(value)) {
      put(value.byteLength, 0, 0, 0xc4);
      writer.append(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
    } else if (typeof value === 'object') {
      const entries = Object.entries(value).filter(([, item]) => item !== undefined);
      put(entries.length, 0x80, 16, MAP - 1);
      for (const [key, item] of entries) {
        // A key at the depth of the map is never too deep.
        write(key, 0);
        write(item, depth + 1);
      }
    } else throw new TypeError(typeof value);
  };

  try {
    write(value, 1);
    const bytes = writer.finish().slice();
    assertMsgpackBounds(bytes, Infinity, 'the map');
    return bytes;
  } catch (cause) {
    throw toProtocolError(cause, 'invalid_argument', 'a value of the map has no MessagePack form');
  }
}
