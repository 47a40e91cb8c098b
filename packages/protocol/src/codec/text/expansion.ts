/**
 * How much a body may expand when it is decoded: to 64 KiB plus 100 times its coded size. Text that people
 * write stays far below. Without the bound, a few bytes could expand to the full message limit. A sender must
 * code content that would expand more with another codec, or send it uncoded.
 */

/** Bytes to which any body may expand. */
export const EXPANSION_FLOOR = 64 * 1024;
/** Further bytes for each coded byte. */
export const MAX_EXPANSION = 100;

/** The number of bytes to which a body of `codedLength` bytes may expand. */
export function largestExpansion(codedLength: number): number {
  return EXPANSION_FLOOR + MAX_EXPANSION * codedLength;
}
