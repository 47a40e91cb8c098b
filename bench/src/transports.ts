import { setTimeout as sleep } from 'node:timers/promises';
import { createCuttingProxy } from '../../e2e/src/kit/cutting-proxy.js';
import { type Child, startChild } from '../../scripts/child-process.js';
import { atMost, type BenchOptions, compare, type Row, type Target } from './row.js';
import { median, quantile } from './statistics.js';
import type { ClientCommands } from './transports/client.js';
import type { Pace } from './transports/pace.js';
import type { ServerCommands } from './transports/server.js';

/**
 * Messages of a session over HTTP beside the same over a WebSocket, in either direction: how long one takes, the server's CPU, and bytes
 * on the way down, counted by a TCP proxy. Server and client are processes; transports take turns.
 */

const NAMES = ['websocket', 'http'] as const;
type Name = (typeof NAMES)[number];
const DIRECTIONS = ['down', 'up'] as const;
const SIZE = 256;
const MAX_MORE_BYTES = 4;
const MAX_MORE_UP_MS = 1.5;

interface Figures {
  /** Milliseconds from `send` to the reader. */
  readonly p50: number;
  readonly p95: number;
  /** Microseconds of the server's CPU for a message. */
  readonly cpu: number;
}

export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  const pace: Pace = { messages: quick ? 300 : 2_000, size: SIZE, gapMs: 2 };
  const rounds = quick ? 1 : 5;
  const found = new Map<string, Figures[]>();
  const bytes = new Map<Name, number[]>();
  for (let round = -1; round < rounds; round++) {
    // The first round compiles the code.
    const isCounted = round >= 0;
    for (const name of round % 2 === 0 ? NAMES : NAMES.toReversed()) {
      await using ends = await open(name);
      for (const direction of DIRECTIONS) {
        const figures = await measure(ends, direction, pace);
        if (isCounted) push(found, `${name} ${direction}`, figures);
      }
      const size = await countBytes(ends, quick ? 500 : 5_000);
      if (isCounted) push(bytes, name, size);
    }
  }
  const of = (name: Name, direction: string, figure: keyof Figures) =>
    median((found.get(`${name} ${direction}`) ?? []).map((each) => each[figure]));
  for (const direction of DIRECTIONS) {
    const row = (what: string, unit: string, figure: keyof Figures, target?: (ratio: number) => Target) => {
      const base = { name: 'websocket', value: of('websocket', direction, figure) };
      return compare(
        `http ${direction}, ${what}`,
        unit,
        'lower',
        of('http', direction, figure),
        base,
        target,
      );
    };
    const moreMs = of('http', 'up', 'p50') - of('websocket', 'up', 'p50');
    const least = { text: `<= +${MAX_MORE_UP_MS} ms`, met: moreMs <= MAX_MORE_UP_MS };
    yield row('p50', 'ms', 'p50', direction === 'down' ? atMost(1.3) : () => least);
    yield row('p95', 'ms', 'p95');
    yield row('CPU of the server', 'us', 'cpu', atMost(direction === 'down' ? 1.5 : 2.5));
  }
  const [ws, http] = NAMES.map((name) => median(bytes.get(name) ?? []));
  yield compare(
    'http down, bytes a frame',
    'B',
    'lower',
    http as number,
    { name: 'websocket', value: ws as number },
    () => ({
      text: `<= +${MAX_MORE_BYTES} B`,
      met: (http as number) - (ws as number) <= MAX_MORE_BYTES,
    }),
  );
}

interface Ends extends AsyncDisposable {
  readonly server: Child<ServerCommands>;
  readonly client: Child<ClientCommands>;
  /** From the server, on all connections. */
  bytesDown(): number;
}

async function open(transport: Name): Promise<Ends> {
  const server = startChild<ServerCommands>(new URL('./transports/server.ts', import.meta.url), []);
  const client = startChild<ClientCommands>(new URL('./transports/client.ts', import.meta.url), []);
  const url = new URL(await server.call('url'));
  const proxy = await createCuttingProxy(Number(url.port));
  url.port = String(proxy.port);
  await client.call('open', { url: String(url), transport });
  return {
    server,
    client,
    bytesDown: () => proxy.bytes.fromServer,
    async [Symbol.asyncDispose]() {
      await client.call('close');
      client.stop();
      server.stop();
      await proxy[Symbol.asyncDispose]();
    },
  };
}

async function measure({ server, client }: Ends, direction: string, pace: Pace): Promise<Figures> {
  const [sender, reader] = direction === 'down' ? [server, client] : [client, server];
  // Compiles the code, and agrees on what is told once.
  await sender.call('send', { ...pace, messages: 100 });
  await arrived(reader, 100);
  const before = await server.call('cpuUs');
  await sender.call('send', pace);
  const ages = await arrived(reader, pace.messages);
  const cpu = ((await server.call('cpuUs')) - before) / pace.messages;
  return { p50: quantile(ages, 0.5), p95: quantile(ages, 0.95), cpu };
}

/** Bytes that come down for each message beyond its own, if nothing else is to be said. */
async function countBytes({ server, client, bytesDown }: Ends, messages: number): Promise<number> {
  const before = bytesDown();
  await server.call('send', { messages, size: SIZE, gapMs: 0 });
  await arrived(client, messages);
  return (bytesDown() - before) / messages - SIZE;
}

async function arrived(
  reader: { call(name: 'takeAges'): Promise<number[]> },
  messages: number,
): Promise<number[]> {
  const ages: number[] = [];
  for (;;) {
    ages.push(...(await reader.call('takeAges')));
    if (ages.length >= messages) return ages;
    await sleep(20);
  }
}

function push<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  map.set(key, [...(map.get(key) ?? []), value]);
}
