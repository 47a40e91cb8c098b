import { Boundaries } from './boundaries.js';
import { firstOf, hashOfKey, type KeySource, MAX_SHORT, secondOf, wordAt } from './short-key.js';

/**
 * The tokens of a vocabulary as bytes, and the lookup from bytes to an ID without building a string.
 *
 * - `bytes` holds all tokens one after another in the order of their IDs; token `id` is
 *   `bytes[offsets[id] .. offsets[id + 1])`.
 * - `short` is a hash table of the tokens of up to eight bytes, which make up most of a text. A slot is four
 *   integers, so that one memory access decides: two for the token's bytes (see `short-key.ts`), one for its
 *   length and, in the low bits, its ID, and one that is not used.
 * - `long` is a hash table of the others. A slot is one integer: 14 bits of the hash above the ID; a
 *   match is verified against `bytes`.
 * - `filter` has a bit for the hash of every short token: most of the bytes that merging looks up are not a
 *   token, and six times out of seven these 64 KiB are enough to find that out.
 * - `pairs` gives the ID of every token of two bytes directly.
 *
 * Both tables have open addressing with linear probing and are at most two thirds full. Collisions never give
 * a wrong ID. They cost time, bounded by the longest run of used slots, which is a constant of the
 * vocabulary.
 *
 * IDs are ranks: of two possible joins, the one that gives the lower ID comes first. Llama 3 is cl100k_base
 * with further tokens at the end, so both share one table, and `limit` (the first ID that a vocabulary does
 * not have) keeps them apart.
 */

/** In place of an ID: not a token. Above all IDs, so that it never wins a comparison of ranks. */
export const NO_TOKEN = 0x3fffffff;

const ID_BITS = 18;
const ID_MASK = (1 << ID_BITS) - 1;
/**
 * An empty slot of either table. No entry is 0: in `short` the length is not 0, and in `long` the ID is not
 * below 256.
 */
const EMPTY = 0;
/** Integers of a slot in `short`. */
const STRIDE = 4;
const FILTER_BITS = 19;

/** A hash of the bytes from `start` up to `end`, four at a time. */
export function hashOf(view: DataView, start: number, end: number): number {
  let hash = end - start;
  let at = start;
  for (; at + 4 <= end; at += 4) hash = mix(hash, view.getInt32(at, true));
  if (at < end) hash = mix(hash, wordAt(view, at, end));
  const mixed = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return mixed ^ (mixed >>> 13);
}

function mix(hash: number, word: number): number {
  const mixed = Math.imul(hash ^ word, 0x85ebca6b);
  return (mixed << 13) | (mixed >>> 19);
}

/** Tokens one after another: the i-th is `bytes[offsets[i] .. offsets[i + 1])`. */
export interface TokenList {
  /** With MAX_SHORT bytes after the last token. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The start of every token, and the end of the last. */
  readonly offsets: Uint32Array;
}

export class TokenTable implements KeySource {
  bytes: Uint8Array<ArrayBuffer> = new Uint8Array(0);
  view = new DataView(this.bytes.buffer);
  offsets: Uint32Array = new Uint32Array(1);
  readonly pairs: Int32Array = new Int32Array(0x10000).fill(NO_TOKEN);
  readonly boundaries = new Boundaries();
  /** Number of tokens. */
  size = 0;
  /** Bytes of the longest token. */
  maxLength = 0;
  readonly #filter = new Int32Array((1 << FILTER_BITS) >> 5);
  #short = new Int32Array(0);
  #shift = 0;
  #long = new Int32Array(0);

  /** Switches to a longer list, which must begin with the present tokens. */
  extend({ bytes, offsets }: TokenList): void {
    const first = this.size;
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer);
    this.offsets = offsets;
    this.size = offsets.length - 1;
    this.#index(first);
    this.boundaries.add(bytes, offsets, first, this.size);
  }

  /**
   * The ID of the token that consists of the bytes from `start` up to `end`, or NO_TOKEN.
   *
   * @param limit IDs from here on are ignored.
   */
  find({ view }: KeySource, start: number, end: number, limit: number): number {
    const length = end - start;
    if (length > MAX_SHORT) return this.#findLong(view, start, length, limit);
    const first = firstOf(view, start, length);
    const second = secondOf(view, start, length);
    const hash = hashOfKey(first, second);
    const bit = hash >>> (32 - FILTER_BITS);
    if (((this.#filter[bit >> 5] as number) & (1 << (bit & 31))) === 0) return NO_TOKEN;
    return this.#findShort(first, second, hash, length, limit);
  }

  #findShort(first: number, second: number, hash: number, length: number, limit: number): number {
    const slots = this.#short;
    let slot = (hash >>> this.#shift) * STRIDE;
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

  #findLong(view: DataView, start: number, length: number, limit: number): number {
    if (length > this.maxLength) return NO_TOKEN;
    const slots = this.#long;
    const { offsets } = this;
    const mask = slots.length - 1;
    const hash = hashOf(view, start, start + length);
    const tag = hash >>> ID_BITS;
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const entry = slots[slot] as number;
      if (entry === EMPTY) return NO_TOKEN;
      if (entry >>> ID_BITS !== tag) continue;
      const id = entry & ID_MASK;
      const at = offsets[id] as number;
      if ((offsets[id + 1] as number) - at !== length) continue;
      if (areSame(this.view, at, view, start, length)) return id < limit ? id : NO_TOKEN;
    }
  }

  /** Enters the tokens from `first` on into the hash tables, or all of them if the tables have to grow. */
  #index(first: number): void {
    const { offsets, size } = this;
    let shortCount = 0;
    for (let id = 0; id < size; id++) {
      if ((offsets[id + 1] as number) - (offsets[id] as number) <= MAX_SHORT) shortCount++;
    }
    const shortBits = bitsFor(shortCount);
    const longBits = bitsFor(size - shortCount);
    let from = first;
    if (this.#short.length !== STRIDE << shortBits || this.#long.length !== 1 << longBits) {
      this.#short = new Int32Array(STRIDE << shortBits);
      this.#shift = 32 - shortBits;
      this.#long = new Int32Array(1 << longBits);
      from = 0;
    }
    for (let id = from; id < size; id++) {
      const start = offsets[id] as number;
      const length = (offsets[id + 1] as number) - start;
      if (length > MAX_SHORT) this.#enterLong(start, length, id);
      else this.#enterShort(start, length, id);
    }
  }

  #enterShort(at: number, length: number, id: number): void {
    const { view } = this;
    if (length === 2) this.pairs[view.getUint16(at)] = id;
    const slots = this.#short;
    const first = firstOf(view, at, length);
    const second = secondOf(view, at, length);
    const hash = hashOfKey(first, second);
    const bit = hash >>> (32 - FILTER_BITS);
    this.#filter[bit >> 5] = (this.#filter[bit >> 5] as number) | (1 << (bit & 31));
    let slot = (hash >>> this.#shift) * STRIDE;
    while (slots[slot + 2] !== EMPTY) {
      slot += STRIDE;
      if (slot === slots.length) slot = 0;
    }
    slots[slot] = first;
    slots[slot + 1] = second;
    slots[slot + 2] = (length << ID_BITS) | id;
  }

  #enterLong(at: number, length: number, id: number): void {
    if (length > this.maxLength) this.maxLength = length;
    const slots = this.#long;
    const mask = slots.length - 1;
    const hash = hashOf(this.view, at, at + length);
    let slot = hash & mask;
    while (slots[slot] !== EMPTY) slot = (slot + 1) & mask;
    slots[slot] = (hash & ~ID_MASK) | id;
  }
}

/** Whether two tokens of the same length are the same. */
function areSame(a: DataView, atA: number, b: DataView, atB: number, length: number): boolean {
  let i = 0;
  for (; i + 4 <= length; i += 4) if (a.getInt32(atA + i, true) !== b.getInt32(atB + i, true)) return false;
  return i === length || wordAt(a, atA + i, atA + length) === wordAt(b, atB + i, atB + length);
}

/** The binary logarithm of the number of slots for `count` tokens. */
function bitsFor(count: number): number {
  return 32 - Math.clz32(Math.max(1, Math.ceil(count * 1.5) - 1));
}
