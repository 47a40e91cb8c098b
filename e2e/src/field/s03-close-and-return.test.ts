import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Session } from '@parlance/client';
import { CloseCode, CloseReason, encodeControl } from '@parlance/protocol';
import { createServer, durable, memoryCluster, type ServerOptions } from '@parlance/server';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { createPeers, failure, greet } from '../kit/peers.js';

/** `server.close()` for the clients of the server: a restart, as in watch mode, is not the end of their sessions. */

const peers = createPeers();
afterEach(async () => {
  vi.unstubAllEnvs();
  await peers[Symbol.asyncDispose]();
});

const EAGER = { reconnect: { minDelayMs: 5, maxDelayMs: 50 } };

const pending = () => new Promise<never>(() => {});

/** The server that starts after another one, on its port. */
async function next(port: number, options: ServerOptions) {
  const server = peers.use(createServer({ onError: () => {}, ...options }));
  await server.listen({ port });
  return server;
}

function watch(session: Session) {
  const states: string[] = [];
  session.on('state', (state) => states.push(state));
  return states;
}

describe('close()', () => {
  it('lets an idle client come back to the next server, and what it says meanwhile arrives there', async () => {
    const { server, url, port } = await peers.serve({ onRequest: () => 'first' });
    const session = await peers.dial(url, EAGER);
    const states = watch(session);
    expect((await session.request('who?')).text).toBe('first');
    await server.close();
    const said = session.send('between the two');
    const heard: string[] = [];
    const after = await next(port, {
      onRequest: () => 'second',
      async onSession(served) {
        for await (const { text } of served) heard.push(text);
      },
    });
    await said;
    await expect.poll(() => session.state).toBe('established');
    expect((await session.request('who?')).text).toBe('second');
    expect(heard).toEqual(['between the two']);
    expect(after.sessions.size).toBe(1);
    expect(states).not.toContain('closed');
  });

  it('ends a reply that is not complete with session_lost, and the client asks the next server', async () => {
    const { server, url, port } = await peers.serve({
      async *onRequest() {
        yield 'one ';
        await pending();
      },
    });
    const session = await peers.dial(url, EAGER);
    const stream = session.stream('x')[Symbol.asyncIterator]();
    expect((await stream.next()).value?.text).toBe('one ');
    await server.close();
    await next(port, { onRequest: ({ text }) => `${text} at the second` });
    expect(await failure(stream.next())).toMatchObject({ code: 'session_lost' });
    await expect.poll(() => session.state).toBe('established');
    expect((await session.request('y')).text).toBe('y at the second');
  });

  it.each(['while it is away', 'while it is being admitted'])('lets a client come back %s', async (when) => {
    let admits: Promise<unknown> = Promise.resolve();
    let asked = 0;
    const authenticate = async () => {
      asked++;
      await admits;
      return { principal: 'ann' };
    };
    const { server, port } = await peers.serve({ authenticate });
    const proxy = peers.use(await createCuttingProxy(port));
    const session = await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, EAGER);
    const states = watch(session);
    if (when === 'while it is away') proxy.refuse(true);
    else admits = pending();
    proxy.cut();
    await expect.poll(() => session.state).toBe('suspended');
    if (when !== 'while it is away') await expect.poll(() => asked).toBe(2);
    await server.close();
    const after = await next(port, { authenticate: () => ({ principal: 'ann' }), onRequest: () => 'second' });
    proxy.refuse(false);
    await expect.poll(() => after.sessions.size).toBe(1);
    await expect.poll(() => session.state).toBe('established');
    expect((await session.request('who?')).text).toBe('second');
    expect(states).not.toContain('closed');
  });

  it('is what `await using` does, too', async () => {
    const { url, port } = await peers.serve();
    await peers[Symbol.asyncDispose]();
    let session: Session;
    {
      await using server = createServer();
      await server.listen({ port });
      session = await peers.dial(url, EAGER);
    }
    await next(port, { onRequest: () => 'second' });
    await expect.poll(() => session.state).toBe('established');
    expect((await session.request('who?')).text).toBe('second');
  });

  it('does not bring back a client that the application has sent away, or that has closed itself', async () => {
    const { server, url, port } = await peers.serve({ onSession: pending });
    const [kicked, left] = [await peers.dial(url, EAGER), await peers.dial(url, EAGER)];
    void server.sessions.get(kicked.id)?.close();
    void left.close();
    await server.close();
    await Promise.all([kicked.closed, left.closed]);
    const after = await next(port, {});
    expect(after.sessions.size).toBe(0);
  });

  it('keeps the connection of a client that reads nothing no longer than its session', async () => {
    const http = createHttpServer();
    const sockets: Socket[] = [];
    http.on('connection', (socket) => sockets.push(socket));
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    const server = createServer({ timers: { closingTimeoutMs: 1_000 } });
    server.attach(http);
    try {
      const url = `ws://127.0.0.1:${(http.address() as AddressInfo).port}/session`;
      const peer = await greet(url);
      peer.socket.pause();
      await server.close();
      for (let i = 0; i < 5; i++) await nextTurn();
      expect(sockets.map(({ destroyed }) => destroyed)).toEqual([true]);
      peer.socket.terminate();
    } finally {
      http.closeAllConnections();
      http.close();
    }
  });
});

describe('the close frame of the WebSocket', () => {
  it.each(['net', 'ws'])(
    'tells a client why, that reads and does not answer CLOSE, with %s',
    async (wire) => {
      vi.stubEnv('PARLANCE_WIRE', wire);
      const { server, url } = await peers.serve({ timers: { closingTimeoutMs: 100 } });
      const peer = await greet(url);
      void server.close();
      await peer.control('CLOSE');
      const { NORMAL: code } = CloseCode;
      expect(await peer.closed).toEqual({ code, reason: CloseReason.SERVER_SHUTDOWN });
    },
  );

  it.each(['net', 'ws'])(
    'comes after the CLOSE that answers a client that was idle, with %s',
    async (wire) => {
      vi.stubEnv('PARLANCE_WIRE', wire);
      const { url } = await peers.serve();
      const peer = await greet(url);
      const payload = { reason: CloseReason.TIMEOUT, message: 'idle' };
      peer.send(encodeControl({ type: 'CLOSE', sessionId: peer.sessionId, timestamp: 1, payload }));
      expect((await peer.control('CLOSE')).payload.reason).toBe(CloseReason.NORMAL);
      expect((await peer.closed).code).not.toBe(CloseCode.ABNORMAL);
    },
  );
});

describe("close({ sessions: 'end' })", () => {
  it('ends the sessions of clients for good', async () => {
    const { server, url } = await peers.serve();
    const session = await peers.dial(url, EAGER);
    await server.close({ sessions: 'end' });
    expect(await session.closed).toMatchObject({ side: 'remote', error: undefined });
    expect(session.state).toBe('closed');
  });

  it.each(['websocket', 'http'] as const)(
    'ends them for good over %s although the server has begun to drain',
    async (transport) => {
      const { server, url, port } = await peers.serve({
        async *onRequest() {
          yield 'one';
          await pending();
        },
      });
      const session = await peers.dial(url, { ...EAGER, transports: [transport], WebSocket: undefined });
      const stream = session.stream('x')[Symbol.asyncIterator]();
      await stream.next();
      const drained = server.drain({ timeoutMs: 60_000, returnWithinMs: 0 });
      await expect
        .poll(() => failure(session.request('y', { timeoutMs: 50 })))
        .toMatchObject({
          code: 'draining',
        });
      await server.close({ sessions: 'end' });
      const after = await next(port, {});
      await expect.poll(() => session.state).toBe('closed');
      expect(await session.closed).toMatchObject({ code: 'server_closed', side: 'remote', error: undefined });
      expect(await failure(stream.next())).toMatchObject({ code: 'session_closed' });
      expect(await drained).toMatchObject({ ended: 1 });
      expect(after.sessions.size).toBe(0);
    },
  );

  it.each(['with its client', 'while its client is away'])('ends a durable session %s', async (when) => {
    const engine = memoryCluster();
    const features = [durable(true, { allowVolatileEngine: true })];
    const { server, port } = await peers.serve({ engine, features });
    const proxy = peers.use(await createCuttingProxy(port));
    const url = `ws://127.0.0.1:${proxy.port}/session`;
    const session = await peers.dial(url, { ...EAGER, timers: { closingTimeoutMs: 100 } });
    const { id } = session;
    if (when === 'while its client is away') {
      proxy.refuse(true);
      proxy.cut();
      await expect.poll(() => server.sessions.get(id)?.state).toBe('suspended');
    }
    const link = engine.connect();
    expect(await link.findSession(id)).toBeDefined();
    await server.close({ sessions: 'end' });
    expect(await link.findSession(id)).toBeUndefined();
    await link.close();
  });

  it('is refused with other words, and the server stays open', async () => {
    const { server, url } = await peers.serve();
    for (const options of [{ sessions: 'later' }, { session: 'end' }, 'SIGTERM', () => {}])
      expect(() => server.close(options as never)).toThrow(
        expect.objectContaining({ code: 'invalid_option' }),
      );
    expect((await peers.dial(url)).state).toBe('established');
  });
});
