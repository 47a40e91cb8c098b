import { firstOf, hashOfKey, secondOf } from './short-key.js';
import { NO_TOKEN } from './token-table.js';

/**
 * Caches which of the recent short pieces are tokens, to save lookups in the vocabulary's table.
 *
 * Most pieces of most texts come from a few thousand short tokens, which the table keeps scattered over
 * megabytes; here they fit into 64 KiB that stay in the processor's cache. The cache is direct-mapped: an
 * entry has one place and replaces the one there, so the size is fixed.
 *
 * An entry is `entries[place * 4 ..]`: the key's two integers, then the length in the high bits and, below
 * it, the ID or `NONE`.
 */

const PLACE_BITS = 12;
const ID_BITS = 18;
const ID_MASK = (1 << ID_BITS) - 1;
const NONE = ID_MASK;

/** In place of an ID: not cached. */
export const UNKNOWN = -1;

export class TokenCache {
  readonly #entries = new Int32Array(4 << PLACE_BITS);

  /** The ID of the token of `length` bytes at `at`, NO_TOKEN, or UNKNOWN. */
  read(view: DataView, at: number, length: number): number {
    const entries = this.#entries;
    const first = firstOf(view, at, length);
    const second = secondOf(view, at, length);
    const place = placeOf(first, second);
    const meta = entries[place + 2] as number;
    if (entries[place] !== first || entries[place + 1] !== second || meta >> ID_BITS !== length)
      return UNKNOWN;
    const id = meta & ID_MASK;
    return id === NONE ? NO_TOKEN : id;
  }

  /** Caches that the `length` bytes at `at` are the token `id`, or NO_TOKEN. */
  write(view: DataView, at: number, length: number, id: number): void {
    const entries = this.#entries;
    const first = firstOf(view, at, length);
    const second = secondOf(view, at, length);
    const place = placeOf(first, second);
    entries[place] = first;
    entries[place + 1] = second;
    entries[place + 2] = (length << ID_BITS) | (id === NO_TOKEN ? NONE : id);
  }
}

/** Where the entry of a key begins. */
function placeOf(first: number, second: number): number {
  return (hashOfKey(first, second) >>> (32 - PLACE_BITS)) << 2;
}
