/**
 * Up to eight bytes as two integers, so that a lookup compares a whole token at once.
 *
 * They are read where they stand, with whatever follows them, and cut to length. So every buffer
 * that keys are read from has MAX_SHORT bytes behind its content, which do not matter.
 */

/** Bytes that keys are read from, and a view over the same. */
export interface KeySource {
  readonly bytes: Uint8Array;
  readonly view: DataView;
}

/** Bytes of the longest key. */
export const MAX_SHORT = 8;

/** What belongs to the first and to the second integer, by length. */
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

/** A hash of a key, of which the highest bits are the best. */
export function hashOfKey(first: number, second: number): number {
  return Math.imul(first ^ Math.imul(second, 0x85ebca6b), 0x9e3779b1);
}
