import { setTimeout as sleep } from 'node:timers/promises';
import { startChild } from '../../scripts/child-process.js';
import { type Contestant, measureWindow } from './echo/contestant.js';
import type { LoadCommands } from './process/load.js';
import { type BenchOptions, compare, type Row } from './row.js';
import type { ReaderCommands, Stall } from './stalled/reader.js';
import type { StalledServerCommands } from './stalled/server.js';
import { median } from './statistics.js';

/**
 * One reader that stalls while its peers send it as much as it allows, beside 100 sessions under full load:
 * the memory that the server keeps for it, and the throughput that the others lose. Windows with and without
 * it take turns. Server, load and reader are three processes.
 */

/** Who stops reading: the client's application, its socket, or the server's application. */
export const STALLS: readonly Stall[] = ['application', 'socket', 'server'];

const CROWD = { connections: 100, size: 1024, depth: 8, exchange: 'message' } as const;
const MB = 1024 * 1024;
const MAX_GROWTH_MB = 16;
const MIN_RATE = 0.9;

export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  const rounds = quick ? 3 : 11;
  const plan = { rampMs: 50, windowMs: quick ? 300 : 700 };
  const server = startChild<StalledServerCommands>(
    new URL('./stalled/server.ts', import.meta.url),
    [],
    ['--expose-gc'],
  );
  const load = startChild<LoadCommands>(new URL('./process/load.ts', import.meta.url), ['session']);
  try {
    const port = await server.call('port');
    const crowd = { name: 'session', port, server, load } satisfies Contestant;
    await load.call('open', { port, ...CROWD });
    await measureWindow(crowd, plan);
    for (const stall of STALLS) {
      const rates = { without: [] as number[], beside: [] as number[] };
      const growth: number[] = [];
      for (let round = 0; round < rounds; round++) {
        rates.without.push((await measureWindow(crowd, plan)).rate);
        const before = await server.call('memory');
        const reader = startChild<ReaderCommands>(new URL('./stalled/reader.ts', import.meta.url), [
          String(port),
          stall,
        ]);
        await reader.call('stall');
        await settle(() => server.call('passed'));
        rates.beside.push((await measureWindow(crowd, plan)).rate);
        growth.push(kept(await server.call('memory')) - kept(before));
        reader.stop();
        // Wait until the reader's session, whose resume window is short here, is over.
        await settle(() => server.call('connections'), CROWD.connections);
      }
      const rate = { name: 'without', value: median(rates.without) };
      yield compare(
        `100 beside a stalled ${stall}`,
        'msg/s',
        'higher',
        median(rates.beside),
        rate,
        (ratio) => ({ text: `>= ${MIN_RATE}`, met: ratio >= MIN_RATE }),
      );
      const value = Math.max(...growth);
      const allowed = { name: `${MAX_GROWTH_MB} MB`, value: MAX_GROWTH_MB };
      yield compare(`memory behind a stalled ${stall}, at most`, 'MB', 'lower', value, allowed, () => ({
        text: `<= ${MAX_GROWTH_MB} MB`,
        met: value <= MAX_GROWTH_MB,
      }));
    }
  } finally {
    load.stop();
    server.stop();
  }
}

/** `arrayBuffers` is already part of `external`. */
const kept = ({ heapUsed, external, arrayBuffers }: NodeJS.MemoryUsage): number =>
  (heapUsed + external + arrayBuffers) / MB;

/** Waits until a figure stays the same, or reaches the expected value. */
async function settle(read: () => Promise<number>, expected?: number): Promise<void> {
  let last = Number.NaN;
  for (let patience = 100; patience > 0; patience--) {
    const value = await read();
    if (expected === undefined ? value === last : value === expected) return;
    last = value;
    await sleep(100);
  }
  throw new Error(`${last} instead of ${expected ?? 'a stable figure'}`);
}
