import { compare, type Row } from './row.js';
import { measureSavings } from './savings/measure.js';
import { type Line, linesOf, tableOf } from './savings/table.js';

/**
 * The bytes of a chat with Parlance and with gzip, counted by a TCP proxy: every figure of savings that the README, the
 * documents and the pages quote. It comes out the same in each run.
 */

export const TURNS = [1, 3, 10, 40, 150];

export async function* run(): AsyncGenerator<Row> {
  for (const line of linesOf(await measureSavings(TURNS))) yield* rowsOf(line);
}

/** The text that is printed in place of rows. */
export async function text(): Promise<string> {
  return tableOf(linesOf(await measureSavings(TURNS)));
}

function* rowsOf({ turns, what, bytes }: Line): Generator<Row> {
  for (const [name, value] of [
    ['gzip of answers', bytes.gzip],
    ['gzip of both', bytes['gzip both']],
    ['uncompressed', bytes.http],
  ] as const)
    yield compare(`${turns} turns, ${what}`, 'B', 'lower', bytes.session, { name, value });
}
