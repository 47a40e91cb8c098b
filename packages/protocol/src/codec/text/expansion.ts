/**
 * How much a body may expand when it is decoded: 64 KiB, and 100 times its coded bytes beyond them. Text that
 * people write stays far below; without the bound, a few bytes stand for as much as the message limit allows.
 * A sender codes what expands more in another codec, or leaves it as it is.
 */

/** Bytes that any body may expand to. */
export const EXPANSION_FLOOR = 64 * 1024;
/** Bytes beyond the floor that each coded byte may stand for. */
export const MAX_EXPANSION = 100;

/** Bytes that a body of `codedLength` bytes may expand to. */
export function largestExpansion(codedLength: number): number {
  return EXPANSION_FLOOR + MAX_EXPANSION * codedLength;
}
