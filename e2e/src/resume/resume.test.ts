import { setTimeout as pause } from 'node:timers/promises';
import { connect } from '@parlance/client';
import { tap } from '@parlance/client/inspect';
import { CloseCode, ProtocolError } from '@parlance/protocol';
import type { ServerOptions } from '@parlance/server';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import WebSocket from 'ws';
import { cutSession } from '../kit/cut-session.js';
import { clientEndpoint, serverEndpoint } from '../kit/endpoints.js';
import { createPeers, greet, helloBytes, openRaw } from '../kit/peers.js';

/** Sessions that outlive their connections, over real sockets through a proxy that cuts them. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

const setUp = (options?: ServerOptions, client?: Parameters<typeof connect>[1]) =>
  cutSession(peers, options, client);

/** The parts of a browser from which the client learns that the network is back. */
const window = new EventTarget();
beforeEach(() => {
  vi.stubGlobal('window', window);
  vi.stubGlobal('document', Object.assign(new EventTarget(), { visibilityState: 'visible' }));
});
afterEach(() => {
  vi.unstubAllGlobals();
});

describe('a lost connection', () => {
  it('loses, duplicates and reorders no message in either direction', async () => {
    const heard: number[] = [];
    const { proxy, session, server } = await setUp({
      onSession: async (other) => {
        const speak = (async () => {
          for (let i = 0; i < 400; i++) {
            await other.send(String(i));
            if (i % 4 === 0) await pause(1);
          }
        })();
        for await (const message of other) heard.push(Number(message.text));
        await speak;
      },
    });
    const { id } = session;
    const got: number[] = [];
    const reading = (async () => {
      for await (const message of session) if (got.push(Number(message.text)) === 400) return;
    })();
    for (let i = 0; i < 400; i++) {
      await session.send(String(i));
      if (i % 4 === 0) await pause(1);
      if (i % 80 === 40) proxy.cut();
      if (i % 80 === 79) proxy.cutAfter(7);
    }
    await reading;
    await expect.poll(() => heard.length).toBe(400);
    const inOrder = Array.from({ length: 400 }, (_, i) => i);
    expect(got).toEqual(inOrder);
    expect(heard).toEqual(inOrder);
    expect(session.id).toBe(id);
    expect(server.sessions.size).toBe(1);
    expect(proxy.opened).toBeGreaterThan(3);
  });

  it('stops no handler, and its stream continues where it was', async () => {
    let wasAborted = false;
    const { proxy, session, states } = await setUp({
      async *onRequest(_request, { signal }) {
        signal.addEventListener('abort', () => {
          wasAborted = true;
        });
        for (let i = 0; i < 60; i++) {
          yield `${i} `;
          await pause(3);
        }
      },
    });
    let text = '';
    let parts = 0;
    for await (const part of session.stream('count')) {
      text += part.text;
      if (++parts === 15 || parts === 40) proxy.cut();
    }
    expect(text).toBe(Array.from({ length: 60 }, (_, i) => `${i} `).join(''));
    expect(wasAborted).toBe(false);
    expect(states.filter((state) => state === 'suspended').length).toBeGreaterThanOrEqual(2);
  });

  it('keeps what is sent meanwhile', async () => {
    const { proxy, session } = await setUp({ onRequest: (request) => request.text.toUpperCase() });
    proxy.refuse(true);
    proxy.cut();
    await expect.poll(() => session.state).toBe('suspended');
    const reply = session.request('while offline');
    await pause(50);
    proxy.refuse(false);
    expect((await reply).text).toBe('WHILE OFFLINE');
    expect(session.state).toBe('established');
  });

  it('cancels the handlers of a session whose window has ended, and reports it at both ends', async () => {
    let aborted: unknown;
    const { server, proxy, session } = await setUp(
      {
        timers: { resumeWindowMs: 100 },
        async *onRequest(_request, { signal }) {
          signal.addEventListener('abort', () => {
            aborted = signal.reason;
          });
          yield 'begun';
          await new Promise(() => {});
        },
        onSession: async (other) => {
          for await (const message of other) await other.send(message.bytes);
        },
      },
      {},
    );
    const { id } = session;
    const resets: unknown[] = [];
    session.on('reset', (reset) => resets.push(reset));
    const stream = session.stream('x')[Symbol.asyncIterator]();
    expect((await stream.next()).value?.text).toBe('begun');
    const reading = session[Symbol.asyncIterator]().next();
    proxy.refuse(true);
    proxy.cut();
    await expect.poll(() => session.state).toBe('suspended');
    await session.send('never delivered');
    await expect(stream.next()).rejects.toMatchObject({ code: 'session_lost' });
    await expect.poll(() => server.sessions.size).toBe(0);
    expect(aborted).toMatchObject({ code: 'session_lost' });
    // Whether the acknowledgement of the request arrived in time is random.
    expect(resets).toEqual([
      {
        code: 'session_lost',
        reason: expect.any(String),
        notSent: [{ kind: 'message', streamId: 0 }],
        unknown: expect.toSatisfy((list: { kind: string }[]) => list.every(({ kind }) => kind === 'request')),
      },
    ]);

    // The same object continues with a new session, to which nothing was moved, and so does its reader.
    proxy.refuse(false);
    await expect.poll(() => session.state).toBe('established');
    expect(session.id).not.toBe(id);
    await session.send('hello again');
    expect((await reading).value?.text).toBe('hello again');
  });

  it('to a server that no longer knows the session begins a new one, and reports it', async () => {
    const { server, proxy, session } = await setUp({ onRequest: () => 'ok' });
    const { id } = session;
    const [known] = [...server.sessions.values()];
    proxy.refuse(true);
    proxy.cut();
    await expect.poll(() => session.state).toBe('suspended');
    // The server forgets the session, as after a restart.
    serverEndpoint(known).abort(new ProtocolError('internal', 'gone'));
    const pending = session.request('lost').catch((error: ProtocolError) => error.code);
    proxy.refuse(false);
    expect(await pending).toBe('session_lost');
    await expect.poll(() => session.state).toBe('established');
    expect(session.id).not.toBe(id);
    expect((await session.request('again')).text).toBe('ok');
  });

  it('is replaced while a session closes, which then delivers everything', async () => {
    const heard: string[] = [];
    const { server, proxy, session } = await setUp(
      {
        onSession: async (other) => {
          for await (const message of other) heard.push(message.text);
        },
      },
      { reconnect: { minDelayMs: 60_000, maxDelayMs: 60_000 } },
    );
    proxy.cut();
    await expect.poll(() => session.state).toBe('suspended');
    await session.send('last words');
    expect(await session.close()).toEqual({ unacknowledged: 0 });
    expect(heard).toEqual(['last words']);
    await expect.poll(() => server.sessions.size).toBe(0);
  });

  it('that is never replaced lets a session close in time, with a count of what is unconfirmed', async () => {
    const { proxy, session } = await setUp({ onSession() {} }, { timers: { closingTimeoutMs: 100 } });
    proxy.refuse(true);
    proxy.cut();
    await expect.poll(() => session.state).toBe('suspended');
    const resets: unknown[] = [];
    session.on('reset', (reset) => resets.push(reset));
    await session.send('one');
    await session.send('two');
    expect(await session.close()).toEqual({ unacknowledged: 2 });
    expect(resets).toEqual([expect.objectContaining({ notSent: [expect.anything(), expect.anything()] })]);
    expect(session.state).toBe('closed');
  });

  it('is replaced by the next connection if an attempt hangs', async () => {
    const { proxy, session } = await setUp({}, { timers: { acceptTimeoutMs: 1_000 } });
    proxy.swallow(true);
    proxy.cut();
    await expect.poll(() => proxy.opened).toBe(2);
    proxy.swallow(false);
    await expect.poll(() => session.state).toBe('established');
    expect(proxy.opened).toBeGreaterThan(2);
    proxy.swallow(true);
    const dialing = connect(`ws://127.0.0.1:${proxy.port}/session`, {
      WebSocket,
      // A page would try again for 15 s.
      reconnect: false,
      timers: { acceptTimeoutMs: 1_000 },
    });
    await expect(dialing).rejects.toMatchObject({ code: 'connection_failed' });
  });

  it('is replaced although the server answers later than an attempt may wait at first', async () => {
    let connections = 0;
    class Slow extends WebSocket {
      constructor(address: string, protocols: string[]) {
        super(address, protocols);
        if (connections++ === 0) return;
        const add = this.addEventListener.bind(this) as (
          type: string,
          listener: (event: unknown) => void,
        ) => void;
        const late = (type: string, listener: (event: unknown) => void) =>
          add(type, type === 'message' ? (event) => void setTimeout(() => listener(event), 1_200) : listener);
        Object.assign(this, { addEventListener: late });
      }
    }
    const { proxy, session, server } = await setUp({}, { WebSocket: Slow, timers: { acceptTimeoutMs: 500 } });
    proxy.cut();
    await expect.poll(() => session.state).toBe('suspended');
    await expect.poll(() => session.state).toBe('established');
    expect(connections).toBeGreaterThan(2);
    expect(server.sessions.size).toBe(1);
  });

  it('is not replaced any more once the session has ended', async () => {
    const sockets: WebSocket[] = [];
    class Watched extends WebSocket {
      constructor(address: string, protocols: string[]) {
        super(address, protocols);
        sockets.push(this);
      }
    }
    const { proxy, session } = await setUp({}, { WebSocket: Watched, timers: { closingTimeoutMs: 100 } });
    proxy.swallow(true);
    proxy.cut();
    await expect.poll(() => sockets.length).toBe(2);
    // The second connection never opens.
    await session.close();
    await expect
      .poll(() => sockets.map(({ readyState }) => readyState))
      .toEqual([WebSocket.CLOSED, WebSocket.CLOSED]);
    await pause(100);
    expect(sockets).toHaveLength(2);
  });

  it('does not delay a server that closes', async () => {
    const { server, proxy, session } = await setUp(
      { timers: { closingTimeoutMs: 600_000 } },
      { timers: { closingTimeoutMs: 100 } },
    );
    proxy.refuse(true);
    proxy.cut();
    await expect.poll(() => [...server.sessions.values()][0]?.state).toBe('suspended');
    await server.close();
    expect(server.sessions.size).toBe(0);
    expect(session.state).toBe('suspended');
  });

  it('is replaced at once when the network is back', async () => {
    const { proxy, session, states } = await setUp(
      {},
      { reconnect: { minDelayMs: 60_000, maxDelayMs: 60_000 } },
    );
    proxy.cut();
    await expect.poll(() => states).toEqual(['suspended']);
    window.dispatchEvent(new Event('online'));
    await expect.poll(() => session.state).toBe('established');
  });

  it('ends the session at once with reconnect: false', async () => {
    const { server, proxy, session } = await setUp({}, { reconnect: false });
    expect(session.negotiated.extensions['resume']).toBeUndefined();
    proxy.cut();
    await expect.poll(() => session.state).toBe('closed');
    await expect.poll(() => server.sessions.size).toBe(0);
  });
});

describe('resuming a session', () => {
  it('needs the right token, the same principal, and a newer attempt', async () => {
    const tokens = ['alice', 'alice', 'mallory'];
    const { server, session, proxy, states } = await setUp(
      { authenticate: ({ token }) => (token === undefined ? null : { principal: token }) },
      { token: () => tokens.shift() ?? 'mallory' },
    );
    const { id } = session;
    proxy.cut();
    await expect.poll(() => states.slice(0, 2)).toEqual(['suspended', 'established']);
    expect(session.id).toBe(id);
    // The next token belongs to another principal, for which there is no such session.
    proxy.cut();
    await expect.poll(() => session.id !== id && session.state === 'established').toBe(true);
    await expect.poll(() => server.sessions.get(id)?.state).toBe('suspended');
    expect(server.sessions.get(session.id)).toMatchObject({ principal: 'mallory' });
  });

  it('closes the connection that carried it before with 4409', async () => {
    const codes: (number | undefined)[] = [];
    const watched = tap(WebSocket, (event) => {
      if (event.event === 'connection' && event.what === 'closed') codes.push(event.code);
    });
    const { session, server } = await setUp({ onRequest: () => 'ok' }, { WebSocket: watched });
    const { id } = session;
    // The client considers its connection lost while the server does not.
    const client = clientEndpoint(session);
    const [carried] = [...server.sessions.values()];
    client.handleDisconnected(CloseCode.ABNORMAL, '');
    expect([session.state, carried?.state]).toEqual(['suspended', 'established']);
    await expect.poll(() => session.state).toBe('established');
    await expect.poll(() => codes).toEqual([CloseCode.TAKEN_OVER]);
    expect(session.id).toBe(id);
    expect((await session.request('x')).text).toBe('ok');
  });
});

it('a resumed session stays open when the time limit of the attempt is over', async () => {
  const { url } = await peers.serve({ timers: { acceptTimeoutMs: 200 } });
  const extensions = { link: '{}', resume: '{}' };
  const first = await greet(url, { extensions });
  first.socket.terminate();
  const token = first.resumeToken as string;
  const again = await openRaw(url);
  again.send(
    helloBytes({ extensions, resume: { sessionId: first.sessionId, token, received: 0, attempt: 1 } }),
  );
  expect((await again.control('ACCEPT')).payload.resume?.recovered).toBe(true);
  const isClosed = await Promise.race([again.closed.then(() => true), pause(1_500).then(() => false)]);
  expect(isClosed).toBe(false);
  again.socket.close();
});
