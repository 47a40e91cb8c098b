import { ProtocolError } from './errors.js';

/**
 * Bounded readers and writers over `Uint8Array`. All integers are little-endian, as in M2M v1 and AVP. A
 * reader never reads past its end, and checks a length before it allocates anything.
 */

/** Bytes of the longest varint. They hold up to 56 bits, of which the cap of 2^53 − 1 uses 53. */
const MAX_VARINT_BYTES = 8;

export class ByteReader {
  readonly bytes: Uint8Array;
  offset: number;
  readonly #view: DataView;

  constructor(bytes: Uint8Array, offset = 0) {
    this.bytes = bytes;
    this.offset = offset;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get remaining(): number {
    return this.bytes.length - this.offset;
  }

  u8(what: string): number {
    this.#need(1, what);
    return this.#view.getUint8(this.offset++);
  }

  u16(what: string): number {
    this.#need(2, what);
    const value = this.#view.getUint16(this.offset, true);
    this.offset += 2;
    return value;
  }

  u32(what: string): number {
    this.#need(4, what);
    const value = this.#view.getUint32(this.offset, true);
    this.offset += 4;
    return value;
  }

  f32(what: string): number {
    this.#need(4, what);
    const value = this.#view.getFloat32(this.offset, true);
    this.offset += 4;
    return value;
  }

  /** A view of the next `length` bytes, not a copy. */
  take(length: number, what: string): Uint8Array {
    this.#need(length, what);
    const view = this.bytes.subarray(this.offset, this.offset + length);
    this.offset += length;
    return view;
  }

  /** A view of everything left. */
  rest(): Uint8Array {
    const view = this.bytes.subarray(this.offset);
    this.offset = this.bytes.length;
    return view;
  }

  /**
   * An unsigned LEB128 integer in its shortest form.
   *
   * @param max the largest value allowed, at most 2^53 − 1.
   * @throws {ProtocolError} `truncated`, or `bad_varint` if it is overlong or over `max`.
   */
  varint(what: string, max = Number.MAX_SAFE_INTEGER): number {
    let value = 0;
    let scale = 1;
    for (let i = 0; i < MAX_VARINT_BYTES; i++) {
      const byte = this.u8(what);
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) {
        if (byte === 0 && i > 0) {
          throw new ProtocolError('bad_varint', `${what} is a varint with a superfluous zero byte`);
        }
        if (value > max) throw new ProtocolError('bad_varint', `${what} is ${value}, more than ${max}`);
        return value;
      }
      scale *= 0x80;
    }
    throw new ProtocolError('bad_varint', `${what} is a varint of more than ${MAX_VARINT_BYTES} bytes`);
  }

  /** @throws {ProtocolError} `trailing_bytes` if bytes are left. */
  expectEnd(what: string): void {
    if (this.remaining > 0) {
      throw new ProtocolError('trailing_bytes', `${this.remaining} bytes follow the end of ${what}`);
    }
  }

  #need(length: number, what: string): void {
    if (length > this.remaining) {
      throw new ProtocolError('truncated', `${what} needs ${length} bytes, ${this.remaining} are left`);
    }
  }
}

export class ByteWriter {
  #bytes: Uint8Array<ArrayBuffer>;
  #view: DataView;
  #length = 0;

  /** @param capacity initial size in bytes; the writer grows as needed. */
  constructor(capacity = 64) {
    this.#bytes = new Uint8Array(capacity);
    this.#view = new DataView(this.#bytes.buffer);
  }

  get length(): number {
    return this.#length;
  }

  u8(value: number): this {
    this.#reserve(1);
    this.#view.setUint8(this.#length++, value);
    return this;
  }

  u16(value: number): this {
    this.#reserve(2);
    this.#view.setUint16(this.#length, value, true);
    this.#length += 2;
    return this;
  }

  u32(value: number): this {
    this.#reserve(4);
    this.#view.setUint32(this.#length, value, true);
    this.#length += 4;
    return this;
  }

  f32(value: number): this {
    this.#reserve(4);
    this.#view.setFloat32(this.#length, value, true);
    this.#length += 4;
    return this;
  }

  /** An unsigned LEB128 integer, at most 2^53 − 1. */
  varint(value: number): this {
    this.#reserve(MAX_VARINT_BYTES);
    this.#length = writeVarint(this.#bytes, this.#length, value);
    return this;
  }

  append(bytes: Uint8Array): this {
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
    return this;
  }

  /** The written bytes, as a view that later writes may change. */
  finish(): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(0, this.#length);
  }

  #reserve(length: number): void {
    const needed = this.#length + length;
    if (needed <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(needed, this.#bytes.length * 2));
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
    this.#view = new DataView(grown.buffer);
  }
}

/** Bytes that `value` takes as a varint. */
export function varintLength(value: number): number {
  let length = 1;
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) length++;
  return length;
}

/**
 * Writes `value` as a varint into `bytes` at `offset` and returns the offset after it. `bytes` must have room
 * for {@link varintLength} bytes.
 */
export function writeVarint(bytes: Uint8Array, offset: number, value: number): number {
  let rest = value;
  let at = offset;
  while (rest >= 0x80) {
    bytes[at++] = (rest % 0x80) | 0x80;
    rest = Math.floor(rest / 0x80);
  }
  bytes[at++] = rest;
  return at;
}

/** Joins pieces into one buffer. A single piece is returned itself, not a copy. */
export function concatBytes<B extends ArrayBufferLike>(
  pieces: readonly Uint8Array<B>[],
): Uint8Array<B | ArrayBuffer> {
  const [only] = pieces;
  if (pieces.length === 1 && only !== undefined) return only;
  let length = 0;
  for (const piece of pieces) length += piece.length;
  const joined = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    joined.set(piece, at);
    at += piece.length;
  }
  return joined;
}

/** Bytes in memory of their own. `slice` of a `Buffer` of Node makes a view. */
export function copyBytes(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bytes);
}

/** Two hexadecimal digits for each byte. */
export function toHex(bytes: Uint8Array, separator = ''): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join(separator);
}

/** Whether two byte strings are equal; not for secrets, as it stops at the first difference. */
export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
