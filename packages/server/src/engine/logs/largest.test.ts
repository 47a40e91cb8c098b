import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Largest } from './largest.js';

it('has the largest item, however items come, go and change', () => {
  const step = fc.record({
    item: fc.nat({ max: 9 }),
    do: fc.constantFrom('add', 'delete', 'change'),
    bytes: fc.nat({ max: 20 }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
      const items = Array.from({ length: 10 }, () => ({ bytes: 0 }));
      const largest = new Largest<{ bytes: number }>();
      const present = new Set<{ bytes: number }>();
      for (const { item: index, do: what, bytes } of steps) {
        const item = items[index] as { bytes: number };
        if (what === 'add') {
          largest.add(item);
          present.add(item);
        } else if (what === 'delete') {
          largest.delete(item);
          present.delete(item);
        } else {
          item.bytes = bytes;
          largest.update(item);
        }
        const most = Math.max(...[...present].map((each) => each.bytes));
        expect(largest.get()?.bytes).toBe(present.size === 0 ? undefined : most);
      }
    }),
  );
});
