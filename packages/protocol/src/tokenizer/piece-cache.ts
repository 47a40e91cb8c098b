import { type KeySource, wordAt } from './short-key.js';

/**
 * The tokens of pieces, and of parts of pieces, that were encoded before.
 *
 * The cache is direct-mapped: a piece has one place, chosen by its hash, and replaces the entry there. So the
 * cache has a fixed size and a lookup costs one comparison. A flood of text that never repeats makes the
 * cache useless for a while, but never larger.
 *
 * An entry is 64 bytes, as much as a processor fetches at once: a head of length, kind and number of
 * tokens, six integers for the bytes, and the IDs.
 */

const PLACE_BITS = 14;
const STRIDE = 16;
const KEY = 1;
const IDS = 7;
/** Longer pieces, or pieces of more tokens, are not cached. */
export const MAX_CACHED_BYTES = 4 * (IDS - KEY);
export const MAX_CACHED_TOKENS = STRIDE - IDS;

export class PieceCache {
  readonly #entries = new Int32Array(STRIDE << PLACE_BITS);

  /**
   * Writes the cached tokens of the bytes from `start` up to `end` to `ids` at `at` and returns their number,
   * or 0 if they are not cached.
   *
   * @param hash `hashOf` of these bytes, of which there are at most MAX_CACHED_BYTES.
   * @param kind 0 or 1; an entry written under one kind is not found under the other.
   */
  read(
    { view }: KeySource,
    start: number,
    end: number,
    hash: number,
    kind: number,
    ids: Uint32Array,
    at: number,
  ): number {
    const entries = this.#entries;
    const entry = placeOf(hash);
    const head = entries[entry] as number;
    if (head >> 8 !== (((end - start) << 1) | kind)) return 0;
    for (let i = start, key = entry + KEY; i < end; i += 4, key++) {
      if (entries[key] !== wordAt(view, i, end)) return 0;
    }
    const count = head & 0xff;
    for (let i = 0; i < count; i++) ids[at + i] = entries[entry + IDS + i] as number;
    return count;
  }

  /** Caches `ids[from .. to)`, at most MAX_CACHED_TOKENS, for the bytes from `start` up to `end`. */
  write(
    { view }: KeySource,
    start: number,
    end: number,
    hash: number,
    kind: number,
    ids: Uint32Array,
    from: number,
    to: number,
  ): void {
    const entries = this.#entries;
    const entry = placeOf(hash);
    entries[entry] = ((((end - start) << 1) | kind) << 8) | (to - from);
    for (let i = start, key = entry + KEY; i < end; i += 4, key++) entries[key] = wordAt(view, i, end);
    for (let i = from; i < to; i++) entries[entry + IDS + i - from] = ids[i] as number;
  }
}

/** Where the entry of a hash begins. */
function placeOf(hash: number): number {
  return (hash & ((1 << PLACE_BITS) - 1)) * STRIDE;
}
