import { setTimeout as sleep } from 'node:timers/promises';
import type { HostileProxy, ProxiedConnection } from './hostile-proxy.js';

/** Breaks random connections, one after another. */

/** How often each kind of failure happened. */
export interface StormCounts {
  /** Connections that were broken: reset, ended, or cut in the middle of data. */
  cuts: number;
  freezes: number;
  delays: number;
  halves: number;
  outages: number;
}

export interface StormOptions {
  readonly proxy: Pick<HostileProxy, 'connections' | 'refuses'>;
  readonly counts: StormCounts;
  /** Average time between two failures, in milliseconds. */
  readonly everyMs: number;
  /** Whether connections may still die in one direction, which takes the ends a while to detect. */
  readonly mayHalve: () => boolean;
}

export async function runStorm(options: StormOptions, until: AbortSignal): Promise<void> {
  const { proxy, everyMs } = options;
  while (!until.aborted) {
    await sleep(Math.random() * 2 * everyMs);
    const connection = proxy.connections[below(proxy.connections.length)];
    if (connection !== undefined && !until.aborted) await befall(connection, options);
  }
}

async function befall(
  connection: ProxiedConnection,
  { proxy, counts, mayHalve }: StormOptions,
): Promise<void> {
  const choice = below(100);
  const direction = below(2) === 0 ? 'up' : 'down';
  if (choice < 75) {
    counts.cuts++;
    if (choice < 45) connection.reset();
    else if (choice < 68) connection.cutInside(direction, below(below(2) === 0 ? 100 : 5_000));
    else connection.finish();
  } else if (choice < 85) {
    counts.freezes++;
    connection.freeze(50 + below(1_500));
  } else if (choice < 93) {
    counts.delays++;
    connection.delay(1 + below(80));
  } else if (choice < 97) {
    if (!mayHalve()) return;
    counts.halves++;
    connection.halve(direction);
  } else {
    counts.outages++;
    proxy.refuses = true;
    for (const each of proxy.connections) if (below(4) === 0) each.reset();
    await sleep(below(600));
    proxy.refuses = false;
  }
}

const below = (n: number): number => Math.floor(Math.random() * n);
