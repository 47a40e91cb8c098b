import { connect } from '@parlance/client';
import WebSocket from 'ws';
import { type Child, startChild } from '../../scripts/child-process.js';
import type { CancelServerCommands } from './cancel/server.js';
import { type BenchOptions, compare, type Row } from './row.js';

/**
 * Time from `abort()` at the client to the handler's signal, in two processes with one monotonic clock:
 * alone, and while the same session receives endless streams. The baseline is a message over plain `ws`
 * between the same two processes.
 */

const STREAMS = 50;
/** A model must not work any longer than this for a client that has cancelled. */
const MAX_MS = 100;

export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  const times = quick ? 100 : 1_000;
  const server = startChild<CancelServerCommands>(new URL('./cancel/server.ts', import.meta.url), []);
  try {
    const { sessionUrl, plainUrl } = await server.call('urls');
    const plain = await measurePlain(plainUrl, times, server);
    await using session = await connect(sessionUrl, {
      WebSocket,
      limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
    });
    for (const streams of [0, STREAMS]) {
      const others = Array.from({ length: streams }, () => session.stream('stream'));
      for (const other of others) void readAll(other);
      const taken = await measureCancel(session, times, server);
      for (const other of others) other.cancel();
      for (const rank of [0.5, 0.99]) {
        const value = quantile(taken, rank);
        const beside = streams === 0 ? '' : ` beside ${streams} streams`;
        yield compare(
          `abort to signal${beside}, p${rank * 100}`,
          'ms',
          'lower',
          value,
          { name: 'ws message', value: quantile(plain, rank) },
          () => (rank === 0.99 ? { text: `<= ${MAX_MS} ms`, met: value <= MAX_MS } : undefined),
        );
      }
    }
  } finally {
    server.stop();
  }
}

type Server = Child<CancelServerCommands>;

async function measureCancel(
  session: Awaited<ReturnType<typeof connect>>,
  times: number,
  server: Server,
): Promise<number[]> {
  const taken: number[] = [];
  for (let i = 0; i < times; i++) {
    const tag = `cancel ${i}`;
    const abort = new AbortController();
    const parts = session.stream(tag, { signal: abort.signal })[Symbol.asyncIterator]();
    // A part proves that the handler runs.
    await parts.next();
    const start = monotonicMs();
    abort.abort();
    taken.push((await server.call('at', tag)) - start);
  }
  return taken.sort((a, b) => a - b);
}

async function measurePlain(url: string, times: number, server: Server): Promise<number[]> {
  const webSocket = new WebSocket(url);
  await new Promise((resolve) => webSocket.once('open', resolve));
  const taken: number[] = [];
  for (let i = 0; i < times; i++) {
    const tag = `plain ${i}`;
    const start = monotonicMs();
    webSocket.send(tag);
    taken.push((await server.call('at', tag)) - start);
  }
  webSocket.close();
  return taken.sort((a, b) => a - b);
}

async function readAll(stream: AsyncIterable<unknown>): Promise<void> {
  for await (const _part of stream);
}

function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

function quantile(sorted: readonly number[], rank: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * rank))] ?? Number.NaN;
}
