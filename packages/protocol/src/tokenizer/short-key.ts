/**
 * Up to eight bytes as two integers, so that a lookup compares a whole token at once.
 *
 * The bytes are read in place, together with those that follow, and masked to the length. So every buffer
 * that keys are read from needs MAX_SHORT bytes after its content; their values do not matter.
 */

/** Bytes to read keys from, and a view of the same memory. */
export interface KeySource {
  readonly bytes: Uint8Array;
  readonly view: DataView;
}

/** Bytes of the longest key. */
export const MAX_SHORT = 8;

/** The bits of the first and of the second integer that belong to the key, by its length. */
const FIRST_MASKS = masks(0);
const SECOND_MASKS = masks(4);

function masks(from: number): Int32Array {
  return Int32Array.from({ length: MAX_SHORT + 1 }, (_, length) => {
    const bytes = length - from;
    return bytes <= 0 ? 0 : bytes >= 4 ? -1 : (1 << (8 * bytes)) - 1;
  });
}

export function firstOf(view: DataView, at: number, length: number): number {
  return view.getInt32(at, true) & (FIRST_MASKS[length] as number);
}

export function secondOf(view: DataView, at: number, length: number): number {
  return view.getInt32(at + 4, true) & (SECOND_MASKS[length] as number);
}

/** A hash of a key; the highest bits are the best distributed. */
export function hashOfKey(first: number, second: number): number {
  return Math.imul(first ^ Math.imul(second, 0x85ebca6b), 0x9e3779b1);
}

/** Up to four bytes as an integer. */
export function wordAt(view: DataView, at: number, end: number): number {
  const word = view.getInt32(at, true);
  return end - at >= 4 ? word : word & ((1 << (8 * (end - at))) - 1);
}
