import { startChild } from '../../scripts/child-process.js';
import type { ClientCommands, FirstTokens } from './gateway/client.js';
import type { ProxyCommands } from './gateway/proxy.js';
import type { GatewayCommands } from './gateway/server.js';
import { chatTurns } from './gateway/turns.js';
import type { UpstreamCommands } from './gateway/upstream.js';
import { openDirect, openSession, type Way } from './gateway/ways.js';
import { atMost, type BenchOptions, compare, type Row } from './row.js';

/**
 * A chat with streamed answers, directly and through the gateway: bytes on the client's socket, how long the upstream keeps working
 * for a client that has left, and the time to the first event, cold and warm, beside a bare reverse proxy.
 * Upstream, gateway, proxy and client are four processes; the upstream itself adds no time.
 */

const TURNS = 40;
const RESUME_WINDOW_MS = 1_000;
/** A model must not work any longer than this for a client that has left. */
const MAX_CLOSE_MS = 100;

/** As users meet the gateway: just after it has started, and after some hundred requests, which compile its code. */
const STATES = [
  { state: 'cold', before: 3, times: 10, gapMs: 60, most: 3.5 },
  { state: 'warm', before: 500, times: 200, gapMs: 0, most: 3 },
] as const;

export async function* run({ quick, conversation }: BenchOptions): AsyncGenerator<Row> {
  {
    using gateway = await startGateway(quick, conversation);
    yield* chat(gateway, quick ? 1 : 3, conversation);
    yield* aborts(gateway, quick ? 50 : 300);
    yield* losses(gateway, quick ? 20 : 200);
  }
  yield* firstTokens(quick ? 1 : 3);
}

/**
 * Beside a direct request and a bare reverse proxy.
 *
 * @param rounds each with processes of its own.
 */
export async function* firstTokens(rounds: number): AsyncGenerator<Row> {
  const [turn] = chatTurns(TURNS, undefined);
  for (const { state, before, times, gapMs, most } of STATES) {
    const all: FirstTokens = { direct: [], proxy: [], session: [] };
    for (let round = 0; round < rounds; round++) {
      using gateway = await startGateway(true, undefined);
      const proxy = startChild<ProxyCommands>(new URL('./gateway/proxy.ts', import.meta.url), [
        gateway.baseUrl,
      ]);
      const addresses = [gateway.baseUrl, await proxy.call('url'), gateway.url];
      const client = startChild<ClientCommands>(new URL('./gateway/client.ts', import.meta.url), addresses);
      const request = turn?.request ?? '';
      const taken = await client.call('firstTokens', { request, before, times, gapMs });
      for (const [name, values] of Object.entries(taken)) all[name as keyof FirstTokens].push(...values);
      client.stop();
      proxy.stop();
    }
    for (const rank of [0.5, 0.95]) {
      const base = { name: 'direct', value: quantile(all.direct, rank) };
      const name = `first token, ${state}, ${percentile(rank)}`;
      const target = rank === 0.5 ? atMost(most) : undefined;
      yield compare(name, 'ms', 'lower', quantile(all.session, rank), base, target);
      const ofProxy = `first token of a bare reverse proxy, ${state}, ${percentile(rank)}`;
      yield compare(ofProxy, 'ms', 'lower', quantile(all.proxy, rank), base);
    }
  }
}

interface RunningGateway extends Disposable {
  /** Of the upstream. */
  readonly baseUrl: string;
  readonly url: string;
  /** When the client of the exchange with this tag had left, in milliseconds of the monotonic clock. */
  closedAt(tag: string): Promise<number>;
}

/** A gateway and its upstream, which have just started. */
async function startGateway(quick: boolean, conversation: string | undefined): Promise<RunningGateway> {
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
  return {
    baseUrl,
    url: await gateway.call('url'),
    closedAt: (tag) => upstream.call('closedAt', tag),
    [Symbol.dispose]() {
      gateway.stop();
      upstream.stop();
    },
  };
}

async function* chat(
  { baseUrl, url }: RunningGateway,
  rounds: number,
  conversation: string | undefined,
): AsyncGenerator<Row> {
  const turns = chatTurns(TURNS, conversation);
  const direct = openDirect(baseUrl);
  const session = await openSession(url);
  // Opens the connections of both ways.
  for (const way of [direct, session]) await (await way.ask(turns[0]?.request ?? '')).drain();
  const before = { direct: direct.bytes(), session: session.bytes() };
  for (let round = 0; round < rounds; round++) {
    for (const { request } of turns) {
      for (const way of [direct, session]) await (await way.ask(request)).drain();
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
  await Promise.all([direct.close(), session.close()]);
}

/** Time from an abort at the client to the end of the upstream connection. */
async function* aborts({ baseUrl, url, closedAt }: RunningGateway, times: number): AsyncGenerator<Row> {
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
async function* losses({ url, closedAt }: RunningGateway, times: number): AsyncGenerator<Row> {
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
