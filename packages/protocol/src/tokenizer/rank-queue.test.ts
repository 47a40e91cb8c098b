import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MAX_POSITIONS, RankQueue } from './rank-queue.js';
import { NO_TOKEN } from './token-table.js';

/** The leftmost of the lowest ranks, or -1. */
function leftmost(ranks: Int32Array): number {
  const lowest = Math.min(...ranks);
  return lowest === NO_TOKEN ? -1 : ranks.indexOf(lowest);
}

describe('the queue of ranks', () => {
  it('finds the leftmost of the lowest ranks after every change', () => {
    const rank = fc.oneof(
      fc.integer({ min: 0, max: 5 }),
      fc.integer({ min: 0, max: 200_018 }),
      fc.constant(NO_TOKEN),
    );
    const change = fc.tuple(fc.nat(), fc.nat(), fc.nat(), rank, rank, rank);
    fc.assert(
      fc.property(
        fc.array(rank, { minLength: 1, maxLength: 70 }),
        fc.array(change, { maxLength: 40 }),
        (initial, changes) => {
          const queue = new RankQueue();
          // Nothing of the former content may remain.
          queue.fill(new Int32Array(100), 100);
          const ranks = Int32Array.from(initial);
          queue.fill(ranks, ranks.length);
          expect(queue.first()).toBe(leftmost(ranks));
          for (const [a, b, c, ...values] of changes) {
            const [left, middle, right] = [a, b, c]
              .map((each) => each % ranks.length)
              .sort((x, y) => x - y) as [number, number, number];
            [left, middle, right].forEach((at, i) => {
              ranks[at] = values[i] as number;
            });
            queue.update(ranks, left, middle, right);
            expect(queue.first()).toBe(leftmost(ranks));
            for (let at = left; at <= right; at++) ranks[at] = values[at % 3] as number;
            queue.updateAll(ranks, left, right);
            expect(queue.first()).toBe(leftmost(ranks));
          }
        },
      ),
    );
  });

  it('has room for as many positions as it says, with any rank', () => {
    const ranks = new Int32Array(MAX_POSITIONS).fill(NO_TOKEN);
    const queue = new RankQueue();
    const last = MAX_POSITIONS - 1;
    ranks[last] = (1 << 18) - 2;
    queue.fill(ranks, MAX_POSITIONS);
    expect(queue.first()).toBe(last);
    ranks[last] = NO_TOKEN;
    queue.update(ranks, 0, 1, last);
    expect(queue.first()).toBe(-1);
  });
});
