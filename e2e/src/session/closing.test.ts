import { setTimeout as pause } from 'node:timers/promises';
import { connect } from '@parlance/client';
import type { ServerOptions, ServerSession } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { cutSession } from '../kit/cut-session.js';
import { createPeers, helloBytes, openRaw } from '../kit/peers.js';

/** Sessions that an application closes with a code and a reason, over real sockets. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

const setUp = (options: ServerOptions = {}, client?: Parameters<typeof connect>[1]) =>
  cutSession(peers, { onRequest: () => 'here', ...options }, client);

describe('a session that its server closes with a code', () => {
  it.each(['m2m.v1', 'm2m.v1.json'] as const)(
    'tells its client in %s, which does not come back',
    async (subprotocol) => {
      const { proxy, session, served, states } = await setUp({}, { subprotocol });
      const read: string[] = [];
      const reading = (async () => {
        for await (const message of session) read.push(message.text);
      })();
      await served.send('last words');
      expect(await served.close({ code: 'kicked', reason: 'spam' })).toEqual({ unacknowledged: 0 });
      const said = { code: 'kicked', reason: 'spam', error: undefined };
      expect(await session.closed).toEqual({ ...said, side: 'remote' });
      expect(await served.closed).toEqual({ ...said, side: 'local' });
      await reading;
      expect(read).toEqual(['last words']);
      const { opened } = proxy;
      await pause(200);
      expect([states.at(-1), proxy.opened]).toEqual(['closed', opened]);
      await expect(session.request('')).rejects.toMatchObject({ code: 'session_closed' });
    },
  );

  it('does not come back either if the server drains', async () => {
    const { server, proxy, session, served } = await setUp({
      onRequest: async (_request, { signal }) => {
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        return 'late';
      },
    });
    const asked = session.request('').catch((error: unknown) => error);
    await expect.poll(() => served.stats().received.messages).toBe(1);
    const drained = server.drain({ timeoutMs: 10_000, returnWithinMs: 0 });
    await pause(50);
    await served.close({ code: 'kicked' });
    expect(await session.closed).toMatchObject({ code: 'kicked', side: 'remote', error: undefined });
    const { opened } = proxy;
    expect(await asked).toMatchObject({ code: 'session_closed' });
    expect(await drained).toEqual({ ended: 1, interrupted: 0, lost: 0 });
    await pause(200);
    expect([session.state, proxy.opened]).toEqual(['closed', opened]);
  });

  it('tells a client that comes back while it closes', async () => {
    const { proxy, session, served } = await setUp();
    proxy.refuse(true);
    proxy.cut();
    await expect.poll(() => served.state).toBe('suspended');
    const closing = served.close({ code: 'kicked' });
    proxy.refuse(false);
    expect(await closing).toEqual({ unacknowledged: 0 });
    expect(await session.closed).toMatchObject({ code: 'kicked', side: 'remote' });
  });

  it('says so although the server closes at the same time', async () => {
    const { server, session, served } = await setUp();
    const closing = served.close({ code: 'kicked', reason: 'spam' });
    await server.close();
    await closing;
    expect(await session.closed).toMatchObject({ code: 'kicked', reason: 'spam' });
  });
});

it('closes in time although its last message, which took long to code, waits for room at a peer that reads nothing', async () => {
  const { url } = await peers.serve({ onSession: () => new Promise(() => {}) });
  const session = await peers.dial(url, { timers: { closingTimeoutMs: 300 } });
  // No loop reads, so the server gives no credit for more than its window.
  for (let i = 0; i < 40; i++) void session.send(new Uint8Array(256 * 1024)).catch(() => {});
  let isSent = false;
  session.send(new Blob([new Uint8Array(256 * 1024)])).then(
    () => {
      isSent = true;
    },
    () => {},
  );
  await pause(100);
  expect(isSent).toBe(false);
  const closed = await Promise.race([session.close(), pause(3_000, 'still open')]);
  expect(closed).toMatchObject({ unacknowledged: expect.any(Number) });
  expect(session.state).toBe('closed');
});

describe.each(['websocket', 'http'] as const)(
  'a session over %s, with a reply of which nobody reads',
  (transport) => {
    it.each([
      ['client', 'client'],
      ['client', 'server'],
      ['server', 'client'],
      ['server', 'server'],
    ])('of a request of its %s, ends before its time is over if its %s closes', async (asker, closer) => {
      const options = {
        async *onRequest() {
          for (;;) yield 'x'.repeat(1_000);
        },
        timers: { closingTimeoutMs: 2_000 },
      };
      const { server, url } = await peers.serve({ onSession: () => {}, ...options });
      const session = await peers.dial(url, { ...options, transports: [transport], WebSocket: undefined });
      const served = server.sessions.get(session.id) as ServerSession;
      const [asking, answering] = asker === 'client' ? [session, served] : [served, session];
      const reply = asking.stream('')[Symbol.asyncIterator]();
      await reply.next();
      await expect.poll(() => answering.stats().blockedOnCredit).toBe(true);
      const { unacknowledged } = await (closer === 'client' ? session : served).close({ code: 'enough' });
      // The end that has dropped parts says so.
      expect(unacknowledged === 0).toBe(closer === asker);
      const reading = (async () => {
        while ((await reply.next()).done !== true);
      })();
      await expect(reading).rejects.toMatchObject({ code: 'session_closed' });
      const ended = { code: 'enough', error: undefined };
      expect([await session.closed, await served.closed]).toMatchObject([ended, ended]);
    });
  },
);

it('closes a connection whose HELLO is not answered yet with 4503, so that its client keeps its session', async () => {
  let asked = 0;
  const { server, url } = await peers.serve({
    authenticate: async () => {
      asked++;
      return await new Promise<never>(() => {});
    },
  });
  const { closed, send } = await openRaw(url);
  send(helloBytes());
  await expect.poll(() => asked).toBe(1);
  await server.close();
  expect(await closed).toEqual({ code: 4503, reason: 'draining: the server closes' });
});

describe('a session that its client closes', () => {
  it('tells its server the code, and both ends without one who has closed it', async () => {
    const one = await setUp();
    await one.session.close({ code: 'signed_out' });
    expect(await one.served.closed).toMatchObject({ code: 'signed_out', reason: '', side: 'remote' });
    const two = await setUp();
    await two.session.close();
    expect(await two.session.closed).toEqual({
      code: undefined,
      reason: '',
      side: 'local',
      error: undefined,
    });
    expect(await two.served.closed).toMatchObject({ code: undefined, side: 'remote' });
    expect(await two.session.closed).toBe(await two.session.closed);
  });

  it.each([
    ['a code with other characters', { code: 'Kicked' }],
    ['an empty code', { code: '' }],
    ['a code of 65 characters', { code: 'k'.repeat(65) }],
    ['a reason of 1,025 characters', { reason: 'r'.repeat(1_025) }],
    ['an option that there is not', { cod: 'kicked' }],
  ])('refuses %s, and stays', async (_what, options) => {
    const { session } = await setUp();
    await expect(session.close(options as never)).rejects.toMatchObject({ code: 'invalid_option' });
    expect(session.state).toBe('established');
    expect((await session.request('')).text).toBe('here');
  });

  it('may say 64 and 1,024 characters', async () => {
    const { session, served } = await setUp();
    const said = { code: 'k'.repeat(64), reason: '\u20ac'.repeat(1_024) };
    await session.close(said);
    expect(await served.closed).toMatchObject(said);
  });
});

describe('a session that is lost', () => {
  it('is over with its error for a client that does not connect again, and not for another', async () => {
    const { server, proxy, session, served } = await setUp({ timers: { resumeWindowMs: 200 } });
    const once = await connect(`ws://127.0.0.1:${proxy.port}/session`, { WebSocket, reconnect: false });
    let isOver = false;
    void session.closed.then(() => {
      isOver = true;
    });
    proxy.refuse(true);
    proxy.cut();
    const { error, ...end } = await once.closed;
    expect(end).toEqual({ code: undefined, reason: error?.message, side: 'remote' });
    expect(error?.code).toBe('session_lost');
    const lost = await served.closed;
    expect(lost).toMatchObject({ code: undefined, side: 'local', error: { code: 'session_lost' } });
    proxy.refuse(false);
    await expect.poll(() => [session.state, server.sessions.size]).toEqual(['established', 1]);
    expect(isOver).toBe(false);
  });
});
