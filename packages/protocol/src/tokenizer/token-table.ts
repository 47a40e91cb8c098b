import { Boundaries } from './boundaries.js';

/**
 * The tokens of a vocabulary as bytes, and the way from bytes to an ID without building a string.
 *
 * - `bytes` holds all tokens one after another in the order of their IDs; token `id` is
 *   `bytes[offsets[id] .. offsets[id + 1])`.
 * - `slots` is a hash table with open addressing and linear probing, a power of two in size and at
 *   most half full. A slot holds 14 bits of the hash above the 18 bits of an ID, or -1. A match is
 *   always verified against `bytes`, so collisions cost time (bounded by the longest run of used
 *   slots, which is a constant of the vocabulary) and never a wrong ID.
 * - `pairs` gives the ID of every token of two bytes directly.
 *
 * The hash is a polynomial over the bytes, so that the hash of any part of a piece follows from the
 * hashes of its prefixes: see `merge.ts`.
 *
 * IDs are ranks: of two tokens that could be joined, the one with the lower ID is joined first.
 * Llama 3 is cl100k_base with more tokens behind it, so both share one table, and `limit` (the first
 * ID that a vocabulary does not have) keeps them apart.
 */

/** Instead of an ID: no such token. Above all IDs, so that it never wins a comparison of ranks. */
export const NO_TOKEN = 0x3fffffff;

/** The multiplier of the polynomial hash. */
export const HASH_BASE = 0x01000193;

const ID_BITS = 18;
const ID_MASK = (1 << ID_BITS) - 1;
const EMPTY = -1;

/** Spreads a polynomial hash over all bits. */
function mix(hash: number): number {
  const mixed = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return mixed ^ (mixed >>> 13);
}

/** Tokens to be added to a table: `lengths[i]` bytes of `bytes` belong to the i-th. */
export interface TokenList {
  readonly bytes: Uint8Array;
  readonly lengths: Uint8Array;
}

export class TokenTable {
  bytes: Uint8Array = new Uint8Array(0);
  offsets: Uint32Array = new Uint32Array(1);
  slots: Int32Array = new Int32Array(0);
  readonly pairs: Int32Array = new Int32Array(0x10000).fill(NO_TOKEN);
  readonly boundaries = new Boundaries();
  /** Number of tokens. */
  size = 0;
  /** Bytes of the longest token. */
  maxLength = 0;

  /** Adds tokens behind those that are there. */
  append(list: TokenList): void {
    const first = this.size;
    const size = first + list.lengths.length;
    const start = this.bytes.length;
    const bytes = new Uint8Array(start + list.bytes.length);
    bytes.set(this.bytes);
    bytes.set(list.bytes, start);
    const offsets = new Uint32Array(size + 1);
    offsets.set(this.offsets);
    let at = start;
    for (let i = 0; i < list.lengths.length; i++) {
      const length = list.lengths[i] as number;
      at += length;
      offsets[first + i + 1] = at;
      if (length > this.maxLength) this.maxLength = length;
    }
    this.bytes = bytes;
    this.offsets = offsets;
    this.size = size;
    if (this.slots.length < 2 * size) {
      this.slots = new Int32Array(1 << (32 - Math.clz32(2 * size - 1))).fill(EMPTY);
      this.#insert(0);
    } else {
      this.#insert(first);
    }
    this.boundaries.add(bytes, offsets, first, size);
  }

  /**
   * The ID of the token that is `bytes[start .. end)`, at least three bytes of a piece.
   *
   * @param hash the polynomial hash of these bytes.
   * @param limit IDs from here on are not looked at.
   */
  find(bytes: Uint8Array, start: number, end: number, hash: number, limit: number): number {
    const { slots, offsets, bytes: tokens } = this;
    const mask = slots.length - 1;
    const length = end - start;
    const mixed = mix(hash);
    const tag = mixed >>> ID_BITS;
    for (let slot = mixed & mask; ; slot = (slot + 1) & mask) {
      const entry = slots[slot] as number;
      if (entry === EMPTY) return NO_TOKEN;
      if (entry >>> ID_BITS !== tag) continue;
      const id = entry & ID_MASK;
      const at = offsets[id] as number;
      if ((offsets[id + 1] as number) - at !== length || id >= limit) continue;
      let i = 0;
      while (i < length && tokens[at + i] === bytes[start + i]) i++;
      if (i === length) return id;
    }
  }

  #insert(first: number): void {
    const { slots, offsets, bytes, pairs } = this;
    const mask = slots.length - 1;
    for (let id = first; id < this.size; id++) {
      const start = offsets[id] as number;
      const end = offsets[id + 1] as number;
      if (end - start === 2) pairs[((bytes[start] as number) << 8) | (bytes[start + 1] as number)] = id;
      let hash = 0;
      for (let i = start; i < end; i++) hash = Math.imul(hash, HASH_BASE) + (bytes[i] as number) + 1;
      const mixed = mix(hash);
      let slot = mixed & mask;
      while (slots[slot] !== EMPTY) slot = (slot + 1) & mask;
      slots[slot] = (mixed & ~ID_MASK) | id;
    }
  }
}
