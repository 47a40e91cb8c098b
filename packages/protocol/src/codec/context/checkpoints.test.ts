import fc from 'fast-check';
import { expect, it } from 'vitest';
import { seeded } from '../../testing/prose.js';
import { platform } from '../../testing/this-platform.js';
import { checkpointsOf } from './checkpoints.js';

it('is the CRC of the message, with any part of it known from its base', () => {
  const random = seeded(1);
  const bytes = Uint8Array.from({ length: 60_000 }, () => random() * 256);
  fc.assert(
    fc.property(fc.nat(50_000), fc.nat(50_000), fc.nat(9_000), (baseLength, cut, added) => {
      const base = bytes.subarray(0, baseLength);
      const prefix = Math.min(cut, baseLength);
      const message = Uint8Array.of(...base.subarray(0, prefix), ...bytes.subarray(50_000, 50_000 + added));
      const known = checkpointsOf(base, 0, undefined);
      expect(known.checksum).toBe(platform.crc32(base));
      const found = checkpointsOf(message, prefix, known);
      expect(found.checksum).toBe(platform.crc32(message));
      expect(checkpointsOf(message, 0, undefined)).toEqual(found);
    }),
    { numRuns: 100 },
  );
});
