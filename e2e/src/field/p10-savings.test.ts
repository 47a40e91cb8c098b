import { readFile } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { measureSavings, type Savings, WAYS } from '../../../bench/src/savings/measure.js';
import { linesOf, tableOf } from '../../../bench/src/savings/table.js';
import { TURNS } from '../../../bench/src/savings.js';

/** The figures of savings that the documents quote. They are measured with the clock of `globalThis` stopped. */

const document = (name: string) => readFile(new URL(`../../../${name}`, import.meta.url), 'utf8');

describe('the savings of a chat', () => {
  let savings: Savings;
  beforeAll(async () => {
    savings = await measureSavings(TURNS);
  }, 300_000);

  it.each(WAYS)('are counted by a proxy as by the sockets themselves: %s', (way) => {
    const counts = [...savings[way].values()];
    expect(counts.map(({ proxy }) => proxy)).toEqual(counts.map(({ socket }) => socket));
    expect(counts.map(({ proxy }) => proxy.received > 1_000)).toEqual(TURNS.map(() => true));
  });

  it('are those of docs/MEASUREMENTS.md', async () => {
    expect(await document('docs/MEASUREMENTS.md')).toContain(tableOf(linesOf(savings)));
  });

  it.each(['README.md', 'docs/compare.md'])('are those of %s', async (name) => {
    const quoted = [...(await document(name)).matchAll(/([\d,.]+(?: kB|×))/g)].map(([text]) => text);
    const table = tableOf(linesOf(savings));
    const ours = quoted.filter((text) => table.includes(` ${text} `));
    expect(ours.length).toBeGreaterThan(3);
    expect(quoted.filter((text) => text.endsWith('×') && !ours.includes(text))).toEqual([]);
  });
});
