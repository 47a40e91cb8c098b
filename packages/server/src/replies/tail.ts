import { READ_PARTS } from '../engine/logs/reply.js';

/** Bytes of records that are kept, about, beyond those that must be. */
const MAX_BYTES = 64 * 1024;
/** Bytes of memory that a record takes beside its content. */
const RECORD_MEMORY = 240;
/** Bytes of records that one call returns, and at least one record. */
const READ_SIZE = 16 * 1024;

/** The last parts of one reply. */
export class Tail {
  #first: number;
  #records: Uint8Array[] = [];
  #bytes = 0;

  /** @param from parts before the first one that is added. */
  constructor(from = 0) {
    this.#first = from;
  }

  /** The number of the last part. */
  get last(): number {
    return this.#first + this.#records.length;
  }

  /** Bytes of memory. */
  get bytes(): number {
    return this.#bytes;
  }

  /** @param needed parts up to this number may be forgotten. */
  push(record: Uint8Array, needed: number): void {
    this.#records.push(record);
    this.#bytes += RECORD_MEMORY + record.length;
    if (this.#bytes > 2 * MAX_BYTES) this.#trim(needed);
  }

  /**
   * The parts after number `after` up to number `limit`, as many as a log returns; `undefined` if some of them are not here.
   */
  read(after: number, limit = Infinity): Uint8Array[] | undefined {
    if (after < this.#first || after > this.last) return undefined;
    const records: Uint8Array[] = [];
    const most = Math.min(limit - after, READ_PARTS);
    let left = READ_SIZE;
    for (let i = after - this.#first; i < this.#records.length && records.length < most; i++) {
      const record = this.#records[i] as Uint8Array;
      left -= record.length;
      if (left < 0 && records.length > 0) break;
      records.push(record);
    }
    return records;
  }

  #trim(needed: number): void {
    let count = 0;
    const most = Math.min(this.#records.length, needed - this.#first);
    while (count < most && this.#bytes > MAX_BYTES) {
      this.#bytes -= RECORD_MEMORY + (this.#records[count] as Uint8Array).length;
      count++;
    }
    this.#records = this.#records.slice(count);
    this.#first += count;
  }
}
