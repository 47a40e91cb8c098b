import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { connect } from '@parlance/client';
import WebSocket from 'ws';
import { type BenchOptions, compare, type Row } from './row.js';

/**
 * How a megabyte of text in one session affects another: round trips of a small request while a neighbour has
 * the same server tokenize large messages, against the same round trips alone. Server, neighbour and
 * measuring client are three processes.
 */

/** The longest that a large message may delay another session. */
const MAX_DELAY_MS = 50;

export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  const seconds = quick ? 3 : 10;
  const server = start('./stall/server.ts');
  const [url] = (await once(server, 'message')) as [string];
  try {
    await using session = await connect(url, { WebSocket });
    await roundTrips(session, 1);
    for (const algorithm of ['TOKEN_NATIVE', 'auto'] as const) {
      const alone = await roundTrips(session, seconds);
      const neighbour = start('./stall/neighbour.ts', url, algorithm);
      await once(neighbour, 'message');
      const beside = await roundTrips(session, seconds);
      neighbour.kill();
      for (const [name, rank] of [
        ['p50', 0.5],
        ['p99', 0.99],
        ['max', 1],
      ] as const) {
        const value = quantile(beside, rank);
        yield compare(
          `request beside 1 MB as ${algorithm}, ${name}`,
          'ms',
          'lower',
          value,
          {
            name: 'alone',
            value: quantile(alone, rank),
          },
          () => (rank === 0.99 ? { text: `<= ${MAX_DELAY_MS} ms`, met: value <= MAX_DELAY_MS } : undefined),
        );
      }
    }
  } finally {
    server.kill();
  }
}

/** Milliseconds of each round trip, one at a time with a short pause in between. */
async function roundTrips(session: Awaited<ReturnType<typeof connect>>, seconds: number): Promise<number[]> {
  const taken: number[] = [];
  const end = performance.now() + seconds * 1000;
  while (performance.now() < end) {
    const start = performance.now();
    await session.request('ping');
    taken.push(performance.now() - start);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  return taken.sort((a, b) => a - b);
}

function quantile(sorted: readonly number[], rank: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * rank))] ?? Number.NaN;
}

function start(file: string, ...args: string[]): ChildProcess {
  return fork(new URL(file, import.meta.url), args, { stdio: 'inherit' });
}
