import { createHash, timingSafeEqual } from 'node:crypto';

/** Compares in constant time, for which digests have equal length. */
export function isEqual(presented: string | undefined, expected: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return presented !== undefined && timingSafeEqual(digest(presented), digest(expected));
}
