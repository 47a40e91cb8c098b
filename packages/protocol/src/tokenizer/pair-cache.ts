/**
 * The tokens to which two neighbouring tokens join, for pairs that were looked up before. The cache is direct-mapped, so its
 * size is fixed. An entry is `entries[place * 4 ..]`: the two IDs, each plus one, and the result.
 */

const PLACE_BITS = 11;
const STRIDE = 4;

export class PairCache {
  readonly #entries = new Int32Array(STRIDE << PLACE_BITS);

  /** The entry of these two tokens, or -1. */
  read(left: number, right: number): number {
    const entries = this.#entries;
    const entry = placeOf(left, right);
    if (entries[entry] !== left + 1 || entries[entry + 1] !== right + 1) return -1;
    return entries[entry + 2] as number;
  }

  /** @param rank not negative. */
  write(left: number, right: number, rank: number): void {
    const entries = this.#entries;
    const entry = placeOf(left, right);
    entries[entry] = left + 1;
    entries[entry + 1] = right + 1;
    entries[entry + 2] = rank;
  }
}

/** Where the entry of a pair begins. */
function placeOf(left: number, right: number): number {
  const hash = Math.imul(Math.imul(left, 0x85ebca6b) ^ right, 0x9e3779b1);
  return (hash >>> (32 - PLACE_BITS)) * STRIDE;
}
