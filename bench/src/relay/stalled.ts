import { setTimeout as sleep } from 'node:timers/promises';
import { type Child, startChild } from '../../../scripts/child-process.js';
import { atLeast, atMost, compare, type Row } from '../row.js';
import { median } from '../statistics.js';
import type { RelayLoadCommands } from './load.js';
import type { RelayServerCommands } from './server.js';
import type { Stall, StallerCommands } from './staller.js';

/** The reader that stops: the receiver's application, or its socket. */
export const STALLS: readonly Stall[] = ['application', 'socket'];

const LOAD = { size: 1024, pairs: 8 } as const;
const DEPTH = 8;
const MIN_RATE = 0.9;
const MAX_GROWTH_MB = 16;
const MB = 1024 * 1024;

/**
 * One receiver that stalls while others send it as much as they may, beside pairs under full load: the memory
 * that the relay keeps, and the throughput that the pairs lose. Windows with and without it take turns.
 */
export async function* measureStalled(rounds: number, windowMs: number): AsyncGenerator<Row> {
  const relay = startChild<RelayServerCommands>(
    new URL('./server.ts', import.meta.url),
    ['session'],
    ['--expose-gc'],
  );
  const load = startChild<RelayLoadCommands>(new URL('./load.ts', import.meta.url), ['session']);
  try {
    const port = await relay.call('port');
    await load.call('open', { port, ...LOAD });
    const rate = async () => {
      const { messages, ms } = await load.call('flood', { depth: DEPTH, windowMs });
      return (messages / ms) * 1000;
    };
    await rate();
    for (const stall of STALLS) {
      const rates = { without: [] as number[], beside: [] as number[] };
      const growth: number[] = [];
      for (let round = 0; round < rounds; round++) {
        rates.without.push(await rate());
        const before = await relay.call('memory');
        const staller = startChild<StallerCommands>(new URL('./staller.ts', import.meta.url), [
          String(port),
          stall,
        ]);
        await staller.call('stall');
        await untilStill(staller);
        rates.beside.push(await rate());
        growth.push((held(await relay.call('memory')) - held(before)) / MB);
        staller.stop();
      }
      const without = { name: 'without', value: median(rates.without) };
      const name = `relay, ${LOAD.pairs} pairs beside a stalled ${stall}`;
      yield compare(name, 'msg/s', 'higher', median(rates.beside), without, atLeast(MIN_RATE));
      const allowed = { name: `${MAX_GROWTH_MB} MB`, value: MAX_GROWTH_MB };
      const kept = `relay, memory behind a stalled ${stall}`;
      yield compare(kept, 'MB', 'lower', Math.max(...growth), allowed, atMost(1));
    }
  } finally {
    load.stop();
    relay.stop();
  }
}

/** `arrayBuffers` is already part of `external`. */
const held = ({ heapUsed, external }: NodeJS.MemoryUsage): number => heapUsed + external;

/** Waits until nothing more can be sent to the stalled receiver. */
async function untilStill(staller: Child<StallerCommands>): Promise<void> {
  let last = 0;
  for (let patience = 50; patience > 0; patience--) {
    await sleep(200);
    const sent = await staller.call('sent');
    if (sent > 0 && sent === last) return;
    last = sent;
  }
  throw new Error(`the stalled receiver was sent ${last} messages and keeps getting more`);
}
