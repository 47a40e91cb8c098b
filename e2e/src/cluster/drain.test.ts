import { setTimeout as pause } from 'node:timers/promises';
import type { ClientOptions, Session } from '@parlance/client';
import { CloseCode, encodeControl, type ProtocolError } from '@parlance/protocol';
import { createServer, type ServerOptions } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { clientEndpoint } from '../kit/endpoints.js';
import { createPeers, failure, greet } from '../kit/peers.js';

/** A server that drains and the one that replaces it, over real sockets. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

const UNLIMITED: ServerOptions['limits'] = {
  sessionsPerIp: Infinity,
  sessionsPerMinutePerIp: Infinity,
  connectionsPerMinutePerIp: Infinity,
  failuresPerMinutePerIp: Infinity,
  messagesPerMinute: Infinity,
};

/** A machine that does much else may take long to answer 200 clients. */
const EAGER = { reconnect: { minDelayMs: 5, maxDelayMs: 50 }, timers: { acceptTimeoutMs: 60_000 } };

/** Records the states of a session from now on. */
function statesOf(session: Session): string[] {
  const states: string[] = [];
  session.on('state', (state) => states.push(state));
  return states;
}

/** The GOAWAY that a client received. */
const goAwayOf = (session: Session) => clientEndpoint(session).core.goAway;

const untilState = (session: Session, wanted: string) =>
  new Promise<void>((resolve) => {
    const off = session.on('state', (state) => {
      if (state !== wanted) return;
      off();
      resolve();
    });
  });

describe('a rolling replacement', () => {
  it('under 200 live streams loses nothing, and its clients return over the announced time', async () => {
    const CLIENTS = 200;
    const PARTS = 30;
    const WITHIN = 1_500;
    const EARLY = 5;
    const NOTICED_MS = 200;
    let goOn = () => {};
    const isDraining = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const heard = new Map<string, number>();
    const serverOptions = (name: string): ServerOptions => ({
      limits: UNLIMITED,
      async onSession(session) {
        for await (const { text } of session) heard.set(text, (heard.get(text) ?? 0) + 1);
      },
      async *onRequest(request) {
        for (let i = 0; i < PARTS; i++) {
          yield `${name} ${request.text} ${i};`;
          // No stream ends before the server drains, however fast the machine is.
          await (i + 1 === EARLY ? isDraining : pause(20));
        }
      },
    });
    const { server: old, url, port } = await peers.serve(serverOptions('old'));
    const sessions = await Promise.all(Array.from({ length: CLIENTS }, () => peers.dial(url, EAGER)));
    const ids = new Set(sessions.map(({ id }) => id));
    const resets: unknown[] = [];
    const announced: number[] = [];
    const back = sessions.map(async (session) => {
      session.on('reset', (reset) => resets.push(reset));
      await untilState(session, 'closing');
      const delay = goAwayOf(session)?.retryAfterMs as number;
      announced.push(delay);
      await untilState(session, 'connecting');
      const left = performance.now();
      await untilState(session, 'established');
      // The client may have noticed earlier than this test did.
      expect(performance.now() - left).toBeGreaterThanOrEqual(delay - NOTICED_MS);
    });
    let isOver = false;
    const sent: string[] = [];
    const sending = sessions.map(async (session, client) => {
      for (let i = 0; !isOver; i++) {
        const text = `message ${client}/${i}`;
        await session.send(text);
        sent.push(text);
        await pause(200);
      }
    });
    const streaming = sessions.map(async (session, client) => {
      let text = '';
      for await (const part of session.stream(String(client))) text += part.text;
      return text;
    });

    await expect
      .poll(() => sessions.every((session) => session.stats().received.messages >= EARLY))
      .toBe(true);
    // However slow the machine is, sessions end by themselves.
    const drained = old.drain({ timeoutMs: 600_000, returnWithinMs: WITHIN, releasePort: true });
    goOn();
    const fresh = peers.use(createServer(serverOptions('new')));
    await fresh.listen({ port });

    const whole = (name: string, client: number) =>
      Array.from({ length: PARTS }, (_, i) => `${name} ${client} ${i};`).join('');
    expect(await Promise.all(streaming)).toEqual(sessions.map((_, client) => whole('old', client)));
    expect(await drained).toEqual({ ended: CLIENTS, interrupted: 0, lost: 0 });
    await Promise.all(back);
    isOver = true;
    await Promise.all(sending);
    await Promise.all(sessions.map((session) => session.flush()));

    expect(resets).toEqual([]);
    expect(sessions.some(({ id }) => ids.has(id))).toBe(false);
    expect([old.sessions.size, fresh.sessions.size]).toEqual([0, CLIENTS]);
    expect(new Set(heard.values())).toEqual(new Set([1]));
    expect([...heard.keys()].sort()).toEqual(sent.sort());
    for (const part of [0, 1, 2, 3]) {
      const within = announced.filter((ms) => Math.floor((4 * ms) / WITHIN) === part);
      expect(within.length).toBeGreaterThan(CLIENTS / 10);
    }
    expect((await (sessions[0] as Session).request('0')).text).toBe(whole('new', 0));
  });

  it('lets a reader continue: unread messages come before new ones', async () => {
    const greeting = (name: string): ServerOptions => ({
      limits: UNLIMITED,
      async onSession(session) {
        for (let i = 0; i < 3; i++) await session.send(`${name} ${i}`);
      },
    });
    const { server: old, url, port } = await peers.serve(greeting('old'));
    const session = await peers.dial(url, EAGER);
    await expect.poll(() => session.stats().received.messages).toBe(3);
    const drained = old.drain({ timeoutMs: 50_000, returnWithinMs: 50 });
    await drained;
    await peers.use(createServer(greeting('new'))).listen({ port });
    const read: string[] = [];
    for await (const { text } of session) if (read.push(text) === 6) break;
    expect(read).toEqual(['old 0', 'old 1', 'old 2', 'new 0', 'new 1', 'new 2']);
  });
});

describe('a server that drains', () => {
  /** One session with a stream that runs until it is released. */
  async function setUp(clientOptions: ClientOptions = EAGER) {
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { server, port } = await peers.serve({
      limits: UNLIMITED,
      timers: { closingTimeoutMs: 200 },
      async *onRequest() {
        yield 'begun';
        await released;
        yield 'done';
      },
    });
    const proxy = peers.use(await createCuttingProxy(port));
    const url = `ws://127.0.0.1:${proxy.port}/session`;
    const session = await peers.dial(url, clientOptions);
    const stream = session.stream('x')[Symbol.asyncIterator]();
    expect((await stream.next()).value?.text).toBe('begun');
    return { release, server, proxy, url, session, stream };
  }

  it('tells new clients when to return, but still resumes lost sessions', async () => {
    const { release, server, proxy, url, session, stream } = await setUp();
    const { id } = session;
    const drained = server.drain({ timeoutMs: 50_000, returnWithinMs: 100 });
    expect(await failure(peers.dial(url))).toMatchObject({
      code: 'rejected',
      closeCode: CloseCode.DRAINING,
      retryable: true,
      retryAfterMs: expect.any(Number),
      reject: { code: 'SERVER_BUSY' },
    });
    const back = untilState(session, 'established');
    proxy.cut();
    await back;
    expect(session.id).toBe(id);
    release();
    expect((await stream.next()).value?.text).toBe('done');
    expect((await stream.next()).done).toBe(true);
    expect(await drained).toEqual({ ended: 1, interrupted: 0, lost: 0 });
  });

  it('lets the client begin no new request', async () => {
    const { release, server, session, stream } = await setUp();
    const drained = server.drain({ timeoutMs: 50_000, returnWithinMs: 100 });
    await expect.poll(() => goAwayOf(session)).toBeDefined();
    for (const call of [() => session.request('y'), async () => session.stream('y')]) {
      expect(await failure(call())).toMatchObject({
        code: 'draining',
        retryable: true,
        retryAfterMs: expect.any(Number),
      });
    }
    release();
    expect((await stream.next()).value?.text).toBe('done');
    await drained;
  });

  it('refuses the request of a client that ignores GOAWAY, with the same code', async () => {
    const { server, url } = await peers.serve({ limits: UNLIMITED, onRequest: () => 'never' });
    const peer = await greet(url);
    const drained = server.drain({ timeoutMs: 300, returnWithinMs: 100 });
    const { payload } = await peer.control('GOAWAY');
    expect(payload.retryAfterMs).toBeLessThan(100);
    expect(payload.deadline).toBeGreaterThan(Date.now() - 1_000);
    await peer.control('PING');
    peer.send(encodeControl({ type: 'PONG', sessionId: peer.sessionId, timestamp: 1, payload: {} }));
    peer.send(Uint8Array.of(0x11, 1, 0, 0x78));
    await expect.poll(() => peer.received.some((frame) => frame[0] === 0x15)).toBe(true);
    // Acknowledge, so that the session can end.
    peer.send(Uint8Array.of(0x18, 1));
    const { payload: close } = await peer.control('CLOSE');
    expect(close.reason).toBe('SERVER_SHUTDOWN');
    peer.send(
      encodeControl({
        type: 'CLOSE',
        sessionId: peer.sessionId,
        timestamp: 1,
        payload: { reason: 'NORMAL', message: '' },
      }),
    );
    expect((await peer.closed).code).toBe(1000);
    await drained;
  });

  it('closes what is left at the deadline, and reports lost streams', async () => {
    const { server, session, stream } = await setUp();
    const states = statesOf(session);
    const reset = new Promise((resolve) => session.on('reset', resolve));
    const drained = server.drain({ timeoutMs: 100, returnWithinMs: 100 });
    await expect(stream.next()).rejects.toMatchObject({ code: 'session_lost', side: 'remote' });
    expect(await reset).toMatchObject({ reason: expect.stringMatching(/shut down/) });
    expect(await drained).toEqual({ ended: 0, interrupted: 1, lost: 0 });
    expect(states.slice(0, 2)).toEqual(['closing', 'connecting']);
  });

  it('ends sessions without a connection at the deadline, which report session_lost', async () => {
    const { server, proxy, session, stream } = await setUp();
    const port = Number(new URL((await peers.serve()).url).port);
    const lost = new Promise<ProtocolError>((resolve) => session.on('error', resolve));
    proxy.refuse(true);
    proxy.cut();
    await expect.poll(() => [...server.sessions.values()].map(({ state }) => state)).toEqual(['suspended']);
    expect(await server.drain({ timeoutMs: 50 })).toEqual({ ended: 0, interrupted: 0, lost: 1 });
    // A server that does not know the session takes its place.
    proxy.redirect(port);
    proxy.refuse(false);
    expect(await lost).toMatchObject({ code: 'session_lost' });
    await expect(stream.next()).rejects.toMatchObject({ code: 'session_lost' });
    await expect.poll(() => session.state).toBe('established');
  });

  it('does not wait for clients that are gone, and says what they have lost', async () => {
    const { server, port } = await peers.serve({
      onRequest: async (_request, { signal }) => {
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        return '';
      },
    });
    const proxy = peers.use(await createCuttingProxy(port));
    const url = `ws://127.0.0.1:${proxy.port}/session`;
    await peers.dial(url, EAGER);
    const busy = await peers.dial(url, EAGER);
    busy.request('').catch(() => {});
    await expect.poll(() => server.sessions.get(busy.id)?.stats().received.messages).toBe(1);
    proxy.refuse(true);
    proxy.cut();
    const drained = server.drain({ timeoutMs: 600_000 });
    expect(await drained).toEqual({ ended: 1, interrupted: 0, lost: 1 });
    expect(server.sessions.size).toBe(0);
    proxy.refuse(false);
  });

  it('drains only once, and refuses invalid options', async () => {
    const { server } = await peers.serve();
    expect(() => server.drain({ timeoutMs: -1 })).toThrow(
      expect.objectContaining({ code: 'invalid_option' }),
    );
    expect(() => server.drain({ returnWithinMs: Number.NaN })).toThrow(
      expect.objectContaining({ code: 'invalid_option' }),
    );
    const first = server.drain();
    expect(server.drain()).toBe(first);
    expect(await first).toEqual({ ended: 0, interrupted: 0, lost: 0 });
    await server.close();
  });

  it('is left at once by an idle client that does not reconnect', async () => {
    const { server, url } = await peers.serve({ limits: UNLIMITED });
    const session = await peers.dial(url, { reconnect: false });
    const reading = session[Symbol.asyncIterator]().next();
    expect(await server.drain({ timeoutMs: 30_000 })).toEqual({ ended: 1, interrupted: 0, lost: 0 });
    expect(await reading).toMatchObject({ done: true });
    await expect.poll(() => session.state).toBe('closed');
    expect(await failure(session.send('x'))).toMatchObject({ code: 'session_closed' });
  });

  it('is left for good by a client that closes', async () => {
    const { server, url } = await peers.serve({ limits: UNLIMITED });
    const session = await peers.dial(url, EAGER);
    await server.drain();
    await session.close();
    expect(await failure(session.send('x'))).toMatchObject({ code: 'session_closed' });
    expect(await failure(session.request('x'))).toMatchObject({ code: 'session_closed' });
  });

  it('lets a client that does not reconnect read its reply to the end', async () => {
    const { server, session, stream, release } = await setUp({ reconnect: false });
    const drained = server.drain({ timeoutMs: 30_000 });
    await expect.poll(() => goAwayOf(session)).toBeDefined();
    release();
    expect(await stream.next()).toMatchObject({ value: { text: 'done' } });
    expect(await stream.next()).toMatchObject({ done: true });
    expect(await drained).toEqual({ ended: 1, interrupted: 0, lost: 0 });
  });

  it('is replaced by a server that gets what clients send before and after they reconnect', async () => {
    const heard: string[] = [];
    const serverOptions: ServerOptions = {
      limits: UNLIMITED,
      onRequest: (request) => `answered ${request.text}`,
      async onSession(session) {
        for await (const { text } of session) heard.push(text);
      },
    };
    const { server: old, url, port } = await peers.serve(serverOptions);
    const session = await peers.dial(url, EAGER);
    const begun = new Promise<string>((resolve) => {
      session.on('state', (state) => {
        if (state !== 'established') return;
        void session.send('after');
        resolve(session.request('at once').then(({ text }) => text));
      });
    });
    const isBetween = untilState(session, 'connecting');
    await old.drain({ timeoutMs: 50_000, returnWithinMs: 50, releasePort: true });
    await isBetween;
    expect(session.state).toBe('connecting');
    const sent = session.send('before');
    await peers.use(createServer(serverOptions)).listen({ port });
    expect(await begun).toBe('answered at once');
    await sent;
    await expect.poll(() => heard).toEqual(['before', 'after']);
  });
});
