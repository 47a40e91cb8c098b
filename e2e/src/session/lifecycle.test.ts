import { createServer as createHttpServer } from 'node:http';
import { connect as connectTcp } from 'node:net';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { admin, cluster, createServer, memoryCluster, metrics, type ServerOptions } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import { freePort } from '../kit/cli-process.js';
import { createPeers, failure } from '../kit/peers.js';

/** A server that is asked to open and to close at the same time. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

const CLOSED = { code: 'invalid_argument', message: 'the server was closed; create another one' };
const secret = '0123456789abcdef0123456789abcdef';
const token = 'an-admin-token-of-this-test';

/** Whether something listens at a port of this machine. */
const isOpen = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connectTcp({ port, host: '127.0.0.1' });
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });

async function openOf(ports: readonly number[]): Promise<number[]> {
  const states = await Promise.all(ports.map(isOpen));
  return ports.filter((_, i) => states[i]);
}

/** The nodes that a cluster lists, without the one that asks. */
async function nodesOf(engine: ReturnType<typeof memoryCluster>): Promise<string[]> {
  const link = engine.connect();
  const { nodes = [] } = await link.renew('probe', 'x', 5_000);
  await link.withdraw('probe');
  await link.close();
  return nodes.map(({ incarnation }) => incarnation).filter((name) => name !== 'probe');
}

/** A server with everything that opens a port, and the ports that it opens. */
async function everything(more: ServerOptions = {}) {
  const ports = (await Promise.all([freePort(), freePort(), freePort(), freePort()])).map(Number);
  const [port = 0, adminPort, peerPort, metricsPort = 0] = ports;
  const engine = memoryCluster();
  const server = peers.use(
    createServer({
      authenticate: () => ({ principal: 'a' }),
      engine,
      features: [
        metrics(),
        cluster({ secret, listen: { port: peerPort } }),
        admin({ token, port: adminPort }),
      ],
      ...more,
    }),
  );
  return { server, engine, ports, port, metricsPort };
}

/** Lets so many steps of everything else happen. */
async function steps(count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    if (i % 2 === 0) await undefined;
    else await nextTurn();
  }
}

describe('close', () => {
  it('at each moment of listen leaves no port open and no node listed, and listen says so', async () => {
    const outcomes = new Set<string>();
    for (const count of [...Array(24).keys(), 30, 40, 60, 100, 200]) {
      const { server, engine, ports, port, metricsPort } = await everything();
      const listening = Promise.allSettled([
        server.listen({ port }),
        server.listenMetrics({ port: metricsPort }),
      ]);
      await steps(count);
      await server.close();
      const settled = await Promise.race([listening, pause(5_000, [])]);
      expect(settled, `after ${count} steps`).toHaveLength(2);
      for (const each of settled) {
        if (each.status === 'rejected') expect(each.reason, `after ${count} steps`).toMatchObject(CLOSED);
        outcomes.add(each.status);
      }
      expect(await openOf(ports), `after ${count} steps`).toEqual([]);
      expect(await nodesOf(engine), `after ${count} steps`).toEqual([]);
      expect(server.admin).toBeUndefined();
    }
    expect(outcomes).toContain('rejected');
  });

  it('at each moment after attach leaves no port open and no node listed', async () => {
    for (const count of [0, 1, 2, 3, 5, 8, 13, 21, 34, 55]) {
      const { server, engine, ports } = await everything();
      const detach = server.attach(createHttpServer());
      await steps(count);
      await server.close();
      detach();
      expect(await openOf(ports), `after ${count} steps`).toEqual([]);
      expect(await nodesOf(engine), `after ${count} steps`).toEqual([]);
    }
  });

  it('withdraws a node that the engine takes up only now', async () => {
    const inner = memoryCluster();
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    let asked = () => {};
    const isAsked = new Promise<void>((resolve) => {
      asked = resolve;
    });
    const connect: typeof inner.connect = () => {
      const link = inner.connect();
      const renew: typeof link.renew = async (...given) => {
        asked();
        await held;
        return await link.renew(...given);
      };
      return new Proxy(link, {
        get: (_target, name) => {
          if (name === 'renew') return renew;
          const member: unknown = Reflect.get(link, name);
          return typeof member === 'function' ? member.bind(link) : member;
        },
      });
    };
    const slow = new Proxy(inner, {
      get: (target, name) => (name === 'connect' ? connect : Reflect.get(target, name)),
    });
    const { server } = await everything({ engine: slow });
    const listening = failure(server.listen());
    await isAsked;
    const closed = server.close();
    release();
    await closed;
    expect(await listening).toMatchObject(CLOSED);
    expect(await nodesOf(inner)).toEqual([]);
  });

  it('has one promise, and is the end', async () => {
    const { server, port, metricsPort } = await everything();
    await server.listen({ port });
    await server.listenMetrics({ port: metricsPort });
    const closing = server.close();
    expect(server.close()).toBe(closing);
    for (const open of [() => server.listen(), () => server.listenMetrics()])
      expect(await failure(open())).toMatchObject(CLOSED);
    expect(() => server.attach(createHttpServer())).toThrow(CLOSED.message);
    await closing;
    for (const open of [() => server.listen(), () => server.listenMetrics()])
      expect(await failure(open())).toMatchObject(CLOSED);
    expect(() => server.attach(createHttpServer())).toThrow(CLOSED.message);
  });
});

describe.each([
  ['listen', 'the server is already listening'],
  ['listenMetrics', 'the metrics are already being served'],
] as const)('%s', (open, message) => {
  it('twice at once opens one port, which close closes', async () => {
    const { server } = await everything();
    const [first, second] = await Promise.allSettled([server[open](), server[open]()]);
    expect(second).toMatchObject({ status: 'rejected', reason: { code: 'invalid_argument', message } });
    if (first.status !== 'fulfilled') throw first.reason;
    expect(await isOpen(first.value.port)).toBe(true);
    expect(await failure(server[open]())).toMatchObject({ code: 'invalid_argument', message });
    await server.close();
    expect(await isOpen(first.value.port)).toBe(false);
  });

  it('may be tried again if the port was taken', async () => {
    const { server, port } = await everything();
    const other = await peers.serve();
    expect(await failure(server[open]({ port: other.port }))).toMatchObject({ code: 'connection_failed' });
    expect((await server[open]({ port })).port).toBe(port);
    expect(server.admin === undefined).toBe(open === 'listenMetrics');
  });
});
