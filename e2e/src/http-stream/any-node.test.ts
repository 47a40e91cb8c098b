import { setTimeout as pause } from 'node:timers/promises';
import type { Session } from '@parlance/client';
import { cluster, memoryCluster, type Server, type ServerOptions } from '@parlance/server';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { redisMissing } from '../../../packages/server/src/engine/testing/redis-server.js';
import { startNodes } from '../cluster/nodes.js';
import { type Balancer, openBalancer } from '../kit/balancer.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { createPeers } from '../kit/peers.js';
import { merged } from '../kit/server-options.js';
import { UNLIMITED } from '../kit/unlimited.js';
import { PLAIN, proxyMissing, startProxyWith } from '../proxies/proxy-server.js';
import { frames, open, PING, post } from './by-hand.js';

/** Sessions over HTTP whose requests reach one node after the other. */

let peers = createPeers();
let engine = memoryCluster();
beforeEach(() => {
  engine = memoryCluster();
});
afterEach(async () => {
  await peers[Symbol.asyncDispose]();
  peers = createPeers();
});

const OVER_HTTP = { transports: ['http'], reconnect: { minDelayMs: 5, maxDelayMs: 50 } } as const;
const inOrder = (length: number) => Array.from({ length }, (_, i) => i);
const urlOf = (port: number) => `ws://127.0.0.1:${port}/session`;

const serve = (options: ServerOptions = {}) =>
  peers.serve(merged({ engine, features: [cluster()], limits: UNLIMITED }, options));

/** The events of a session besides messages. */
function eventsOf(session: Session): string[] {
  const events: string[] = [];
  session.on('state', (state) => events.push(state));
  session.on('reset', ({ reason }) => events.push(`reset: ${reason}`));
  return events;
}

/** Says numbers, and hears what comes back. */
async function count(session: Session, from: number, to: number): Promise<readonly number[]> {
  const heard: number[] = [];
  const reading = (async () => {
    for await (const { text } of session) if (heard.push(Number(text)) === to - from) return;
  })();
  for (let i = from; i < to; i++) {
    await session.send(String(i));
    if (i % 4 === 0) await pause(1);
  }
  await reading;
  return heard;
}

/** Servers that say the numbers that they hear, and all numbers that they have heard together. */
function echoing(): { readonly heard: readonly number[]; readonly options: ServerOptions } {
  const heard: number[] = [];
  return {
    heard,
    options: {
      async onSession(session) {
        for await (const { text } of session) {
          heard.push(Number(text));
          await session.send(text);
        }
      },
    },
  };
}

/** Ten requests at once, of which half are streams, with messages beside them. */
async function work(session: Session): Promise<void> {
  const parts = inOrder(50);
  const texts = parts.map((part) => `${part} `).join('');
  const streamed = async (name: string) => {
    const got: string[] = [];
    for await (const { text } of session.stream(name)) got.push(text);
    expect(got.join('')).toBe(`${name}: ${texts}`);
  };
  const answered = async (name: string) => {
    expect((await session.request(name)).text).toBe(`${name}: ${texts}`);
  };
  const asked = inOrder(5).flatMap((i) => [streamed(`s${i}`), answered(`r${i}`)]);
  await Promise.all([...asked, count(session, 0, 50).then((heard) => expect(heard).toEqual(inOrder(50)))]);
}

/** The handlers for {@link work}. */
const working: ServerOptions = {
  async onSession(session) {
    for await (const { text } of session) await session.send(text);
  },
  async *onRequest({ text }) {
    yield `${text}: `;
    for (const part of inOrder(50)) {
      yield `${part} `;
      await pause(1);
    }
  },
};

/** How many requests with frames each node has answered. */
const answeredAt = ({ answered }: Balancer, ports: readonly number[], name = 'frames') =>
  ports.map((port) => answered.get(`/session/${name} ${port}`) ?? 0);

describe.each([2, 3])('%i nodes behind a balancer that knows no sessions', (size) => {
  it('carry 200 messages each way over one stream, each once and in order', async () => {
    const { heard, options } = echoing();
    const nodes = await Promise.all(inOrder(size).map(() => serve(options)));
    const ports = nodes.map(({ port }) => port);
    const balancer = peers.use(await openBalancer(() => ports));
    const session = await peers.dial(urlOf(balancer.port), OVER_HTTP);
    const events = eventsOf(session);
    expect(await count(session, 0, 160)).toEqual(inOrder(160));
    // One after the other, each of which takes a request of its own.
    for (const i of inOrder(40)) expect(await count(session, 160 + i, 161 + i)).toEqual([160 + i]);
    expect(heard).toEqual(inOrder(200));
    expect(events).toEqual([]);
    expect(answeredAt(balancer, ports, 'stream').reduce((sum, each) => sum + each)).toBe(1);
    for (const answers of answeredAt(balancer, ports)) expect(answers).toBeGreaterThan(10);
  });

  it('answer requests and streams to their end', async () => {
    const nodes = await Promise.all(inOrder(size).map(() => serve(working)));
    const ports = nodes.map(({ port }) => port);
    const balancer = peers.use(await openBalancer(() => ports));
    const sessions = await Promise.all(inOrder(3).map(() => peers.dial(urlOf(balancer.port), OVER_HTTP)));
    const events = sessions.map(eventsOf);
    await Promise.all(sessions.map(work));
    expect(events.flat()).toEqual([]);
    expect(answeredAt(balancer, ports, 'stream').reduce((sum, each) => sum + each)).toBe(3);
  });

  it('carry large messages, and requests that are stopped', async () => {
    let wasStopped = false;
    const nodes = await Promise.all(
      inOrder(size).map(() =>
        serve({
          async onSession(session) {
            for await (const { text } of session) await session.send(text);
          },
          async *onRequest(_request, { signal }) {
            signal.addEventListener('abort', () => {
              wasStopped = true;
            });
            for (;;) {
              yield 'on ';
              await pause(1);
            }
          },
        }),
      ),
    );
    const balancer = peers.use(await openBalancer(() => nodes.map(({ port }) => port)));
    const session = await peers.dial(urlOf(balancer.port), OVER_HTTP);
    const events = eventsOf(session);
    const sizes = [1, 70_000, 300_000, 128, 900_000, 5];
    for (const each of sizes) await session.send('x'.repeat(each));
    const got: number[] = [];
    for await (const { text } of session) if (got.push(text.length) === sizes.length) break;
    expect(got).toEqual(sizes);
    for await (const _ of session.stream('go')) break;
    await expect.poll(() => wasStopped).toBe(true);
    expect(events).toEqual([]);
  });
});

it.skipIf(proxyMissing('haproxy'))(
  'two nodes behind HAProxy, which chooses for each request, answer requests and streams to their end',
  async () => {
    const ports = [(await serve(working)).port, (await serve(working)).port];
    const haproxy = peers.use(await startProxyWith('haproxy', PLAIN.haproxy(ports)));
    const sessions = await Promise.all(inOrder(3).map(() => peers.dial(urlOf(haproxy.port), OVER_HTTP)));
    const events = sessions.map(eventsOf);
    await Promise.all(sessions.map(work));
    expect(events.flat()).toEqual([]);
  },
);

describe('a session whose node is another one than that of its stream', () => {
  it('continues with every request at any of three nodes', async () => {
    const { heard, options } = echoing();
    const nodes = await Promise.all(inOrder(3).map(() => serve(options)));
    const all = nodes.map(({ port }) => port);
    let ports = all.slice(0, 1);
    const balancer = peers.use(await openBalancer(() => ports));
    const proxy = peers.use(await createCuttingProxy(balancer.port));
    const session = await peers.dial(urlOf(proxy.port), OVER_HTTP);
    const { id } = session;
    const events = eventsOf(session);
    expect(await count(session, 0, 20)).toEqual(inOrder(20));
    ports = all.slice(1, 2);
    proxy.cut();
    await expect.poll(() => events.at(-1)).toBe('established');
    expect(answeredAt(balancer, all, 'stream')).toEqual([1, 1, 0]);
    ports = all;
    events.length = 0;
    expect(await count(session, 20, 200)).toEqual(inOrder(180).map((i) => 20 + i));
    expect(heard).toEqual(inOrder(200));
    expect([session.id, events]).toEqual([id, []]);
    expect(nodes.map(({ server }) => server.sessions.has(id))).toEqual([true, false, false]);
  });
});

describe('a rolling replacement', () => {
  it('loses no session: its requests reach the node that drains through others, until it is elsewhere', async () => {
    const { heard, options } = echoing();
    const start = () => serve(options);
    const [old, other] = [await start(), await start()];
    let ports = [old.port];
    const balancer = peers.use(await openBalancer(() => ports));
    const sessions = await Promise.all(inOrder(5).map(() => peers.dial(urlOf(balancer.port), OVER_HTTP)));
    const ids = sessions.map(({ id }) => id);
    const session = sessions[0] as Session;
    const events = sessions.map(eventsOf);
    const counting = count(session, 0, 1_000);
    await expect.poll(() => heard.length).toBeGreaterThan(100);
    const fresh = await start();
    // The balancer hears of the drain before the node has released its port, and of no session.
    ports = [other.port, fresh.port];
    const drained = old.server.drain({ timeoutMs: 60_000, returnWithinMs: 50, releasePort: true });
    expect(await counting).toEqual(inOrder(1_000));
    await drained;
    await old.server.close();
    expect(heard).toEqual(inOrder(1_000));
    for (const each of sessions) expect(await count(each, 0, 5)).toEqual(inOrder(5));
    expect(sessions.map(({ id }) => id)).toEqual(ids);
    expect(events.flat().filter((event) => event.startsWith('reset'))).toEqual([]);
    const moved = [other, fresh].flatMap(({ server }) => [...server.sessions.keys()]);
    expect(moved.sort()).toEqual([...ids].sort());
  });
});

describe('a request with frames at another node', () => {
  const named = (key: Uint8Array, node: string) => Buffer.concat([key.subarray(0, 16), Buffer.from(node)]);
  const nodeOf = (key: Uint8Array) => Buffer.from(key.subarray(16)).toString();
  const statusAt = async ({ port }: { readonly port: number }, body: Uint8Array) =>
    (await post(port, '/session/frames', body)).status;

  async function three(options: ServerOptions = {}) {
    const nodes = [await serve(options), await serve(options), await serve(options)] as const;
    const stream = await open(nodes[0].port);
    await expect.poll(stream.types).toEqual(['ACCEPT']);
    return { nodes, stream, key: stream.key };
  }

  it('has to have the key of a stream that the node in it has', async () => {
    const { nodes, stream, key } = await three();
    const { key: foreign, request } = await open(nodes[1].port);
    const forged = Uint8Array.from(key);
    forged[3] = (forged[3] as number) ^ 1;
    for (const wrong of [
      forged,
      named(key, nodeOf(foreign)),
      named(key, 'gone00'),
      named(key, ''),
      named(key, `${nodeOf(key)}0`),
      named(key, '../../'),
      key.subarray(0, -1),
    ])
      for (const node of nodes) expect(await statusAt(node, frames(wrong, 1, PING)), nodeOf(wrong)).toBe(404);
    expect(stream.types()).toEqual(['ACCEPT']);
    expect(await statusAt(nodes[1], frames(key, 1, PING))).toBe(204);
    expect(await statusAt(nodes[2], frames(key, 2, PING))).toBe(204);
    expect(await statusAt(nodes[0], frames(key, 3, PING))).toBe(204);
    await expect.poll(stream.types).toEqual(['ACCEPT', 'PONG', 'PONG', 'PONG']);
    for (const each of [stream.request, request]) each.destroy();
    await stream.over;
    await expect.poll(() => statusAt(nodes[1], frames(key, 4, PING))).toBe(404);
  });

  it('counts as a connection if it tries keys, and not if it has one', async () => {
    const { nodes, stream, key } = await three({ limits: { ...UNLIMITED, connectionsPerMinutePerIp: 3 } });
    const forged = Uint8Array.from(key);
    forged[3] = (forged[3] as number) ^ 1;
    const statuses: number[] = [];
    for (let i = 0; i < 4; i++) {
      statuses.push(await statusAt(nodes[1], frames(forged, 1, PING)));
      expect(await statusAt(nodes[1], frames(key, i + 1, PING))).toBe(204);
    }
    expect(statuses).toEqual([404, 404, 404, 429]);
    // The engine is not asked about more nodes than that.
    const gone: number[] = [];
    for (const name of ['gone00', 'gone01', 'gone02', 'gone03'])
      gone.push(await statusAt(nodes[2], frames(named(key, name), 1, PING)));
    expect(gone).toEqual([404, 404, 404, 429]);
    stream.request.destroy();
  });

  it('gets 404 if the node is gone', async () => {
    const { nodes, stream, key } = await three({ timers: { closingTimeoutMs: 100 } });
    expect(await statusAt(nodes[1], frames(key, 1, PING))).toBe(204);
    stream.request.destroy();
    await (nodes[0].server as Server).close();
    for (const node of nodes.slice(1)) expect(await statusAt(node, frames(key, 2, PING))).toBe(404);
  });
});

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'nodes that are killed', () => {
  it('lose no session of others, and those that they have as over WebSockets', async () => {
    await using nodes = await startNodes(3);
    let chosen = [0];
    const ports = () =>
      chosen.flatMap((index) => {
        const node = nodes.nodes[index];
        return node === undefined || node.process.end !== undefined ? [] : [node.port];
      });
    const balancer = peers.use(await openBalancer(ports));
    const proxy = peers.use(await createCuttingProxy(balancer.port));
    const session = await peers.dial(urlOf(proxy.port), { ...OVER_HTTP, token: 'user-1' });
    const { id } = session;
    const events = eventsOf(session);
    chosen = [1];
    proxy.cut();
    await expect.poll(() => events.at(-1)).toBe('established');
    // The session is at the first node, its stream at the second one, and its requests reach all of them.
    chosen = [0, 1, 2];
    const counting = count(session, 0, 600);
    const own = nodes.nodes[0]?.process;
    await expect.poll(async () => (await own?.call('heard', id))?.length).toBeGreaterThan(100);
    await nodes.nodes[1]?.process.kill();
    expect(await counting).toEqual(inOrder(600));
    expect(await own?.call('heard', id)).toEqual(inOrder(600));
    expect(session.id).toBe(id);
    events.length = 0;
    chosen = [2];
    proxy.cut();
    await expect.poll(() => events.at(-1)).toBe('established');
    chosen = [0, 2];
    await own?.kill();
    await expect.poll(() => events.filter((event) => event.startsWith('reset'))).toHaveLength(1);
    await expect.poll(() => session.state).toBe('established');
    expect(session.id).not.toBe(id);
    expect(await count(session, 0, 20)).toEqual(inOrder(20));
    await session.close();
  });
});
