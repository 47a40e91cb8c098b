import { startChild } from '../../scripts/child-process.js';
import type { ProxyCommands } from './gateway/proxy.js';
import type { GatewayCommands } from './gateway/server.js';
import { chatTurns } from './gateway/turns.js';
import type { UpstreamCommands } from './gateway/upstream.js';
import { openDirect, openSession, type Way } from './gateway/ways.js';
import { atMost, type BenchOptions, compare, type Row } from './row.js';

/**
 * A chat with streamed answers, directly and through the gateway: bytes on the client's socket, time to the
 * first event, beside a bare reverse proxy, and how long the upstream keeps working for a client that has left.
 * Upstream, gateway, proxy and client are four processes; the upstream itself adds no time.
 */

const TURNS = 40;
const RESUME_WINDOW_MS = 1_000;
/** A model must not work any longer than this for a client that has left. */
const MAX_CLOSE_MS = 100;

export async function* run({ quick, conversation }: BenchOptions): AsyncGenerator<Row> {
  yield* measure(quick, conversation, async function* (baseUrl, url, closedAt) {
    yield* chat(baseUrl, url, quick ? 1 : 3, conversation);
    yield* aborts(baseUrl, url, quick ? 50 : 300, closedAt);
    yield* losses(url, quick ? 20 : 200, closedAt);
  });
}

/** The chat alone. */
export async function* firstTokens(rounds: number): AsyncGenerator<Row> {
  yield* measure(false, undefined, (baseUrl, url) => chat(baseUrl, url, rounds, undefined));
}

type ClosedAt = (tag: string) => Promise<number>;

async function* measure(
  quick: boolean,
  conversation: string | undefined,
  rows: (baseUrl: string, url: string, closedAt: ClosedAt) => AsyncIterable<Row>,
): AsyncGenerator<Row> {
  const upstream = startChild<UpstreamCommands>(new URL('./gateway/upstream.ts', import.meta.url), [
    String(TURNS),
    quick ? '0' : '1',
    ...(conversation === undefined ? [] : [conversation]),
  ]);
  const baseUrl = await upstream.call('url');
  const gateway = startChild<GatewayCommands>(new URL('./gateway/server.ts', import.meta.url), [
    baseUrl,
    String(RESUME_WINDOW_MS),
  ]);
  try {
    const url = await gateway.call('url');
    yield* rows(baseUrl, url, (tag) => upstream.call('closedAt', tag));
  } finally {
    gateway.stop();
    upstream.stop();
  }
}

async function* chat(
  baseUrl: string,
  url: string,
  rounds: number,
  conversation: string | undefined,
): AsyncGenerator<Row> {
  const turns = chatTurns(TURNS, conversation);
  const direct = openDirect(baseUrl);
  const session = await openSession(url);
  const child = startChild<ProxyCommands>(new URL('./gateway/proxy.ts', import.meta.url), [baseUrl]);
  const proxy = openDirect(await child.call('url'));
  const first = { direct: [] as number[], proxy: [] as number[], session: [] as number[] };
  // Warms up connections and JIT compilers of all ways.
  for (const way of [direct, proxy, session]) await (await way.ask(turns[0]?.request ?? '')).drain();
  const before = { direct: direct.bytes(), session: session.bytes() };
  for (let round = 0; round < rounds; round++) {
    for (const { request } of turns) {
      for (const [name, way] of [
        ['direct', direct],
        ['proxy', proxy],
        ['session', session],
      ] as const) {
        const answer = await way.ask(request);
        first[name].push(answer.firstMs);
        await answer.drain();
      }
    }
  }
  const total = (name: 'direct' | 'session', direction: 'sent' | 'received', way: Way) =>
    (way.bytes()[direction] - before[name][direction]) / rounds;
  const sums = { direct: 0, session: 0 };
  for (const [what, direction] of [
    ['requests', 'sent'],
    ['answers', 'received'],
  ] as const) {
    const value = total('session', direction, session);
    const baseline = total('direct', direction, direct);
    sums.session += value;
    sums.direct += baseline;
    yield compare(`${turns.length}-turn chat, ${what}`, 'B', 'lower', value, {
      name: 'direct',
      value: baseline,
    });
  }
  yield compare(`${turns.length}-turn chat, both`, 'B', 'lower', sums.session, {
    name: 'direct',
    value: sums.direct,
  });
  for (const [rank, most] of [[0.5, 2], [0.95, 3], [0.99]] as const) {
    const base = { name: 'direct', value: quantile(first.direct, rank) };
    const target = most === undefined ? undefined : atMost(most);
    yield compare(
      `first token, ${percentile(rank)}`,
      'ms',
      'lower',
      quantile(first.session, rank),
      base,
      target,
    );
    const name = `first token of a bare reverse proxy, ${percentile(rank)}`;
    yield compare(name, 'ms', 'lower', quantile(first.proxy, rank), base);
  }
  await Promise.all([direct.close(), proxy.close(), session.close()]);
  child.stop();
}

/** Time from an abort at the client to the end of the upstream connection. */
async function* aborts(baseUrl: string, url: string, times: number, closedAt: ClosedAt): AsyncGenerator<Row> {
  const session = await openSession(url);
  const taken = { direct: [] as number[], session: [] as number[] };
  for (let i = 0; i < times; i++) {
    const direct = openDirect(baseUrl);
    for (const [name, way] of [
      ['direct', direct],
      ['session', session],
    ] as const) {
      const tag = `${name}-${i}`;
      const answer = await way.ask(JSON.stringify({ tag, stream: true }));
      const start = monotonicMs();
      answer.abort();
      taken[name].push((await closedAt(tag)) - start);
    }
    await direct.close();
  }
  for (const rank of [0.5, 0.99]) {
    const value = quantile(taken.session, rank);
    yield compare(
      `upstream closed after an abort, ${percentile(rank)}`,
      'ms',
      'lower',
      value,
      { name: 'direct', value: quantile(taken.direct, rank) },
      () => (rank === 0.99 ? { text: `<= ${MAX_CLOSE_MS} ms`, met: value <= MAX_CLOSE_MS } : undefined),
    );
  }
  await session.close();
}

/** Time from the end of the resume window to the end of the upstream connection. */
async function* losses(url: string, times: number, closedAt: ClosedAt): AsyncGenerator<Row> {
  const sessions: Way[] = [];
  for (let i = 0; i < times; i++) {
    const session = await openSession(url);
    await session.ask(JSON.stringify({ tag: `lost-${i}`, stream: true }));
    sessions.push(session);
  }
  const late = await Promise.all(
    sessions.map(async (session, i) => {
      // Starts at different phases of the server's sweep.
      await new Promise((resolve) => setTimeout(resolve, i * 23));
      const lost = monotonicMs();
      session.lose();
      const closed = await closedAt(`lost-${i}`);
      return closed - lost - RESUME_WINDOW_MS;
    }),
  );
  for (const session of sessions) void session.close();
  for (const rank of [0.5, 0.99]) {
    const value = quantile(late, rank);
    yield compare(
      `upstream closed after the resume window, ${percentile(rank)}`,
      'ms',
      'lower',
      value,
      { name: `${MAX_CLOSE_MS} ms`, value: MAX_CLOSE_MS },
      () => (rank === 0.99 ? { text: `<= ${MAX_CLOSE_MS} ms`, met: value <= MAX_CLOSE_MS } : undefined),
    );
  }
}

function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

function percentile(rank: number): string {
  return `p${rank * 100}`;
}

function quantile(values: readonly number[], rank: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * rank))] ?? Number.NaN;
}
