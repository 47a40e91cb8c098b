import { expect, it } from 'vitest';
import { bytesOf } from '../../base/testing/bytes.js';
import { createProse } from '../../testing/prose.js';
import { samplesOf, sharedWith, sketchOf } from './sketch.js';

const shareOf = (message: string, base: string) =>
  sharedWith(samplesOf(bytesOf(message)), sketchOf(bytesOf(base)));

it.each([300, 3000, 30_000])('finds what messages of %d words share, at any position', (words) => {
  const prose = createProse(words);
  const [a, b, c] = [prose(words), prose(words), prose(words)] as const;
  expect(shareOf(a, a)).toBe(1);
  expect(shareOf(a, b)).toBeLessThan(0.05);
  // Moved, and between other text.
  expect(shareOf(`${b} ${a}`, `${a}${c}`)).toBeGreaterThan(0.3);
  expect(shareOf(`${b} ${a}`, `${a}${c}`)).toBeLessThan(0.7);
  expect(shareOf(`something else. ${a}`, a)).toBeGreaterThan(0.9);
});

it('returns 0 for messages that are too short to have passages', () => {
  expect(shareOf('', '')).toBe(0);
  expect(shareOf('short', 'short')).toBe(0);
});
