import { type AddressInfo, createServer as createNetServer } from 'node:net';
import { type ClientOptions, connect, type Session, type Undelivered } from '@parlance/client';
import {
  agents,
  cluster,
  createServer,
  memoryCluster,
  type Server,
  type ServerOptions,
} from '@parlance/server';
import { redis } from '@parlance/server/redis';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { AGENTS } from '../../../packages/server/src/agents/feature.js';
import { redisMissing, startRedis } from '../../../packages/server/src/engine/testing/redis-server.js';
import type { SessionServer } from '../../../packages/server/src/server/server.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { failure } from '../kit/peers.js';
import { merged } from '../kit/server-options.js';
import { nextMessage } from './agents.js';

/** Agents on several nodes: how they find each other, and what they learn when nodes lose each other. */

const open: (() => PromiseLike<unknown>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

async function node(options: ServerOptions): Promise<{ readonly server: Server; readonly port: number }> {
  const server = createServer({
    limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
    authenticate: ({ token = '' }) => {
      const [principal = '', agentId] = token.split('/');
      return { principal, ...(agentId ? { agentId } : {}) };
    },
    ...options,
  });
  const { port } = await server.listen();
  open.push(() => server.close());
  return { server, port };
}

async function agent(port: number, token: string, options: ClientOptions = {}): Promise<Session> {
  const session = await connect(`ws://127.0.0.1:${port}/session`, { WebSocket, token, ...options });
  open.push(() => session.close());
  return session;
}

const namesOf = async (session: Session) =>
  (await session.agents()).list.map(({ id, state }) => `${id} ${state}`).sort();

async function freePort(): Promise<number> {
  const server = createNetServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Two nodes, of which the second is reached by the first through a proxy. */
async function pair(options: ServerOptions = {}) {
  const engine = memoryCluster();
  const port = await freePort();
  const proxy = await createCuttingProxy(port);
  open.push(() => proxy[Symbol.asyncDispose]());
  const near = await node(merged({ engine, features: [cluster()] }, options));
  const advertised = cluster({ listen: { port }, advertise: `ws://127.0.0.1:${proxy.port}` });
  const far = await node(merged({ engine, features: [advertised] }, options));
  return { near, far, proxy };
}

describe('agents on two nodes', () => {
  it('see each other join, lose their connection, and leave', async () => {
    const { near, far } = await pair();
    const planner = await agent(near.port, 'acme/planner');
    const changes: string[] = [];
    const watching = (async () => {
      for await (const { type, agent: each } of await planner.agents()) changes.push(`${each.id} ${type}`);
    })();
    watching.catch(() => {});
    const worker = await agent(far.port, 'acme/worker', { agent: { metadata: { skills: ['sums'] } } });
    await agent(far.port, 'other/stranger');
    await expect.poll(() => changes).toEqual(['worker joined']);
    expect((await planner.agents()).get('worker')).toMatchObject({
      state: 'connected',
      metadata: { skills: ['sums'] },
    });
    await worker.close();
    await expect.poll(() => changes).toEqual(['worker joined', 'worker left']);
  });

  it('have the same address at every node', async () => {
    const { near, far } = await pair({ features: [agents({ authorize: () => true })] });
    const lists: (readonly string[])[] = [];
    await agent(far.port, 'other/worker');
    for (const { port } of [near, far]) {
      const asker = await agent(port, `acme/asker-${port}`);
      const { list } = await asker.agents();
      lists.push(list.map(({ address }) => address).filter((address) => address.startsWith('~')));
    }
    expect(lists[0]).toHaveLength(1);
    expect(lists[1]).toEqual(lists[0]);
  });

  it('keep their addresses while the secret is replaced node by node', async () => {
    const [old, next] = ['the first secret of two', 'the second secret of two'];
    const engine = memoryCluster();
    const start = async (secret: readonly string[]) =>
      await node({ engine, features: [cluster({ secret }), agents({ authorize: () => true })] });
    const stages = [[old], [old, next], [next, old], [next]];
    let stayed = await start(stages[0] ?? []);
    const addresses = new Set<string>();
    for (const stage of stages.slice(1)) {
      const replaced = await start(stage);
      const worker = await agent(stayed.port, 'other/worker', { onRequest: ({ text }) => `done ${text}` });
      const asker = await agent(replaced.port, 'acme/asker');
      const find = async () =>
        (await asker.agents()).list.map(({ address }) => address).filter((name) => name.startsWith('~'));
      await expect.poll(find).toHaveLength(1);
      const [address = ''] = await find();
      addresses.add(address);
      expect((await asker.request('it', { to: address })).text).toBe('done it');
      await worker.close();
      await asker.close();
      await stayed.server.close();
      stayed = replaced;
    }
    expect(addresses.size).toBe(1);
  });

  it('are counted in the metrics of both nodes', async () => {
    const { near, far } = await pair();
    const pages = await Promise.all([near, far].map(({ server }) => server.listenMetrics()));
    const read = async (page: number, name: string) => {
      const text = await (await fetch(pages[page]?.url ?? '')).text();
      const line = text.split('\n').find((each) => each.startsWith(`parlance_node_${name} `));
      return Number(line?.split(' ')[1]);
    };
    expect([await read(0, 'links'), await read(1, 'links')]).toEqual([0, 0]);
    await agent(far.port, 'acme/worker', { onRequest: ({ text }) => `done ${text}` });
    const asker = await agent(near.port, 'acme/asker');
    await expect.poll(() => namesOf(asker)).toContain('worker connected');
    const body = 'x'.repeat(10_000);
    await asker.request(body, { to: 'worker' });
    // A page that took long to collect is shown again for a while.
    await expect.poll(() => Promise.all([read(0, 'links'), read(1, 'links')])).toEqual([1, 1]);
    // There and back. Later frames, such as the end of the reply, may be under way.
    for (const [page, direction] of [
      [0, 'sent'],
      [0, 'received'],
      [1, 'sent'],
      [1, 'received'],
    ] as const) {
      expect(await read(page, `messages_total{direction="${direction}"}`)).toBeGreaterThanOrEqual(2);
      const bytes = await read(page, `bytes_total{direction="${direction}"}`);
      expect(bytes).toBeGreaterThan(10_000);
      expect(bytes).toBeLessThan(15_000);
    }
  });

  it('take an agent ID over from the other node', async () => {
    const { near, far } = await pair();
    const older = await agent(near.port, 'acme/worker', { onRequest: () => 'old' });
    const ended = new Promise((resolve) => older.on('error', resolve));
    const asker = await agent(near.port, 'acme/asker');
    expect((await asker.request('x', { to: 'worker' })).text).toBe('old');
    await agent(far.port, 'acme/worker', { onRequest: () => 'new' });
    expect(await ended).toMatchObject({ code: 'taken_over' });
    expect((await asker.request('x', { to: 'worker' })).text).toBe('new');
  });

  it('are refused an agent ID that the other node has', async () => {
    const { near, far } = await pair({ features: [agents({ onConflict: 'refuse' })] });
    const older = await agent(near.port, 'acme/worker');
    expect(await failure(agent(far.port, 'acme/worker'))).toMatchObject({ code: 'rejected' });
    await older.close();
    await expect
      .poll(() =>
        agent(far.port, 'acme/worker').then(
          () => true,
          () => false,
        ),
      )
      .toBe(true);
  });

  it('fails requests and sends messages again, which arrive once, if the nodes lose each other', async () => {
    const { near, far, proxy } = await pair();
    const planner = await agent(near.port, 'acme/planner');
    let asked = 0;
    const worker = await agent(far.port, 'acme/worker', {
      onRequest: async (_request, { signal }) => {
        asked++;
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        return 'late';
      },
    });
    const reports: Undelivered[] = [];
    planner.on('undelivered', (report) => reports.push(report));
    // From then on the worker's session knows its sender.
    await planner.send('first', { to: 'worker' });
    expect((await nextMessage(worker)).text).toBe('first');
    const lost = failure(planner.request('x', { to: 'worker' }));
    await expect.poll(() => asked).toBe(1);
    // Nothing gets through, and neither end is told.
    proxy.freeze();
    await planner.send('a', { to: 'worker' });
    await planner.send('b', { to: 'worker' });
    await new Promise((resolve) => setTimeout(resolve, 50));
    proxy.cut();
    expect(await lost).toMatchObject({
      code: 'peer_gone',
      message: expect.stringContaining('may have begun'),
    });
    await planner.send('c', { to: 'worker' });
    const heard = [await nextMessage(worker), await nextMessage(worker), await nextMessage(worker)];
    expect(heard.map(({ text, isRedelivered }) => [text, isRedelivered])).toEqual([
      ['a', false],
      ['b', false],
      ['c', false],
    ]);
    expect(reports).toEqual([]);
  });

  it('notices a connection on which nothing gets through any more, though neither end has closed it', async () => {
    const { near, far, proxy } = await pair();
    const planner = await agent(near.port, 'acme/planner');
    await agent(far.port, 'acme/worker', { onRequest: ({ text }) => text });
    expect((await planner.request('x', { to: 'worker' })).text).toBe('x');
    proxy.freeze();
    expect(await failure(planner.request('y', { to: 'worker' }))).toMatchObject({ code: 'peer_gone' });
    // The next connection gets through.
    expect((await planner.request('z', { to: 'worker' })).text).toBe('z');
  });

  it('fails requests and holds messages while their node cannot be reached', async () => {
    const { near, far, proxy } = await pair();
    const planner = await agent(near.port, 'acme/planner');
    const worker = await agent(far.port, 'acme/worker');
    proxy.refuse(true);
    const reports: Undelivered[] = [];
    planner.on('undelivered', (report) => reports.push(report));
    await planner.send('a', { to: 'worker' });
    expect(await failure(planner.request('x', { to: 'worker' }))).toMatchObject({
      code: 'peer_gone',
      message: expect.stringContaining('never had'),
    });
    proxy.refuse(false);
    await planner.send('b', { to: 'worker' });
    expect([(await nextMessage(worker)).text, (await nextMessage(worker)).text]).toEqual(['a', 'b']);
    expect(reports).toEqual([]);
  });

  it('keeps messages in order, even if the connection between the nodes breaks', async () => {
    const { near, far, proxy } = await pair();
    const planner = await agent(near.port, 'acme/planner');
    const worker = await agent(far.port, 'acme/worker');
    const got: number[] = [];
    void (async () => {
      for await (const message of worker) got.push(Number(message.text));
    })().catch(() => {});
    const missing = new Set<number>();
    planner.on('undelivered', ({ first = 1, count }) => {
      for (let i = 0; i < count; i++) missing.add(first - 1 + i);
    });
    const COUNT = 2_000;
    for (let i = 0; i < COUNT; i++) {
      await planner.send(String(i), { to: 'worker' });
      if (i % 200 === 100) {
        await new Promise((resolve) => setTimeout(resolve, 5));
        proxy.cut();
      }
    }
    await expect.poll(() => new Set([...got, ...missing]).size).toBe(COUNT);
    expect(got).toEqual([...new Set(got)].sort((a, b) => a - b));
  });
});

describe('agents whose node drains', () => {
  it('continue at another one while they write to each other, without loss, doubles or reports', async () => {
    const engine = memoryCluster();
    const [near, far, third] = [
      await node({ engine, features: [cluster()] }),
      await node({ engine, features: [cluster()] }),
      await node({ engine, features: [cluster()] }),
    ];
    let target = near.port;
    const proxy = await createCuttingProxy(() => target);
    open.push(() => proxy[Symbol.asyncDispose]());
    const onRequest: ClientOptions['onRequest'] = ({ text }) => `done ${text}`;
    const reconnect = { minDelayMs: 1, maxDelayMs: 20 };
    const moving = await agent(proxy.port, 'acme/moving', { reconnect, onRequest });
    const staying = await agent(far.port, 'acme/staying', { onRequest });
    const other = await agent(third.port, 'acme/other', { onRequest });
    const all: readonly (readonly [string, Session])[] = [
      ['moving', moving],
      ['staying', staying],
      ['other', other],
    ];
    const heard = new Map<string, number[]>();
    const faults: unknown[] = [];
    for (const [name, session] of all) {
      session.on('undelivered', (report) => faults.push([name, report]));
      void (async () => {
        for await (const { text, from } of session) {
          const way = `${from} ${name}`;
          heard.set(way, [...(heard.get(way) ?? []), Number(text)]);
        }
      })();
      await expect.poll(() => namesOf(session)).toHaveLength(2);
    }
    // Its connection comes back to another node, which leads it.
    target = far.port;
    const isBack = new Promise((resolve) =>
      moving.on('state', (state) => state === 'established' && resolve(0)),
    );
    proxy.cut();
    await isBack;
    let isOver = false;
    let said = 0;
    const talking = (async () => {
      for (; !isOver; said++) {
        for (const [name, session] of all)
          for (const [to] of all) if (to !== name) await session.send(String(said), { to });
        if (said % 10 === 0) {
          const answer = await other.request(String(said), { to: 'moving' });
          if (answer.text !== `done ${said}`) faults.push(answer.text);
        }
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    })();
    await expect.poll(() => said).toBeGreaterThan(20);
    expect(await near.server.drain({ timeoutMs: 20_000 })).toMatchObject({ ended: 0, lost: 0, moved: 1 });
    const before = said;
    await expect.poll(() => said).toBeGreaterThan(before + 20);
    isOver = true;
    await talking;
    const expected = Array.from({ length: said }, (_, i) => i);
    await expect.poll(() => [...heard.values()].map(({ length }) => length)).toEqual(Array(6).fill(said));
    for (const numbers of heard.values()) expect(numbers).toEqual(expected);
    expect(faults).toEqual([]);
  });
});

/** Requests that a node still knows. */
const openRequests = ({ server }: { readonly server: Server }) =>
  (server as unknown as SessionServer).features.use(AGENTS)?.others?.peers.openRequests;

describe('a node', () => {
  it('forgets requests that are answered, cancelled, refused, or whose asker has left', async () => {
    const { near, far } = await pair();
    const planner = await agent(near.port, 'acme/planner');
    const leaver = await agent(near.port, 'acme/leaver');
    let asked = 0;
    await agent(far.port, 'acme/worker', {
      async *onRequest({ text }, { signal }) {
        asked++;
        if (text === 'fail') throw new Error('failed');
        yield 'part';
        if (text === 'wait') await new Promise((resolve) => signal.addEventListener('abort', resolve));
      },
    });
    const to = 'worker';
    for (let i = 0; i < 20; i++) {
      await planner.request('x', { to });
      await failure(planner.request('fail', { to }));
    }
    const controller = new AbortController();
    const cancelled = failure(planner.request('wait', { to, signal: controller.signal }));
    const left = failure(leaver.request('wait', { to }));
    await expect.poll(() => asked).toBe(42);
    expect([openRequests(near), openRequests(far)]).toEqual([2, 2]);
    controller.abort();
    await cancelled;
    void leaver.close();
    await left;
    await expect.poll(() => [openRequests(near), openRequests(far)]).toEqual([0, 0]);
  });
});

describe.skipIf(redisMissing !== undefined)(`agents on nodes that share ${redisMissing ?? 'a Redis'}`, () => {
  it('find each other, and cost the engine nothing for a message', async () => {
    const engine = await startRedis();
    open.push(() => engine[Symbol.asyncDispose]());
    const options = {
      engine: redis({ url: engine.url }),
      features: [cluster({ secret: 'a secret of sixteen bytes' })],
    };
    const [near, far] = [await node(options), await node(options)];
    const planner = await agent(near.port, 'acme/planner');
    const worker = await agent(far.port, 'acme/worker', { onRequest: ({ text }) => text.toUpperCase() });
    await expect.poll(() => namesOf(planner)).toEqual(['worker connected']);
    await expect.poll(() => namesOf(worker)).toEqual(['planner connected']);
    expect((await planner.request('hello', { to: 'worker' })).text).toBe('HELLO');
    const changes = async () => await engine.client.xlen('parlance:{agents}:log');
    const before = await changes();
    for (let i = 0; i < 500; i++)
      expect((await planner.request(`m${i}`, { to: 'worker' })).text).toBe(`M${i}`);
    expect(await changes()).toBe(before);
    await engine.client.flushall();
    // The nodes write their agents again.
    await expect.poll(async () => (await engine.client.hkeys('parlance:{agents}')).length).toBe(3);
    await worker.close();
    await expect.poll(() => namesOf(planner)).toEqual([]);
  });
});
