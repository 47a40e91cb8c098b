import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { fromHex } from '../../base/testing/bytes.js';
import { loadOn, type UnderTest } from '../../testing/on-platform.js';

// Alone in its file: the peak memory of a process never falls, so only a process that has done little else
// can measure what one call took.

const MIB = 1024 * 1024;
const { decode } = JSON.parse(
  readFileSync(new URL('../../../../../conformance/vectors/m2m-frame.json', import.meta.url), 'utf8'),
) as { decode: { decompressed_bytes?: number; frame_bytes?: number; frame_hex: string; verdict: string }[] };

const bombs = decode.filter((vector) => (vector.decompressed_bytes ?? 0) > 16 * MIB);
const peak = () => process.resourceUsage().maxRSS * 1024;

describe.each(['node', 'web'] as const)('decompression bombs on %s', (name) => {
  let on: UnderTest;
  beforeAll(async () => {
    on = await loadOn(name);
    on.decodeM2M(on.encodeM2M(`"${'x'.repeat(100_000)}"`));
  });
  it('are among the vectors', () => {
    expect(bombs.length).toBeGreaterThan(0);
    expect(bombs.some((vector) => vector.frame_bytes === 151)).toBe(true);
  });

  it.each(bombs)('$frame_bytes bytes that expand to $decompressed_bytes', (vector) => {
    const before = peak();
    const frame = fromHex(vector.frame_hex);
    expect(on.codeOf(() => on.decodeM2M(frame))).toBe('decompressed_too_large');
    expect(peak() - before).toBeLessThan(32 * MIB);
  });
});

it('the measurement would notice a bomb that expands', async () => {
  const on = await loadOn('node');
  const largest = bombs.reduce((a, b) => (a.decompressed_bytes! > b.decompressed_bytes! ? a : b));
  const frame = fromHex(largest.frame_hex);
  const before = peak();
  // A process may have memory left over from before, so one result could fit in there.
  const kept = [1, 2, 3].map(() => on.decodeM2M(frame, { limits: { maxMessageSize: Infinity } }));
  expect(peak() - before).toBeGreaterThan(32 * MIB);
  expect(kept).toHaveLength(3);
});
