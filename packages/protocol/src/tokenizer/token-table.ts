import { Boundaries } from './boundaries.js';
import { firstOf, hashOfKey, type KeySource, MAX_SHORT, secondOf } from './short-key.js';

/**
 * The tokens of a vocabulary as bytes, and the way from bytes to an ID without building a string.
 *
 * - `bytes` holds all tokens one after another in the order of their IDs; token `id` is
 *   `bytes[offsets[id] .. offsets[id + 1])`.
 * - `short` is a hash table of the tokens of up to eight bytes, which are most of a text. A slot is
 *   four integers, so that one look at memory decides: the token's bytes (see `short-key.ts`), its ID
 *   below its length, and one that is not used.
 * - `long` is a hash table of the others. A slot is one integer: 14 bits of the hash above the ID, or
 *   -1; a match is verified against `bytes`.
 * - `pairs` gives the ID of every token of two bytes directly.
 *
 * Both tables have open addressing with linear probing and are at most two thirds full. Collisions
 * cost time, bounded by the longest run of used slots, which is a constant of the vocabulary, and
 * never give a wrong ID.
 *
 * IDs are ranks: of two tokens that could be joined, the one with the lower ID is joined first.
 * Llama 3 is cl100k_base with more tokens behind it, so both share one table, and `limit` (the first
 * ID that a vocabulary does not have) keeps them apart.
 */

/** Instead of an ID: no such token. Above all IDs, so that it never wins a comparison of ranks. */
export const NO_TOKEN = 0x3fffffff;

const ID_BITS = 18;
const ID_MASK = (1 << ID_BITS) - 1;
const EMPTY = -1;
/** Integers of a slot in `short`. */
const STRIDE = 4;

/** A hash of `bytes[start .. end)`. */
export function hashOf(bytes: Uint8Array, start: number, end: number): number {
  let hash = 0;
  for (let i = start; i < end; i++) hash = Math.imul(hash, 0x01000193) + (bytes[i] as number) + 1;
  const mixed = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return mixed ^ (mixed >>> 13);
}

/** Tokens to be added to a table: `lengths[i]` bytes of `bytes` belong to the i-th. */
export interface TokenList {
  readonly bytes: Uint8Array;
  readonly lengths: Uint8Array;
}

export class TokenTable {
  bytes: Uint8Array<ArrayBuffer> = new Uint8Array(0);
  offsets: Uint32Array = new Uint32Array(1);
  readonly pairs: Int32Array = new Int32Array(0x10000).fill(NO_TOKEN);
  readonly boundaries = new Boundaries();
  /** Number of tokens. */
  size = 0;
  /** Bytes of the longest token. */
  maxLength = 0;
  #short = new Int32Array(0);
  #shift = 0;
  #long = new Int32Array(0);

  /** Adds tokens behind those that are there. */
  append(list: TokenList): void {
    const first = this.size;
    const size = first + list.lengths.length;
    const start = this.offsets[first] as number;
    const bytes = new Uint8Array(start + list.bytes.length + MAX_SHORT);
    bytes.set(this.bytes.subarray(0, start));
    bytes.set(list.bytes, start);
    const offsets = new Uint32Array(size + 1);
    offsets.set(this.offsets);
    let at = start;
    for (let id = first; id < size; id++) {
      const length = list.lengths[id - first] as number;
      at += length;
      offsets[id + 1] = at;
      if (length > this.maxLength) this.maxLength = length;
    }
    this.bytes = bytes;
    this.offsets = offsets;
    this.size = size;
    this.#index(first);
    this.boundaries.add(bytes, offsets, first, size);
  }

  /**
   * The ID of the token that is the bytes from `start` up to `end`, or NO_TOKEN.
   *
   * @param limit IDs from here on are not looked at.
   */
  find({ bytes, view }: KeySource, start: number, end: number, limit: number): number {
    const length = end - start;
    if (length <= MAX_SHORT) return this.#findShort(view, start, length, limit);
    if (length <= this.maxLength) return this.#findLong(bytes, start, end, limit);
    return NO_TOKEN;
  }

  #findShort(view: DataView, at: number, length: number, limit: number): number {
    const slots = this.#short;
    const first = firstOf(view, at, length);
    const second = secondOf(view, at, length);
    let slot = (hashOfKey(first, second) >>> this.#shift) * STRIDE;
    for (;;) {
      const entry = slots[slot + 2] as number;
      if (entry === EMPTY) return NO_TOKEN;
      if (slots[slot] === first && slots[slot + 1] === second && entry >> ID_BITS === length) {
        const id = entry & ID_MASK;
        return id < limit ? id : NO_TOKEN;
      }
      slot += STRIDE;
      if (slot === slots.length) slot = 0;
    }
  }

  #findLong(bytes: Uint8Array, start: number, end: number, limit: number): number {
    const slots = this.#long;
    const { offsets, bytes: tokens } = this;
    const mask = slots.length - 1;
    const length = end - start;
    const hash = hashOf(bytes, start, end);
    const tag = hash >>> ID_BITS;
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const entry = slots[slot] as number;
      if (entry === EMPTY) return NO_TOKEN;
      if (entry >>> ID_BITS !== tag) continue;
      const id = entry & ID_MASK;
      const at = offsets[id] as number;
      if ((offsets[id + 1] as number) - at !== length) continue;
      let i = 0;
      while (i < length && tokens[at + i] === bytes[start + i]) i++;
      if (i === length) return id < limit ? id : NO_TOKEN;
    }
  }

  /** Enters the tokens from `first` on into the hash tables, all of them into one that has to grow. */
  #index(first: number): void {
    const { offsets, bytes, pairs, size } = this;
    const view = new DataView(bytes.buffer);
    let shortCount = 0;
    for (let id = 0; id < size; id++) {
      if ((offsets[id + 1] as number) - (offsets[id] as number) <= MAX_SHORT) shortCount++;
    }
    const shortBits = bitsFor(shortCount);
    const longBits = bitsFor(size - shortCount);
    const fitsShort = this.#short.length === STRIDE << shortBits;
    const fitsLong = this.#long.length === 1 << longBits;
    if (!fitsShort) this.#short = new Int32Array(STRIDE << shortBits).fill(EMPTY);
    if (!fitsLong) this.#long = new Int32Array(1 << longBits).fill(EMPTY);
    this.#shift = 32 - shortBits;
    for (let id = Math.min(fitsShort ? first : 0, fitsLong ? first : 0); id < size; id++) {
      const start = offsets[id] as number;
      const length = (offsets[id + 1] as number) - start;
      if (length === 2) pairs[((bytes[start] as number) << 8) | (bytes[start + 1] as number)] = id;
      if (length <= MAX_SHORT) {
        if (id >= first || !fitsShort) this.#enterShort(view, start, length, id);
      } else if (id >= first || !fitsLong) {
        this.#enterLong(start, length, id);
      }
    }
  }

  #enterShort(view: DataView, at: number, length: number, id: number): void {
    const slots = this.#short;
    const first = firstOf(view, at, length);
    const second = secondOf(view, at, length);
    let slot = (hashOfKey(first, second) >>> this.#shift) * STRIDE;
    while (slots[slot + 2] !== EMPTY) {
      slot += STRIDE;
      if (slot === slots.length) slot = 0;
    }
    slots[slot] = first;
    slots[slot + 1] = second;
    slots[slot + 2] = (length << ID_BITS) | id;
  }

  #enterLong(at: number, length: number, id: number): void {
    const slots = this.#long;
    const mask = slots.length - 1;
    const hash = hashOf(this.bytes, at, at + length);
    let slot = hash & mask;
    while (slots[slot] !== EMPTY) slot = (slot + 1) & mask;
    slots[slot] = (hash & ~ID_MASK) | id;
  }
}

/** Bits of the number of slots for so many tokens. */
function bitsFor(count: number): number {
  return 32 - Math.clz32(Math.max(1, Math.ceil(count * 1.5) - 1));
}
