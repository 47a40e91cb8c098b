import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { figureMetrics } from './figures.js';
import { createMetricKit } from './metric-kit.js';

it.each([true, false])('a value that is not told any more is gone, of a count: %s', async (isCount) => {
  const registry = new Registry();
  let values: readonly (readonly [string, number])[] = [
    ['a', 1],
    ['b', 2],
  ];
  const figure = {
    ...{ name: 'peeks', help: 'Peeks.', labels: ['session'], isCount },
    read: (set: (value: number, labels: Record<string, string>) => void) => {
      for (const [session, value] of values) set(value, { session });
    },
  };
  const read = figureMetrics([figure], createMetricKit(registry));
  const shown = async () => {
    read();
    return (await registry.metrics()).match(/session="\w"} \d/g);
  };
  expect(await shown()).toEqual(['session="a"} 1', 'session="b"} 2']);
  values = [['b', 3]];
  expect(await shown()).toEqual(['session="b"} 3']);
});
