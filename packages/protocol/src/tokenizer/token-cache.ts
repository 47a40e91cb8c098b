/**
 * The IDs of short tokens met lately, in front of the vocabulary's table.
 *
 * Most pieces of most texts are a few thousand short tokens, which the table keeps scattered over a
 * megabyte. Here one look into 64 KiB that stay in the processor's cache compares all bytes of the
 * piece at once: they are read as two integers, cut to length. Direct-mapped: an entry has one place
 * and takes it from whoever was there, so the size is fixed whatever arrives.
 *
 * An entry is `entries[place * 4 ..]`: the first four bytes, the second four, and the ID below the
 * length.
 */

/** Longer tokens are not kept. */
export const MAX_SHORT = 8;

const PLACE_BITS = 12;
const ID_BITS = 18;
const ID_MASK = (1 << ID_BITS) - 1;

/** What is left of the two integers of a piece, by its length. */
const LOW_MASKS = Int32Array.from({ length: MAX_SHORT + 1 }, (_, length) =>
  length < 4 ? (1 << (8 * length)) - 1 : -1,
);
const HIGH_MASKS = Int32Array.from(
  { length: MAX_SHORT + 1 },
  (_, length) => LOW_MASKS[Math.max(0, length - 4)] as number,
);

export class TokenCache {
  readonly #entries = new Int32Array(4 << PLACE_BITS);

  /**
   * The ID of the token of `length` bytes at `at`, or -1 where it is not known.
   *
   * @param view has MAX_SHORT bytes from `at` on, whatever follows the piece.
   */
  read(view: DataView, at: number, length: number): number {
    const entries = this.#entries;
    const low = view.getInt32(at, true) & (LOW_MASKS[length] as number);
    const high = view.getInt32(at + 4, true) & (HIGH_MASKS[length] as number);
    const place = placeOf(low, high);
    const meta = entries[place + 2] as number;
    return entries[place] === low && entries[place + 1] === high && meta >> ID_BITS === length
      ? meta & ID_MASK
      : -1;
  }

  /** Keeps the ID of the token of `length` bytes at `at`. */
  write(view: DataView, at: number, length: number, id: number): void {
    const entries = this.#entries;
    const low = view.getInt32(at, true) & (LOW_MASKS[length] as number);
    const high = view.getInt32(at + 4, true) & (HIGH_MASKS[length] as number);
    const place = placeOf(low, high);
    entries[place] = low;
    entries[place + 1] = high;
    entries[place + 2] = (length << ID_BITS) | id;
  }
}

/** Where the entry of these bytes begins. */
function placeOf(low: number, high: number): number {
  const mixed = Math.imul(low ^ Math.imul(high, 0x85ebca6b), 0x9e3779b1);
  return (mixed >>> (32 - PLACE_BITS)) << 2;
}
