import { varintLength, writeVarint } from '@parlance/protocol/internal';

/** Bytes of the first buffer; each further one doubles it. */
const FIRST_SIZE = 256;
/** Records between two entries of the index. */
const STRIDE = 32;
/** Bytes of memory that an entry of the index takes, in an array that doubles as well. */
const ENTRY_MEMORY = 16;

/**
 * Records of one reply, one behind the other in a buffer, each after its length: a part of five bytes takes seven.
 * Every 32nd has an entry in an index, so that reading may begin anywhere.
 */
export class RecordStore {
  #buffer = new Uint8Array(0);
  #used = 0;
  #size = 0;
  /** Offsets of records 0, 32, 64, … */
  readonly #index: number[] = [];

  /** The number of records. */
  get size(): number {
    return this.#size;
  }

  /** Bytes of the records, each after its length. */
  get length(): number {
    return this.#used;
  }

  /** Bytes of memory that adding a record of `length` bytes takes. */
  growthFor(length: number): number {
    const entry = this.#size % STRIDE === 0 ? ENTRY_MEMORY : 0;
    return entry + this.#capacityFor(length) - this.#buffer.length;
  }

  append(record: Uint8Array): void {
    const { length } = record;
    const capacity = this.#capacityFor(length);
    if (capacity > this.#buffer.length) this.#resize(capacity);
    if (this.#size % STRIDE === 0) this.#index.push(this.#used);
    const offset = writeVarint(this.#buffer, this.#used, length);
    this.#buffer.set(record, offset);
    this.#used = offset + length;
    this.#size++;
  }

  /**
   * The records after number `after`, up to `maxBytes` bytes and `maxRecords`, and at least one if there is one. They
   * are copies: a view would keep all of the buffer alive for as long as a reader is slow.
   */
  read(after: number, maxBytes: number, maxRecords: number): Uint8Array[] {
    const records: Uint8Array[] = [];
    if (after >= this.#size) return records;
    let offset = this.#index[Math.floor(after / STRIDE)] as number;
    for (let skip = after % STRIDE; skip > 0; skip--) offset = this.#at(offset).end;
    for (let left = maxBytes; offset < this.#used && records.length < maxRecords; ) {
      const { start, end } = this.#at(offset);
      left -= end - offset;
      if (left < 0 && records.length > 0) break;
      records.push(this.#buffer.slice(start, end));
      offset = end;
    }
    return records;
  }

  /** Nothing more is added. Returns the bytes of memory that this gives back. */
  trim(): number {
    const before = this.#buffer.length;
    this.#resize(this.#used);
    return before - this.#used;
  }

  #at(offset: number): { start: number; end: number } {
    let [length, start, scale] = [0, offset, 1];
    for (;;) {
      const byte = this.#buffer[start++] as number;
      length += (byte & 0x7f) * scale;
      if (byte < 0x80) return { start, end: start + length };
      scale *= 128;
    }
  }

  #capacityFor(length: number): number {
    const needed = this.#used + varintLength(length) + length;
    if (needed <= this.#buffer.length) return this.#buffer.length;
    return Math.max(needed, FIRST_SIZE, this.#buffer.length * 2);
  }

  #resize(capacity: number): void {
    const buffer = new Uint8Array(capacity);
    buffer.set(this.#buffer.subarray(0, this.#used));
    this.#buffer = buffer;
  }
}
