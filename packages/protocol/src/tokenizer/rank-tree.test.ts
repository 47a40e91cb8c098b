import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RankTree } from './rank-tree.js';
import { NO_TOKEN } from './token-table.js';

describe('the tree of ranks', () => {
  it('finds the leftmost of the lowest ranks after every change', () => {
    const rank = fc.oneof(fc.integer({ min: 0, max: 5 }), fc.constant(NO_TOKEN));
    const changes = fc.array(fc.tuple(fc.nat(), rank), { maxLength: 60 });
    fc.assert(
      fc.property(fc.array(rank, { minLength: 1, maxLength: 70 }), changes, (ranks, later) => {
        const tree = new RankTree();
        // Nothing of the former content may remain.
        tree.reset(100);
        for (let i = 0; i < 100; i++) tree.put(i, 0);
        tree.build();
        tree.reset(ranks.length);
        ranks.forEach((each, position) => {
          tree.put(position, each);
        });
        tree.build();
        const check = () => {
          const lowest = Math.min(...ranks);
          expect(tree.lowest).toBe(lowest);
          if (lowest !== NO_TOKEN) expect(tree.leftmost()).toBe(ranks.indexOf(lowest));
        };
        check();
        for (const [position, value] of later) {
          ranks[position % ranks.length] = value;
          tree.set(position % ranks.length, value);
          check();
        }
      }),
    );
  });
});
