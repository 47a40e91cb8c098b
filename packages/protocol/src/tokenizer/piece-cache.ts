/**
 * The tokens of segments that were merged before.
 *
 * Direct-mapped: a segment has one place, chosen by its hash, and takes it from whoever was there.
 * So the cache has a fixed size, costs one comparison, and whoever floods it with text that never
 * returns only makes it useless for himself and his neighbours in the table, never larger.
 * An entry is `entries[place * STRIDE ..]`: length and count, then the IDs; `keys` holds the bytes.
 */

const PLACE_BITS = 12;
const STRIDE = 12;
/** Longer segments, or of more tokens, are not kept. */
export const MAX_CACHED_BYTES = 32;
export const MAX_CACHED_TOKENS = STRIDE - 1;

export class PieceCache {
  readonly #keys = new Uint8Array(MAX_CACHED_BYTES << PLACE_BITS);
  readonly #entries = new Int32Array(STRIDE << PLACE_BITS);

  /**
   * Writes the tokens of `bytes[start .. end)` to `ids` at `at` and returns their number, or zero
   * where they are not known.
   *
   * @param hash the polynomial hash of the segment, of at most MAX_CACHED_BYTES.
   */
  read(bytes: Uint8Array, start: number, end: number, hash: number, ids: Uint32Array, at: number): number {
    const place = placeOf(hash);
    const length = end - start;
    const head = this.#entries[place * STRIDE] as number;
    if (head >>> 8 !== length) return 0;
    const keys = this.#keys;
    const key = place * MAX_CACHED_BYTES;
    for (let i = 0; i < length; i++) if (keys[key + i] !== bytes[start + i]) return 0;
    const count = head & 0xff;
    for (let i = 0; i < count; i++) ids[at + i] = this.#entries[place * STRIDE + 1 + i] as number;
    return count;
  }

  /** Keeps `count` tokens, at most MAX_CACHED_TOKENS, of `bytes[start .. end)`. */
  write(bytes: Uint8Array, start: number, end: number, hash: number, ids: Int32Array, count: number): void {
    const place = placeOf(hash);
    const length = end - start;
    const key = place * MAX_CACHED_BYTES;
    for (let i = 0; i < length; i++) this.#keys[key + i] = bytes[start + i] as number;
    this.#entries[place * STRIDE] = (length << 8) | count;
    for (let i = 0; i < count; i++) this.#entries[place * STRIDE + 1 + i] = ids[i] as number;
  }
}

function placeOf(hash: number): number {
  const mixed = Math.imul(hash ^ (hash >>> 16), 0x9e3779b1);
  return mixed >>> (32 - PLACE_BITS);
}
