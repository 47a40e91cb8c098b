import fc from 'fast-check';
import { expect, it } from 'vitest';
import { commonPrefix, commonSuffix } from './similarity.js';

/** Two byte strings that often begin and end with the same bytes, at any alignment in memory. */
const pairs = fc
  .tuple(
    fc.uint8Array({ maxLength: 60 }),
    fc.uint8Array({ maxLength: 40 }),
    fc.uint8Array({ maxLength: 40 }),
    fc.uint8Array({ maxLength: 60 }),
    fc.nat(7),
  )
  .map(
    ([head, a, b, tail, shift]) => [shifted([head, a, tail], shift), shifted([head, b, tail], 0)] as const,
  );

function shifted(pieces: readonly Uint8Array[], shift: number): Uint8Array {
  const bytes = pieces.flatMap((piece) => [...piece]);
  return Uint8Array.from([...new Uint8Array(shift), ...bytes]).subarray(shift);
}

it('finds the common ends of two byte strings, at any length and alignment', () => {
  fc.assert(
    fc.property(pairs, ([a, b]) => {
      let prefix = 0;
      while (prefix < Math.min(a.length, b.length) && a[prefix] === b[prefix]) prefix++;
      const most = Math.min(a.length, b.length) - prefix;
      let suffix = 0;
      while (suffix < most && a.at(-1 - suffix) === b.at(-1 - suffix)) suffix++;
      expect([commonPrefix(a, b), commonSuffix(a, b, most)]).toEqual([prefix, suffix]);
    }),
    { numRuns: 500 },
  );
});
