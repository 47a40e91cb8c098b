import { readFile } from 'node:fs/promises';
import * as zlib from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { measureSavings, type Savings, WAYS } from '../../../bench/src/savings/measure.js';
import { linesOf, tableOf } from '../../../bench/src/savings/table.js';
import { TURNS } from '../../../bench/src/savings.js';

/** The figures of savings that the documents quote. They are measured with the clock of `globalThis` stopped. */

const TOLERANCE = 'zstdCompressSync' in zlib ? 0.01 : 0;

const document = (name: string) => readFile(new URL(`../../../${name}`, import.meta.url), 'utf8');

describe('the savings of a chat', () => {
  let savings: Savings;
  beforeAll(async () => {
    savings = await measureSavings(TURNS);
  });

  it.each(WAYS)('are counted by a proxy as by the sockets themselves: %s', (way) => {
    const counts = [...savings[way].values()];
    expect(counts.map(({ proxy }) => proxy)).toEqual(counts.map(({ socket }) => socket));
    expect(counts.map(({ proxy }) => proxy.received > 1_000)).toEqual(TURNS.map(() => true));
  });

  it('are those of docs/MEASUREMENTS.md', async () => {
    const measured = cellsOf(tableOf(linesOf(savings)));
    const quoted = cellsOf(await quotedTable());
    expect(quoted.map(({ text }) => text)).toEqual(measured.map(({ text }) => text));
    // Node's own zstd, from 22.15 on, saves some thousandths more than ours, with which the document was written.
    for (const [i, { value }] of quoted.entries())
      expect(Math.abs(value - (measured[i]?.value ?? 0))).toBeLessThanOrEqual(TOLERANCE * value);
  });
});

describe('the documents', () => {
  it.each(['README.md', 'docs/compare.md', 'docs/guide/savings-and-context.md'])(
    'quote no other figure of savings: %s',
    async (name) => {
      const table = await quotedTable();
      const quoted = [...(await document(name)).matchAll(/[\d,.]+×/g)].map(([text]) => text);
      expect(quoted.length).toBeGreaterThan(3);
      expect(quoted.filter((text) => !table.includes(`| ${text} |`))).toEqual([]);
    },
  );
});

async function quotedTable(): Promise<string> {
  const text = await document('docs/MEASUREMENTS.md');
  const [table] = /^\| turns \|.*\n(?:\|.*\n)+/m.exec(text) ?? expect.fail('there is no table');
  return table;
}

/** Each figure, and the text around it. */
function cellsOf(table: string): { text: string; value: number }[] {
  return [...table.matchAll(/([^\d]*)([\d,]+(?:\.\d)?)/g)].map(([, text = '', figure = '']) => ({
    text,
    value: Number(figure.replaceAll(',', '')),
  }));
}
