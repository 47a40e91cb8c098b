import { firstOf, hashOfKey, secondOf } from './short-key.js';

/**
 * The IDs of short tokens met lately, in front of the vocabulary's table.
 *
 * Most pieces of most texts are a few thousand short tokens, which the table keeps scattered over
 * megabytes; here they are in 64 KiB that stay close to the processor. Direct-mapped: an entry has
 * one place and takes it from whoever was there, so the size is fixed whatever arrives.
 *
 * An entry is `entries[place * 4 ..]`: the key's two integers, and the ID below the length.
 */

const PLACE_BITS = 12;
const ID_BITS = 18;
const ID_MASK = (1 << ID_BITS) - 1;

export class TokenCache {
  readonly #entries = new Int32Array(4 << PLACE_BITS);

  /** The ID of the token of `length` bytes at `at`, or -1 where it is not known. */
  read(view: DataView, at: number, length: number): number {
    const entries = this.#entries;
    const first = firstOf(view, at, length);
    const second = secondOf(view, at, length);
    const place = placeOf(first, second);
    const meta = entries[place + 2] as number;
    return entries[place] === first && entries[place + 1] === second && meta >> ID_BITS === length
      ? meta & ID_MASK
      : -1;
  }

  /** Keeps the ID of the token of `length` bytes at `at`. */
  write(view: DataView, at: number, length: number, id: number): void {
    const entries = this.#entries;
    const first = firstOf(view, at, length);
    const second = secondOf(view, at, length);
    const place = placeOf(first, second);
    entries[place] = first;
    entries[place + 1] = second;
    entries[place + 2] = (length << ID_BITS) | id;
  }
}

/** Where the entry of a key begins. */
function placeOf(first: number, second: number): number {
  return (hashOfKey(first, second) >>> (32 - PLACE_BITS)) << 2;
}
