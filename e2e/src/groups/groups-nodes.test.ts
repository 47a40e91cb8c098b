import { type ClientSession, connect } from '@parlance/client';
import { cluster, createServer, memoryCluster, type Server, type ServerOptions } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { isFull } from '../../../scripts/extent.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { UNLIMITED } from '../kit/unlimited.js';

/** Groups of three nodes in one process, over real sockets. */

/** All nodes and clients share one event loop, so the other tests that run beside it decide how many can move in time. */
const COUNT = isFull ? 1_000 : 200;

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

async function startNodes(count: number) {
  const engine = memoryCluster();
  const start = async () => {
    const onSession: ServerOptions['onSession'] = (session) => {
      // A member that has moved is one without a word.
      if (!session.isMoved) server.group('room').add(session, { data: { from: session.principal } });
    };
    const server: Server = createServer({
      engine,
      features: [cluster()],
      limits: UNLIMITED,
      logger: { debug() {}, info() {}, warn() {}, error() {} },
      authenticate: ({ token }) => ({ principal: token as string }),
      onSession,
    });
    open.push(server);
    return { server, ...(await server.listen()) };
  };
  return await Promise.all(Array.from({ length: count }, start));
}

async function enter(url: string, token: string): Promise<ClientSession> {
  const session = await connect(url, { WebSocket, waitForServer: true, token, reconnect: { minDelayMs: 5 } });
  open.push(session);
  return session;
}

function collect(session: ClientSession): string[] {
  const texts: string[] = [];
  void (async () => {
    for await (const { text } of session) texts.push(text);
  })().catch(() => {});
  return texts;
}

const membersAt = async (server: Server) => (await server.group('room').members({ limit: 1_000 })).members;

describe('a group of three nodes', () => {
  it('reaches each member once, and only nodes that have members hear of it', async () => {
    const started = await startNodes(3);
    const [one, two, three] = started;
    if (one === undefined || two === undefined || three === undefined) throw new Error('they started');
    const heard = [collect(await enter(one.url, 'ann')), collect(await enter(two.url, 'ben'))];
    for (const { server } of started) await expect.poll(() => membersAt(server)).toHaveLength(2);
    const bytes = new TextEncoder().encode('bytes');
    expect(await three.server.group('room').send('from without')).toMatchObject({
      queued: 0,
      elsewhere: { nodes: 2, unreached: [] },
    });
    expect(await one.server.group('room').send(bytes)).toMatchObject({ queued: 1, elsewhere: { nodes: 1 } });
    const [except] = one.server.group('room');
    await one.server.group('room').send({ json: true }, { except });
    await one.server.group('room').send('last', { algorithm: 'CONTEXT' });
    await expect.poll(() => heard.map(({ length }) => length)).toEqual([3, 4]);
    // Those of different nodes have no order.
    expect(heard.map((texts) => texts.filter((text) => text !== 'from without'))).toEqual([
      ['bytes', 'last'],
      ['bytes', 'true', 'last'],
    ]);
    const [first, second] = await Promise.all(
      [0, 1].map(async (at) => {
        const before = at === 0 ? undefined : (await three.server.group('room').members({ limit: 1 })).next;
        return await three.server.group('room').members({ limit: 1, after: before });
      }),
    );
    const found = [...(first?.members ?? []), ...(second?.members ?? [])];
    expect(found.map(({ principal, state, data }) => [principal, state, data]).sort()).toEqual([
      ['ann', 'joined', { from: 'ann' }],
      ['ben', 'joined', { from: 'ben' }],
    ]);
    expect(second?.next).toBeUndefined();
  });

  it('tells who is there at all nodes, and that no member leaves in a deploy', async () => {
    const [one, two, three] = await startNodes(3);
    if (one === undefined || two === undefined || three === undefined) throw new Error('they started');
    let { port } = one;
    const proxy = await createCuttingProxy(() => port);
    open.push(proxy);
    const heard: string[][] = [];
    for (let i = 0; i < COUNT; i += 50)
      await Promise.all(
        Array.from({ length: 50 }, async (_, j) =>
          heard.push(collect(await enter(`ws://127.0.0.1:${proxy.port}/session`, `member ${i + j}`))),
        ),
      );
    await expect.poll(() => one.server.group('room').size).toBe(COUNT);
    const end = new AbortController();
    const changes: string[] = [];
    const reading = (async () => {
      for await (const some of three.server.group('room').presence({ signal: end.signal }))
        for (const { principal, state } of some) changes.push(`${principal} ${state}`);
    })();
    await expect.poll(() => changes.length).toBe(COUNT);
    port = two.port;
    let said = 0;
    const talking = setInterval(() => void three.server.group('room').send(`${++said}`), 400);
    const drained = await one.server.drain({ timeoutMs: 60_000, returnWithinMs: 3_000 });
    clearInterval(talking);
    expect(drained).toMatchObject({ moved: COUNT });
    // A session whose client has no connection at the moment goes to the node that its ID chooses.
    const size = () => two.server.group('room').size + three.server.group('room').size;
    await expect.poll(size).toBe(COUNT);
    const all = Array.from({ length: said }, (_, i) => `${i + 1}`);
    await expect.poll(() => heard.every(({ length }) => length >= said)).toBe(true);
    for (const texts of heard) expect(texts).toEqual(all);
    // Collected messages are delivered.
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    end.abort();
    await reading;
    // One whose connection was away for more than 200 ms was suspended, and no other has changed.
    const returned = new Set(
      changes
        .filter((change) => change.endsWith('suspended'))
        .map((change) => change.replace('suspended', 'joined')),
    );
    expect(changes.filter((change) => change.endsWith('left'))).toEqual([]);
    const joined = changes.filter((change) => change.endsWith('joined') && !returned.has(change));
    expect([joined.length, new Set(joined).size]).toEqual([COUNT - returned.size, COUNT - returned.size]);
  });
});
