import { Deviation, must } from './deviation.js';
import { join, varint } from './frames.js';
import type { Closed } from './wire.js';

/** The records of bodies of HTTP (section 18), written and read without the code of the product under test. */

const MAX_LENGTH_BYTES = 5;
const CLOSE_HEAD = 4;

export const recordOf = (frame: Uint8Array): Uint8Array => join(varint(frame.length), frame);

export function closeRecord(code: number, reason = ''): Uint8Array {
  const text = Buffer.from(reason);
  return join(0, code & 0xff, code >> 8, text.length, text);
}

export const KEEP_ALIVE = closeRecord(0);

/** The first record of a request with frames, and the others. */
export const bodyOf = (number: number, key: Uint8Array, ...frames: readonly Uint8Array[]): Uint8Array =>
  join(recordOf(join(uint32(number), key)), ...frames.map(recordOf));

export function uint32(value: number): Uint8Array {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

export interface RecordEvents {
  onFrame(frame: Uint8Array): void;
  /** Also with code 0, which closes nothing. */
  onClose(closed: Closed): void;
}

/** Cuts a body into records, wherever the network has cut it. */
export class RecordReader {
  readonly #events: RecordEvents;
  #held: Uint8Array = new Uint8Array();

  constructor(events: RecordEvents) {
    this.#events = events;
  }

  get isComplete(): boolean {
    return this.#held.length === 0;
  }

  /** @throws {Deviation} if a length is not written as it has to be; what the events throw. */
  push(chunk: Uint8Array): void {
    this.#held = join(this.#held, chunk);
    for (;;) {
      const size = this.#readOne(this.#held);
      if (size === 0) return;
      this.#held = this.#held.subarray(size);
    }
  }

  /** @returns the bytes that were read: 0 if the next record has not arrived whole. */
  #readOne(bytes: Uint8Array): number {
    const at = bytes.subarray(0, MAX_LENGTH_BYTES).findIndex((byte) => byte < 0x80) + 1;
    if (at === 0) {
      must(bytes.length < MAX_LENGTH_BYTES, 'the length of a record takes more than 5 bytes', bytes);
      return 0;
    }
    const length = bytes.subarray(0, at).reduceRight((sum, byte) => sum * 0x80 + (byte & 0x7f), 0);
    if (at !== varint(length).length)
      throw new Deviation('the length of a record is not in its shortest form', bytes.subarray(0, at));
    if (length === 0) return this.#readClose(bytes);
    if (bytes.length < at + length) return 0;
    this.#events.onFrame(Uint8Array.from(bytes.subarray(at, at + length)));
    return at + length;
  }

  #readClose(bytes: Uint8Array): number {
    const size = CLOSE_HEAD + (bytes[CLOSE_HEAD - 1] ?? 0);
    if (bytes.length < CLOSE_HEAD || bytes.length < size) return 0;
    const code = (bytes[1] as number) + 0x100 * (bytes[2] as number);
    this.#events.onClose({ code, reason: Buffer.from(bytes.subarray(CLOSE_HEAD, size)).toString() });
    return size;
  }
}
