import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type ClientOptions,
  type ClientSession,
  connect,
  type Session,
  type TransportName,
} from '@parlance/client';
import { cluster, createServer, memoryCluster, metrics, type Server } from '@parlance/server';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';
import { failure } from '../kit/peers.js';
import { type Backend, type ProxyName, type ProxyServer, proxyMissing, startProxy } from './proxy-server.js';

/** Two nodes behind nginx and behind HAProxy, with the configurations of `deploy/`, over WebSockets and over HTTP. */

interface Node extends Backend {
  readonly server: Server;
  /** Addresses of the clients that it has authenticated. */
  readonly addresses: string[];
}

const LIMITS = {
  messagesPerMinute: Infinity,
  bytesPerSecond: Infinity,
  sessionsPerMinutePerIp: Infinity,
  connectionsPerMinutePerIp: Infinity,
  handshakesPerIp: Infinity,
};
/** The shortest interval that the options allow, and a timeout of the proxy in the proportion of the defaults. */
const PING_MS = 10_000;
const TIMEOUT_SECONDS = 15;

/** @param at the ports of one that it replaces. */
async function startNode(engine: ReturnType<typeof memoryCluster>, at?: Backend): Promise<Node> {
  const addresses: string[] = [];
  const server = createServer({
    engine,
    features: [metrics(), cluster()],
    limits: LIMITS,
    timers: { pingIntervalMs: PING_MS },
    trustedProxies: ['127.0.0.1'],
    authenticate({ token, ip }) {
      addresses.push(ip);
      return token === undefined ? null : { principal: token.slice(0, 3) };
    },
    async onSession(session) {
      for await (const message of session) {
        const { tensor } = message;
        if (tensor?.data === undefined) await session.send(message.text);
        else {
          const { data, shape, dtype, payloadType } = tensor;
          await session.sendTensor({ data, shape, dtype, payloadType });
        }
      }
    },
    async *onRequest({ text }) {
      for (let i = 0; i < Number(text); i++) {
        yield `${i} `;
        await pause(10);
      }
    },
  });
  const { port } = await server.listen({ port: at?.port ?? 0 });
  const { port: metricsPort } = await server.listenMetrics({ port: at?.metricsPort ?? 0 });
  return { server, port, metricsPort, addresses };
}

/** A WebSocket with headers of its own. */
function socketWith(headers: Readonly<Record<string, string>>, ca?: string) {
  return class extends WebSocket {
    constructor(url: string, protocols?: string | string[]) {
      super(url, protocols, { headers, ca });
    }
  } as unknown as NonNullable<ClientOptions['WebSocket']>;
}

const inOrder = (count: number) => Array.from({ length: count }, (_, i) => i);

const CASES = (['nginx', 'haproxy'] satisfies ProxyName[]).flatMap((name) =>
  (['websocket', 'http'] satisfies TransportName[]).map((transport) => [name, transport] as const),
);

for (const [name, transport] of CASES) {
  const missing = proxyMissing(name);
  const overWebSocket = it.runIf(transport === 'websocket');
  describe.skipIf(missing !== undefined)(missing ?? `behind ${name}, with transport ${transport}`, () => {
    let nodes: readonly [Node, Node];
    let proxy: ProxyServer;
    let front: CuttingProxy;
    const sessions: Session[] = [];
    const dial = async (port: number, options: ClientOptions = {}): Promise<ClientSession> => {
      const session = await connect(`ws://127.0.0.1:${port}/session`, {
        WebSocket,
        transports: [transport],
        token: 'ann',
        limits: LIMITS,
        timers: { pingIntervalMs: PING_MS },
        reconnect: { minDelayMs: 5, maxDelayMs: 50 },
        ...options,
      });
      sessions.push(session);
      return session;
    };
    beforeAll(async () => {
      const engine = memoryCluster();
      nodes = [await startNode(engine), await startNode(engine)];
      proxy = await startProxy(name, nodes, { timeoutSeconds: TIMEOUT_SECONDS });
      front = await createCuttingProxy(proxy.port);
    });
    afterEach(async () => {
      await Promise.all(sessions.splice(0).map((session) => session.close()));
    });
    afterAll(async () => {
      await front[Symbol.asyncDispose]();
      await proxy[Symbol.asyncDispose]();
      for (const { server } of nodes) await server.close();
    });

    it('sessions begin at both nodes, which know the address of the client and not one that it states', async () => {
      const forged = socketWith({ 'x-forwarded-for': '203.0.113.9' });
      for (const _ of inOrder(12)) await dial(proxy.port, { WebSocket: forged });
      for (const { server, addresses } of nodes) {
        expect(server.sessions.size).toBeGreaterThan(0);
        expect(new Set(addresses)).toEqual(new Set(['127.0.0.1']));
      }
    });

    overWebSocket(
      'HELLO passes in the upgrade request, and ACCEPT right behind the answer to it',
      async () => {
        const selected: string[] = [];
        class Watched extends WebSocket {
          constructor(url: string, protocols?: string | string[]) {
            super(url, protocols);
            this.once('open', () => selected.push(this.protocol));
          }
        }
        const session = await dial(front.port, {
          WebSocket: Watched as unknown as NonNullable<ClientOptions['WebSocket']>,
          // As long as it may be.
          token: () => 'ann'.padEnd(2_300, 'x'),
        });
        const { id } = session;
        front.cut();
        expect((await session.request('2')).text).toBe('0 1 ');
        expect(session.id).toBe(id);
        expect(selected).toEqual(['m2m.v1.hello', 'm2m.v1.hello']);
      },
    );

    it('a session continues at whichever node its connections arrive', async () => {
      const session = await dial(front.port);
      const { id } = session;
      const count = 300;
      const numbers: number[] = [];
      const reading = (async () => {
        for await (const { text } of session) if (numbers.push(Number(text)) === count) return;
      })();
      const streaming = session.request(String(count));
      for (const i of inOrder(count)) {
        await session.send(String(i));
        if (i % 40 === 20) front.cut();
        await pause(10);
      }
      await reading;
      expect(numbers).toEqual(inOrder(count));
      expect((await streaming).text).toBe(
        inOrder(count)
          .map((i) => `${i} `)
          .join(''),
      );
      expect(session.id).toBe(id);
    });

    it('large messages and tensors pass whole', async () => {
      const session = await dial(proxy.port);
      const incoming = session[Symbol.asyncIterator]();
      const text = randomBytes(300_000).toString('base64');
      await session.send(text);
      expect((await incoming.next()).value.text).toBe(text);
      const data = new Uint8Array(randomBytes(16_000_000));
      const hash = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
      await session.sendTensor({ data, shape: [data.length], dtype: 'int8', payloadType: 'hidden_state' });
      expect(hash((await incoming.next()).value.tensor.data)).toBe(hash(data));
    });

    // Over HTTP, servers write something every 25 s. The interval of pings does not matter.
    overWebSocket('sessions that are silent for longer than the timeout stay open', async () => {
      const statesOf = (session: Session) => {
        const states: string[] = [];
        session.on('state', (state) => states.push(state));
        return states;
      };
      const session = await dial(proxy.port);
      const states = statesOf(session);
      // Behind one with a timeout that is shorter than the interval of the pings, the connection is lost.
      await using hasty = await startProxy(name, nodes, { timeoutSeconds: PING_MS / 2_000 });
      const cut = statesOf(await dial(hasty.port));
      await pause(TIMEOUT_SECONDS * 1_000 + 5_000);
      expect((await session.request('1')).text).toBe('0 ');
      expect(states).toEqual([]);
      expect(cut).toContain('suspended');
    });

    it('new connections go to the other node while one drains, and what that one began is finished', async () => {
      const engine = memoryCluster();
      const [old, other] = [await startNode(engine), await startNode(engine)];
      await using balancer = await startProxy(name, [old, other]);
      try {
        const users: Session[] = [];
        while (old.server.sessions.size === 0) users.push(await dial(balancer.port));
        const parts = 150;
        const replies = users.map((user) => user.request(String(parts)));
        await expect.poll(() => old.server.sessions.size + other.server.sessions.size).toBe(users.length);
        const drained = old.server.drain({ timeoutMs: 30_000, returnWithinMs: 0 });
        // A first attempt is not repeated by the client, so each of them has to find the other node.
        for (const _ of inOrder(10)) await dial(balancer.port);
        const due = inOrder(parts)
          .map((i) => `${i} `)
          .join('');
        for (const reply of replies) expect((await reply).text).toBe(due);
        expect(await drained).toMatchObject({ interrupted: 0, lost: 0 });
      } finally {
        await Promise.all(sessions.splice(0).map((session) => session.close()));
        for (const { server } of [old, other]) await server.close();
      }
    });

    it('no session is lost while both nodes are replaced and the proxy reads its configuration again', async () => {
      const engine = memoryCluster();
      const running: [Node, Node] = [await startNode(engine), await startNode(engine)];
      await using balancer = await startProxy(name, running);
      try {
        const users: ClientSession[] = [];
        for (const _ of inOrder(8)) users.push(await dial(balancer.port));
        const ids = users.map(({ id }) => id);
        const resets: string[] = [];
        for (const user of users) user.on('reset', ({ reason }) => resets.push(reason));
        let isOver = false;
        const counting = users.map(async (user) => {
          const heard = user[Symbol.asyncIterator]();
          const numbers: number[] = [];
          for (let i = 0; !isOver; i++) {
            await user.send(String(i));
            numbers.push(Number((await heard.next()).value.text));
            await pause(20);
          }
          return numbers;
        });
        for (const at of [0, 1] as const) {
          const { server, ...old } = running[at];
          expect(await server.drain({ timeoutMs: 30_000, returnWithinMs: 0 })).toMatchObject({ lost: 0 });
          await server.close();
          running[at] = await startNode(engine, old);
          balancer.reload();
        }
        isOver = true;
        for (const numbers of await Promise.all(counting)) expect(numbers).toEqual(inOrder(numbers.length));
        expect(users.map(({ id }) => id)).toEqual(ids);
        expect([resets, new Set(users.map((user) => user.transport))]).toEqual([[], new Set([transport])]);
      } finally {
        await Promise.all(sessions.splice(0).map((session) => session.close()));
        for (const { server } of running) await server.close();
      }
    });

    // Node's `fetch` trusts no certificate of an option; a page in `http-stream.browser.test.ts` does.
    overWebSocket('TLS ends at the proxy, and the nodes know it', async () => {
      const { certificate, tlsPort } = proxy;
      const over = (origin: string) => ({ WebSocket: socketWith({ origin }, certificate) });
      const url = `wss://localhost:${tlsPort}/session`;
      const session = await connect(url, { ...over(`https://localhost:${tlsPort}`), token: 'ann' });
      sessions.push(session);
      expect((await session.request('2')).text).toBe('0 1 ');
      // A page that came over the open network could have been forged.
      expect(
        await failure(connect(url, { ...over(`http://localhost:${tlsPort}`), token: 'ann' })),
      ).toMatchObject({ code: 'rejected' });
    });
  });
}
