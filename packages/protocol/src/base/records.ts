import { varintLength, writeVarint } from './bytes.js';
import { ProtocolError } from './errors.js';

/**
 * Frames in a body of HTTP, in either direction. Each is a record:
 *
 *     varint   its length, from 1 on
 *     bytes    the frame
 *
 * Length 0 is followed by a close code (u16, little-endian), the length of the reason in bytes (u8) and the reason. Close code 0
 * closes nothing, and keeps the connection alive.
 */

/** Bytes of the longest length, which has up to 35 bits. */
const MAX_LENGTH_BYTES = 5;
const CLOSE_HEAD = 3;

/** @param tail follows them: a close, or nothing. */
export function encodeRecords(frames: readonly Uint8Array[], tail?: Uint8Array): Uint8Array<ArrayBuffer> {
  const size = frames.reduce((sum, { length }) => sum + varintLength(length) + length, tail?.length ?? 0);
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const frame of frames) {
    at = writeVarint(bytes, at, frame.length);
    bytes.set(frame, at);
    at += frame.length;
  }
  if (tail !== undefined) bytes.set(tail, at);
  return bytes;
}

/** @param reason at most 255 bytes of UTF-8. */
export function encodeClose(code: number, reason: string): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder().encode(reason);
  return Uint8Array.of(0, code & 0xff, code >> 8, text.length, ...text);
}

export const KEEP_ALIVE: Uint8Array = encodeClose(0, '');

export interface RecordEvents {
  /** @param frame a view of what was pushed, or of memory that is not used again. */
  onRecord(frame: Uint8Array): void;
  onClose(code: number, reason: string): void;
}

/** Cuts what arrives into records. Its memory is at most twice the bytes of a record that have arrived. */
export class RecordReader {
  /** Bytes of a longer frame are not read. */
  readonly #max: number;
  readonly #events: RecordEvents;
  /** The beginning of a record that has not arrived whole. */
  #held = new Uint8Array();
  #size = 0;

  constructor(max: number, events: RecordEvents) {
    this.#max = max;
    this.#events = events;
  }

  /** No record has arrived in part. */
  get isComplete(): boolean {
    return this.#size === 0;
  }

  /** @throws {ProtocolError} `bad_frame`; `message_too_large`; what the events throw. Nothing may be pushed after that. */
  push(chunk: Uint8Array): void {
    let data = chunk;
    if (this.#size > 0) {
      this.#append(chunk);
      data = this.#held.subarray(0, this.#size);
    }
    let at = 0;
    for (let next = this.#read(data, 0); next !== undefined; next = this.#read(data, at)) at = next;
    if (at === 0 && this.#size > 0) return;
    // The records that were read are views of it.
    this.#held = new Uint8Array();
    this.#size = 0;
    if (at < data.length) this.#append(data.subarray(at));
  }

  #append(bytes: Uint8Array): void {
    const needed = this.#size + bytes.length;
    if (needed > this.#held.length) {
      const grown = new Uint8Array(Math.max(needed, Math.min(2 * needed, this.#max + MAX_LENGTH_BYTES)));
      grown.set(this.#held.subarray(0, this.#size));
      this.#held = grown;
    }
    this.#held.set(bytes, this.#size);
    this.#size = needed;
  }

  /** Reads one record. Returns the offset behind it; `undefined` if it has not arrived. */
  #read(data: Uint8Array, start: number): number | undefined {
    let length = 0;
    let at = start;
    for (let scale = 1, byte = 0x80; byte >= 0x80; scale *= 0x80) {
      if (at === data.length) return undefined;
      if (at - start === MAX_LENGTH_BYTES) throw new ProtocolError('bad_frame', 'the length of a record');
      byte = data[at++] as number;
      length += (byte & 0x7f) * scale;
    }
    if (length > this.#max) throw new ProtocolError('message_too_large', `a frame of ${length} bytes`);
    if (length === 0) return this.#readClose(data, at);
    const end = at + length;
    if (end > data.length) return undefined;
    this.#events.onRecord(data.subarray(at, end));
    return end;
  }

  #readClose(data: Uint8Array, at: number): number | undefined {
    const begin = at + CLOSE_HEAD;
    if (begin > data.length) return undefined;
    const [low, high, length] = data.subarray(at, begin) as unknown as [number, number, number];
    const end = begin + length;
    if (end > data.length) return undefined;
    const code = low + 0x100 * high;
    if (code !== 0) this.#events.onClose(code, new TextDecoder().decode(data.subarray(begin, end)));
    return end;
  }
}
