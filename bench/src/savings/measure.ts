import { mock } from 'node:test';
import { setImmediate as soon } from 'node:timers/promises';
import { createGunzip, gzipSync } from 'node:zlib';
import { createServer } from '@parlance/server';
import { createOpenAIGateway } from '@parlance/server/openai';
import type { ChatTurn } from '../gateway/turns.js';
import { openDirect, openSession, type Traffic, type Way } from '../gateway/ways.js';
import { UNLIMITED } from '../unlimited.js';
import { chatOf } from './chat.js';
import { createCountingProxy } from './counting-proxy.js';
import { createModel, LEVEL, type Model } from './model.js';

/** The same chat four ways, each through a TCP proxy that counts. */
export const WAYS = ['http', 'gzip', 'gzip both', 'session'] as const;
export type WayName = (typeof WAYS)[number];

/** The traffic up to the end of a turn, from the opening of the connection on. */
export interface Counted {
  /** By the proxy. */
  readonly proxy: Traffic;
  /** By the client's socket itself. */
  readonly socket: Traffic;
}

export type Savings = Readonly<Record<WayName, ReadonlyMap<number, Counted>>>;

/** How long the model takes for a token. */
const TOKEN_MS = 20;

/** @param marks after how many turns the counts are read, in ascending order. */
export async function measureSavings(marks: readonly number[]): Promise<Savings> {
  const turns = chatOf(Math.max(...marks));
  using time = standStill();
  await using model = await createModel(turns, () => time.pass(TOKEN_MS));
  const server = createServer({
    limits: UNLIMITED,
    onRequest: createOpenAIGateway({ baseUrl: `http://127.0.0.1:${model.port}/v1`, apiKey: 'sk-unused' }),
  });
  const { port } = await server.listen({ port: 0 });
  try {
    const counted = {} as Record<WayName, ReadonlyMap<number, Counted>>;
    for (const name of WAYS) {
      await using proxy = await createCountingProxy(name === 'session' ? port : model.port);
      const way = await open(name, proxy.port);
      counted[name] = await converse(way, name, turns, marks, model, proxy.bytes);
      await way.close();
    }
    return counted;
  } finally {
    await server.close({ sessions: 'end' });
  }
}

async function open(name: WayName, port: number): Promise<Way> {
  if (name === 'session') return await openSession(`ws://127.0.0.1:${port}/session`);
  return openDirect(`http://127.0.0.1:${port}/v1`, {
    ...(name === 'http' && { 'accept-encoding': 'identity' }),
    ...(name === 'gzip both' && { 'content-encoding': 'gzip' }),
  });
}

async function converse(
  way: Way,
  name: WayName,
  turns: readonly ChatTurn[],
  marks: readonly number[],
  model: Model,
  bytes: () => Traffic,
): Promise<ReadonlyMap<number, Counted>> {
  const counted = new Map<number, Counted>();
  for (const [i, { request }] of turns.entries()) {
    const body = name === 'gzip both' ? gzipSync(request, { level: LEVEL }) : request;
    let events = 0;
    let end = '';
    const hear = (piece: Uint8Array) => {
      // An event may end between two pieces.
      const pieces = (end + Buffer.from(piece).toString('latin1')).split('\n\n');
      events += pieces.length - 1;
      end = pieces.at(-1) as string;
      model.heard(events);
    };
    const gunzip = createGunzip().on('data', hear);
    const isCompressed = name.startsWith('gzip');
    const { drain } = await way.ask(body);
    await drain((chunk) => (isCompressed ? void gunzip.write(chunk) : hear(chunk)));
    gunzip.destroy();
    if (marks.includes(i + 1)) counted.set(i + 1, { proxy: bytes(), socket: way.bytes() });
  }
  return counted;
}

interface Time extends Disposable {
  pass(ms: number): Promise<void>;
}

/**
 * Time passes only as the model says. Acknowledgements and keep-alives go by the clock, so on a real one their number, and with it
 * the last digits of the counts, would be another one in each run.
 */
function standStill(): Time {
  const { now } = performance;
  let at = now.call(performance);
  performance.now = () => at;
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  return {
    async pass(ms) {
      at += ms;
      mock.timers.tick(ms);
      // Everything that is due is written before the next event.
      await soon();
    },
    [Symbol.dispose]() {
      mock.timers.reset();
      performance.now = now;
    },
  };
}
