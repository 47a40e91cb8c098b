import { once } from 'node:events';
import {
  type AddressInfo,
  connect as connectTcp,
  createServer as createTcpServer,
  type Socket,
} from 'node:net';
import { type ControlMessage, decodeControl, encodeControl, type HelloPayload } from '@parlance/protocol';
import { cluster, durable, memoryCluster, type ServerOptions } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import { WebSocketServer } from 'ws';
import { openBalancer } from '../kit/balancer.js';
import { createPeers, greet, HELLO, helloBytes, openRaw, type RawPeer } from '../kit/peers.js';

/** A HELLO that comes again, as its client could not know that it had arrived. */

let peers = createPeers();
afterEach(async () => {
  await peers[Symbol.asyncDispose]();
  peers = createPeers();
});

type Message<Type> = Extract<ControlMessage, { readonly type: Type }>;

const EXTENSIONS = { link: '{}', resume: '{}' };
const ROUNDS = 20;
const nonceOf = (seed: number) => new Uint8Array(16).fill(seed);

/** Sessions that each of some servers has handed to its application. */
function handed() {
  const ids: string[] = [];
  const options: ServerOptions = {
    authenticate: ({ token = '' }) => ({ principal: token.split(' ')[0] || 'nobody' }),
    async onSession(session) {
      ids.push(session.id);
      await session.send('welcome');
      for await (const { text } of session) await session.send(text);
    },
    onRequest: ({ text }) => text,
  };
  return { ids, options };
}

/**
 * A TCP proxy, whose every other connection it resets as soon as a server has accepted the session on it, of which the client
 * reads nothing.
 *
 * @param ports where the connections that are reset go, and where the others go.
 * @param isHeld the client does not even read that the WebSocket is open.
 */
async function createResettingProxy(ports: readonly [number, number], isHeld: boolean) {
  const sockets = new Set<Socket>();
  let count = 0;
  const server = createTcpServer((near) => {
    const isReset = count++ % 2 === 0;
    const far = connectTcp(ports[isReset ? 0 : 1], '127.0.0.1');
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on('error', () => {}).on('close', () => to.destroy());
    }
    near.on('data', (chunk) => far.write(chunk));
    far.on('data', (chunk) => {
      if (isReset && chunk.includes('ACCEPT')) {
        near.resetAndDestroy();
        far.resetAndDestroy();
      } else if (!isReset || !isHeld) near.write(chunk);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return peers.use({
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}/session`,
    get count() {
      return count;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  });
}

/** The same for the requests that open a stream over HTTP: the client reads nothing of the answer to every other one. */
async function createResettingBalancer(ports: readonly number[]) {
  let count = 0;
  const { port } = peers.use(
    await openBalancer(
      () => ports,
      ({ url, socket }, response) => {
        if (url !== '/session/stream' || count++ % 2 === 1) return false;
        response.on('data', (chunk: Buffer) => {
          if (chunk.includes('ACCEPT')) socket.resetAndDestroy();
        });
        return true;
      },
    ),
  );
  return {
    url: `ws://127.0.0.1:${port}/session`,
    get count() {
      return count;
    },
  };
}

/** Is cut before the servers close, which would wait for it. */
function raw<Peer extends RawPeer>(peer: Peer): Peer {
  peers.use({
    async [Symbol.asyncDispose]() {
      peer.socket.terminate();
    },
  });
  return peer;
}

const places = ['one node', 'two nodes', 'two nodes and durable sessions'] as const;
const ways = ['its upgrade request', 'its first frame', 'its POST'] as const;

describe.each(places)('with %s', (place) => {
  const serve = async (options: ServerOptions) => {
    if (place === 'one node') {
      const { url, port, server } = await peers.serve(options);
      return { urls: [url, url] as const, ports: [port, port] as const, servers: [server] };
    }
    const engine = memoryCluster();
    const features =
      place === 'two nodes' ? [cluster()] : [cluster(), durable(true, { allowVolatileEngine: true })];
    const node = () => peers.serve({ ...options, engine, features });
    const [a, b] = [await node(), await node()];
    // Each of them knows the other one.
    await peers.dial(a.url).then((session) => session.close());
    return {
      urls: [a.url, b.url] as const,
      ports: [a.port, b.port] as const,
      servers: [a.server, b.server],
    };
  };

  it.each(ways)(
    `a connection that is reset behind %s gives one session, ${ROUNDS} of ${ROUNDS}`,
    async (way) => {
      const { ids, options } = handed();
      const { ports, servers } = await serve(options);
      ids.length = 0;
      const isEarly = way === 'its upgrade request';
      const isPost = way === 'its POST';
      const proxy = await (isPost ? createResettingBalancer(ports) : createResettingProxy(ports, isEarly));
      for (let round = 1; round <= ROUNDS; round++) {
        const session = await peers.dial(proxy.url, {
          earlyHello: isEarly,
          transports: [isPost ? 'http' : 'websocket'],
          reconnect: { minDelayMs: 1, connectWithinMs: 60_000 },
        });
        expect([proxy.count, ids.length, ids.at(-1)]).toEqual([2 * round, round, session.id]);
        const messages = session[Symbol.asyncIterator]();
        expect((await messages.next()).value?.text).toBe('welcome');
        await session.send(`hi ${round}`);
        expect((await messages.next()).value?.text).toBe(`hi ${round}`);
        expect((await session.request('ping')).text).toBe('ping');
      }
      expect(servers.reduce((sum, { sessions }) => sum + sessions.size, 0)).toBe(ROUNDS);
    },
  );

  const nonce = nonceOf(1);
  const begin = async (url: string, change: Parameters<typeof greet>[1] = {}) =>
    raw(await greet(url, { extensions: EXTENSIONS, nonce, ...change }));
  const codeOf = async (url: string, change: Parameters<typeof helloBytes>[0]) => {
    const peer = await openRaw(url);
    peer.send(helloBytes({ extensions: EXTENSIONS, nonce, ...change }));
    return (await peer.closed).code;
  };
  /** Shows the server that ACCEPT has arrived: acknowledges its first frame. */
  const acknowledge = async (peer: RawPeer) => {
    while (!peer.received.some((frame) => frame[0] === 0x10)) await once(peer.socket, 'message');
    peer.send(Uint8Array.of(0x18, 1));
    // Its session reads one after the other; a ping of the WebSocket would overtake the frame.
    peer.send(encodeControl({ type: 'PING', sessionId: null, timestamp: 1, payload: {} }));
    await peer.control('PONG');
  };

  it('the same HELLO continues its session, and gets the same answer and the frames from the first one on', async () => {
    const { ids, options } = handed();
    const { urls } = await serve({ ...options, limits: { sessionsPerPrincipal: 1 } });
    ids.length = 0;
    const first = await begin(urls[0]);
    for (const url of [...urls, ...urls]) {
      const again = await begin(url);
      expect([again.sessionId, again.resumeToken]).toEqual([first.sessionId, first.resumeToken]);
      await expect.poll(() => again.received.some((frame) => frame[0] === 0x10)).toBe(true);
    }
    expect(ids).toEqual([first.sessionId]);
    expect((await first.closed).code).toBe(4408);
  });

  it('someone else with the same nonce gets a session of their own', async () => {
    const { ids, options } = handed();
    const { urls } = await serve(options);
    ids.length = 0;
    const ada = await begin(urls[0], { auth: { token: 'ada' } });
    const bob = await begin(urls[1], { auth: { token: 'bob' } });
    expect(bob.sessionId).not.toBe(ada.sessionId);
    // Other credentials of the same principal.
    const again = await begin(urls[1], { auth: { token: 'ada later' } });
    expect([again.sessionId, ids.length]).toEqual([ada.sessionId, 2]);
  });

  it('a copy that comes after ACCEPT was received changes nothing', async () => {
    const { ids, options } = handed();
    const { urls } = await serve(options);
    ids.length = 0;
    const first = await begin(urls[0]);
    await acknowledge(first);
    for (const url of urls) expect(await codeOf(url, {})).toBe(4410);
    expect([first.socket.readyState, ids.length]).toEqual([1, 1]);
  });

  it('a copy that comes after its session was closed begins none', async () => {
    const { ids, options } = handed();
    const { urls, servers } = await serve(options);
    ids.length = 0;
    const first = await begin(urls[0]);
    await acknowledge(first);
    first.socket.close(1000);
    await expect.poll(() => servers.every(({ sessions }) => !sessions.has(first.sessionId))).toBe(true);
    for (const url of urls) expect(await codeOf(url, {})).toBe(4410);
    expect(ids).toHaveLength(1);
  });

  it('a session that is over before its client has heard of it is followed by another one', async () => {
    const { ids, options } = handed();
    const { urls, servers } = await serve({ ...options, timers: { resumeWindowMs: 1 } });
    ids.length = 0;
    const first = await begin(urls[0]);
    first.socket.terminate();
    await expect.poll(() => servers.every(({ sessions }) => !sessions.has(first.sessionId))).toBe(true);
    const second = await begin(urls[1]);
    expect(ids).toEqual([first.sessionId, second.sessionId]);
  });

  it.runIf(place !== 'one node')('a session whose node is gone is followed by another one', async () => {
    const { ids, options } = handed();
    const { urls, servers } = await serve(options);
    ids.length = 0;
    const first = await begin(urls[0]);
    first.socket.terminate();
    await servers[0]?.close();
    const second = await begin(urls[1]);
    expect(ids).toEqual([first.sessionId, second.sessionId]);
    const again = await begin(urls[1]);
    expect([again.sessionId, ids.length]).toEqual([second.sessionId, 2]);
  });

  it('the same nonce with another offer is an error of the client', async () => {
    const { ids, options } = handed();
    const { urls } = await serve(options);
    ids.length = 0;
    const first = await begin(urls[0]);
    for (const url of urls)
      expect(await codeOf(url, { extensions: { ...EXTENSIONS, 'x-more': '1' } })).toBe(4400);
    expect([first.socket.readyState, ids.length]).toEqual([1, 1]);
  });

  it('copies that come at the same time make one session', async () => {
    const { ids, options } = handed();
    const { urls } = await serve(options);
    ids.length = 0;
    const all = await Promise.all(
      Array.from({ length: 10 }, async (_, i) => {
        const peer = raw(await openRaw(urls[i % 2] as string));
        peer.send(helloBytes({ extensions: EXTENSIONS, nonce: nonceOf(2) }));
        const { sessionId } = await peer.control('ACCEPT');
        return sessionId;
      }),
    );
    expect(new Set(all)).toEqual(new Set(ids));
    expect(ids).toHaveLength(1);
  });
});

it('a client says the same nonce until it has received ACCEPT, none when it resumes, and each client another one', async () => {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  peers.use({
    async [Symbol.asyncDispose]() {
      for (const socket of server.clients) socket.terminate();
      server.close();
    },
  });
  const hellos: HelloPayload[] = [];
  server.on('connection', (socket) => {
    socket.once('message', (data: Buffer) => {
      const { payload } = decodeControl(data) as Message<'HELLO'>;
      hellos.push(payload);
      if (hellos.length % 4 === 3) {
        const extensions = { link: '{}', resume: '{}' };
        const resume = { token: 'token', windowMs: 60_000, recovered: false, received: 0 };
        const accept = {
          ...HELLO,
          algorithms: ['NONE'],
          encoding: null,
          encodings: [],
          sessionTimeoutMs: 0,
          limits: {},
        };
        const answer = {
          ...accept,
          extensions,
          resume,
          supportsStreaming: undefined,
        } as unknown as Message<'ACCEPT'>['payload'];
        socket.send(encodeControl({ type: 'ACCEPT', sessionId: 'sess_1', timestamp: 1, payload: answer }));
      }
      // Of the fourth the answer stays out.
      if (hellos.length % 4 !== 0) setTimeout(() => socket.terminate(), 20);
    });
  });
  const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
  for (const count of [4, 8]) {
    await peers.dial(url, {
      earlyHello: false,
      reconnect: { minDelayMs: 1, connectWithinMs: 60_000 },
      timers: { closingTimeoutMs: 1 },
    });
    await expect.poll(() => hellos.length).toBe(count);
  }
  const nonces = hellos.map(({ nonce }) => nonce && Buffer.from(nonce).toString('hex'));
  const [one, other] = [nonces[0], nonces[4]];
  expect(one).toMatch(/^[\da-f]{32}$/);
  expect(one).not.toBe(other);
  expect(nonces).toEqual([one, one, one, undefined, other, other, other, undefined]);
  expect(hellos.map(({ resume }) => resume?.sessionId)).toEqual([
    ...[undefined, undefined, undefined, 'sess_1'],
    ...[undefined, undefined, undefined, 'sess_1'],
  ]);
});

it('does not count for sessions without resume, which end with their connections', async () => {
  const { ids, options } = handed();
  const { url } = await peers.serve(options);
  for (let i = 0; i < 2; i++) raw(await greet(url, { extensions: { link: '{}' }, nonce: nonceOf(3) }));
  expect(new Set(ids).size).toBe(2);
});

it.each([15, 17])('refuses a nonce of %d bytes', async (length) => {
  const { url } = await peers.serve(handed().options);
  const peer = await openRaw(url);
  peer.send(helloBytes({ nonce: new Uint8Array(length) }));
  expect(await peer.closed).toEqual({ code: 4400, reason: 'bad_message: nonce must be 16 bytes' });
});
