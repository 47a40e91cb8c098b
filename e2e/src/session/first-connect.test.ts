import { createServer as createHttpServer, type Server as HttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type ClientOptions, connect } from '@parlance/client';
import { createServer } from '@parlance/server';
import { afterEach, describe, expect, it, vi } from 'vitest';
import WebSocket, { WebSocketServer } from 'ws';
import { freePort } from '../kit/cli-process.js';

/** The first connection of a client: to a server that is not there yet, and to one that is something else. */

const open: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
  vi.unstubAllGlobals();
});

async function failure(promise: Promise<unknown>): Promise<unknown> {
  return await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
}

/** A WebSocket server of another kind. */
async function strange(onConnection: (socket: WebSocket) => void, options = {}): Promise<string> {
  const server = new WebSocketServer({ port: 0, ...options });
  server.on('connection', onConnection);
  await new Promise((resolve) => server.once('listening', resolve));
  open.push(() => {
    for (const client of server.clients) client.terminate();
    server.close();
  });
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}/chat?key=secret`;
}

/** A connection that opens at once, and says nothing. */
class SilentSocket extends EventTarget {
  binaryType = '';
  constructor() {
    super();
    queueMicrotask(() => this.dispatchEvent(new Event('open')));
  }
  send() {}
  close() {
    this.dispatchEvent(Object.assign(new Event('close'), { code: 1000 }));
  }
}
const Silent = SilentSocket as unknown as NonNullable<ClientOptions['WebSocket']>;

const NATIVE: unknown = Reflect.get(globalThis, 'WebSocket');

describe('a server of another kind', () => {
  it.each<[string, (socket: WebSocket) => void, string]>([
    ['echoes', (socket) => socket.on('message', (data) => socket.send(data)), 'sends back what it is sent'],
    [
      'is that of socket.io',
      (socket) => socket.send('0{"sid":"x","upgrades":[],"pingInterval":25000}'),
      'it looks like a socket.io server: it said "0{',
    ],
    [
      'speaks GraphQL',
      (socket) => socket.on('message', () => socket.send('{"type":"connection_error","payload":{}}')),
      'it looks like a GraphQL server',
    ],
    [
      'is that of Vite',
      (socket) => socket.send('{"type":"connected"}'),
      'it looks like a development server such as Vite',
    ],
    ['sends text', (socket) => socket.send(`hello ${'x'.repeat(100)}`), `it said "hello ${'x'.repeat(42)}"`],
    ['sends bytes', (socket) => socket.send(Buffer.alloc(10_000, 7)), 'it sent 10000 bytes'],
    [
      'closes with a reason of its own',
      (socket) => socket.on('message', () => socket.close(4406, 'Subprotocol not acceptable')),
      'closed with code 4406: Subprotocol not acceptable',
    ],
    [
      'closes with a code of WebSocket',
      (socket) => socket.close(1011, 'oops'),
      'closed with code 1011: oops',
    ],
    ['ends in order', (socket) => socket.close(1000), 'closed with code 1000'],
    ['cuts the connection', (socket) => socket.terminate(), 'closed with code 1006'],
  ])('that %s is named with its URL', async (_what, answer, guess) => {
    const url = await strange(answer);
    const error = (await failure(connect(url, { WebSocket }))) as Error;
    expect(error.message).toContain(`cannot connect to ${url.split('?')[0]}: `);
    expect(error.message).toContain('not a Parlance session server');
    expect(error.message).toContain(guess);
    expect(error.message).not.toContain('secret');
    expect(error).toMatchObject({ name: 'ProtocolError', cause: { name: 'ProtocolError' } });
  });

  it('that says nothing is named after 5 s, or after the time that the client states', async () => {
    const url = await strange(() => {});
    const begun = performance.now();
    const [long, short] = await Promise.all([
      failure(connect(url, { WebSocket })),
      // The time holds for opening the connection as well, and a busy machine takes longer than that for a real one.
      failure(connect(url, { WebSocket: Silent, timers: { acceptTimeoutMs: 100 } })),
    ]);
    expect(performance.now() - begun).toBeGreaterThan(4_900);
    expect(long).toMatchObject({ code: 'timeout' });
    expect((long as Error).message).toMatch(/session server.*: it says nothing$/);
    expect(short).toMatchObject({ code: 'timeout' });
  });

  it.each([
    ['waitForServer', { waitForServer: true }],
    ['connectWithinMs', { reconnect: { connectWithinMs: 60_000 } }],
  ] as const)('that says nothing at first is tried again by %s', async (_name, options) => {
    const server = createServer();
    const { url } = await server.listen();
    open.push(() => server.close());
    let dials = 0;
    const First = new Proxy(WebSocket, {
      construct: (target, given) => Reflect.construct(dials++ === 0 ? SilentSocket : target, given),
    });
    const timers = { acceptTimeoutMs: 2_000 };
    const session = await connect(url, { WebSocket: First, timers, ...options });
    open.push(() => session.close());
    expect(dials).toBeGreaterThan(1);
    expect(session.state).toBe('established');
  });

  it('that accepts the connection and no upgrade is named after 5 s as well', async () => {
    const http: HttpServer = createHttpServer();
    http.on('upgrade', (_request, socket) => open.push(() => socket.destroy()));
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    open.push(() => http.close());
    const url = `ws://127.0.0.1:${(http.address() as AddressInfo).port}/session`;
    const error = (await failure(connect(url, { WebSocket }))) as Error;
    expect(error).toMatchObject({ code: 'connection_failed' });
    expect(error.message).toContain(`cannot connect to ${url}: no answer within 5000 ms`);
  });

  it.each([
    ['ws', WebSocket],
    ['the WebSocket of the runtime', NATIVE],
  ])('that has no such subprotocol is named, with %s', async (_what, Constructor) => {
    if (Constructor === undefined) return;
    const url = await strange(() => {}, { handleProtocols: () => false });
    const error = (await failure(connect(url, { WebSocket: Constructor as typeof WebSocket }))) as Error;
    expect(error).toMatchObject({ code: 'connection_failed' });
    expect(error.message).toContain(`cannot connect to ${url.split('?')[0]}: `);
    if (Constructor === WebSocket) expect(error.message).toContain('not a Parlance session server');
  });
});

it('an error of a WebSocket that never closes ends the attempt', async () => {
  // As on Node 22.
  class Unclosed extends EventTarget {
    binaryType = '';
    constructor() {
      super();
      queueMicrotask(() => this.dispatchEvent(Object.assign(new Event('error'), { message: 'non-101' })));
    }
    send() {}
    close() {}
  }
  const WebSocket = Unclosed as unknown as NonNullable<ClientOptions['WebSocket']>;
  expect(await failure(connect('ws://127.0.0.1:1/session', { WebSocket }))).toMatchObject({
    code: 'connection_failed',
    message: expect.stringContaining('cannot connect to ws://127.0.0.1:1/session: '),
  });
});

describe('a session server', () => {
  it('that takes long to authenticate says so, and is waited for', async () => {
    const server = createServer({
      authenticate: async () => {
        await new Promise((resolve) => setTimeout(resolve, 6_500));
        return { principal: 'ann' };
      },
    });
    open.push(() => server.close());
    const { url } = await server.listen();
    const lines: unknown[] = [];
    const log = (fields: object) => void lines.push(fields);
    const logger = { debug: log, info: log, warn: log, error: log };
    const subprotocols = ['m2m.v1', 'm2m.v1.json'] as const;
    const sessions = await Promise.all(
      subprotocols.map((subprotocol) => connect(url, { WebSocket, subprotocol, logger })),
    );
    expect(sessions.map(({ state }) => state)).toEqual(['established', 'established']);
    expect(lines).not.toContainEqual(expect.objectContaining({ event: 'session.warning' }));
    for (const session of sessions) await session.close();
  });

  it('that refuses keeps its own error', async () => {
    const server = createServer({ authenticate: () => null });
    open.push(() => server.close());
    const { url } = await server.listen();
    expect(await failure(connect(url, { WebSocket }))).toMatchObject({ code: 'rejected', closeCode: 4401 });
  });
});

describe('a client that starts before its server', () => {
  async function startLate(port: number, afterMs: number) {
    await new Promise((resolve) => setTimeout(resolve, afterMs));
    const server = createServer({ onRequest: () => 'here' });
    await server.listen({ port });
    open.push(() => server.close());
  }

  it('connects when that listens, if it may try for so long', async () => {
    const port = Number(await freePort());
    const reconnect = { minDelayMs: 5, maxDelayMs: 50, connectWithinMs: 30_000 };
    const connecting = connect(`ws://127.0.0.1:${port}/session`, { WebSocket, reconnect });
    await startLate(port, 300);
    const session = await connecting;
    expect((await session.request('')).text).toBe('here');
    expect(session.state).toBe('established');
    await session.close();
  });

  it('connects when that listens, with `waitForServer`', async () => {
    const port = Number(await freePort());
    const connecting = connect(`ws://127.0.0.1:${port}`, { waitForServer: true });
    await startLate(port, 300);
    const session = await connecting;
    expect((await session.request('')).text).toBe('here');
    await session.close();
  });

  it('waits as long as it is told to, and not without an end', async () => {
    const url = `ws://127.0.0.1:${Number(await freePort())}`;
    const reconnect = { minDelayMs: 5, connectWithinMs: 50 };
    expect(await failure(connect(url, { waitForServer: true, reconnect }))).toMatchObject({
      code: 'connection_failed',
    });
    expect(await failure(connect(url, { waitForServer: true, reconnect: false }))).toMatchObject({
      code: 'invalid_option',
    });
    // A refusal that does not pass.
    const server = createServer({ authenticate: () => null });
    open.push(() => server.close());
    expect(await failure(connect((await server.listen()).url, { waitForServer: true }))).toMatchObject({
      code: 'rejected',
    });
  });

  it('connects after refusals that pass, with the token of each attempt', async () => {
    let calls = 0;
    const server = createServer({
      onRequest: () => 'here',
      authenticate: ({ token }) => {
        if (++calls < 3) throw new Error('the database is down');
        return { principal: token ?? '' };
      },
      onError: () => {},
    });
    open.push(() => server.close());
    const { url } = await server.listen();
    let tokens = 0;
    const session = await connect(url, {
      WebSocket,
      token: () => `t${++tokens}`,
      reconnect: { minDelayMs: 5, maxDelayMs: 20, connectWithinMs: 30_000 },
    });
    expect([calls, tokens, [...server.sessions.values()].map(({ principal }) => principal)]).toEqual([
      3,
      3,
      ['t3'],
    ]);
    await session.close();
  });

  it('fails at once by default on Node, and after its time otherwise, with the error of the last attempt', async () => {
    const url = `ws://127.0.0.1:${Number(await freePort())}/session`;
    const dials: string[] = [];
    const Counting = class extends WebSocket {
      constructor(target: string, protocols: string[]) {
        super(target, protocols);
        dials.push(target);
      }
    } as typeof WebSocket;
    const reconnect = { minDelayMs: 5, maxDelayMs: 20 };
    const failed = { code: 'connection_failed', retryable: true };
    expect(await failure(connect(url, { WebSocket: Counting, reconnect }))).toMatchObject(failed);
    expect(dials).toHaveLength(1);
    const within = { ...reconnect, connectWithinMs: 300 };
    expect(await failure(connect(url, { WebSocket: Counting, reconnect: within }))).toMatchObject(failed);
    expect(dials.length).toBeGreaterThan(3);
  });

  it('tries again by default in a page', async () => {
    const port = Number(await freePort());
    vi.stubGlobal('document', Object.assign(new EventTarget(), { visibilityState: 'visible' }));
    const connecting = connect(`ws://127.0.0.1:${port}/session`, { WebSocket });
    await startLate(port, 300);
    const session = await connecting;
    expect(session.state).toBe('established');
    await session.close();
  });

  it('stops when its signal aborts, during an attempt and between two', async () => {
    const url = `ws://127.0.0.1:${Number(await freePort())}/session`;
    for (const maxDelayMs of [5, 60_000]) {
      const aborting = new AbortController();
      const reconnect = { minDelayMs: maxDelayMs, maxDelayMs, connectWithinMs: 60_000 };
      const connecting = connect(url, { WebSocket, reconnect, signal: aborting.signal });
      setTimeout(() => aborting.abort(new Error('enough')), 100);
      await expect(connecting).rejects.toThrow('enough');
    }
  });

  it('stops when its signal aborts before its token is there, and opens nothing', async () => {
    const aborting = new AbortController();
    let answer = (_token: string): void => {};
    const token = new Promise<string>((resolve) => {
      answer = resolve;
    });
    let dials = 0;
    const Counting = class extends WebSocket {
      constructor(target: string, protocols: string[]) {
        super(target, protocols);
        dials++;
      }
    } as typeof WebSocket;
    const url = `ws://127.0.0.1:${Number(await freePort())}/session`;
    let isAsked = false;
    const asked = () => {
      isAsked = true;
      return token;
    };
    const connecting = failure(connect(url, { WebSocket: Counting, token: asked, signal: aborting.signal }));
    await expect.poll(() => isAsked).toBe(true);
    aborting.abort(new Error('enough'));
    expect(await connecting).toMatchObject({ message: 'enough' });
    answer('late');
    await new Promise(setImmediate);
    expect(dials).toBe(0);
  });

  it('does not try again for what will not pass', async () => {
    const server = createServer({ authenticate: () => null });
    open.push(() => server.close());
    const { url } = await server.listen();
    const reconnect = { connectWithinMs: 60_000 };
    expect(await failure(connect(url, { WebSocket, reconnect }))).toMatchObject({ code: 'rejected' });
  });
});

describe('a token function that never answers', () => {
  const never = () => new Promise<never>(() => {});
  /** The errors that the application is told of, and how long the client tried. */
  async function told(options: ClientOptions) {
    const errors: unknown[] = [];
    const begun = performance.now();
    const error = await failure(
      connect('ws://127.0.0.1:1/session', {
        WebSocket,
        token: never,
        onError: (_error, { event }) => errors.push(event),
        ...options,
      }),
    );
    return { error, errors, ms: performance.now() - begun };
  }

  it.each<[string, ClientOptions]>([
    ['acceptTimeoutMs', { timers: { acceptTimeoutMs: 50 } }],
    ['connectWithinMs', { reconnect: { connectWithinMs: 600 } }],
    [
      'connectWithinMs, with several calls in it',
      { reconnect: { connectWithinMs: 600 }, timers: { acceptTimeoutMs: 50 } },
    ],
    ['acceptTimeoutMs, with no attempt but the first', { reconnect: false, timers: { acceptTimeoutMs: 50 } }],
  ])('fails connect within %s', async (_bound, options) => {
    const { error, errors } = await told(options);
    expect(error).toMatchObject({ code: 'connection_failed', cause: { code: 'timeout' } });
    expect(errors[0]).toBe('token.failed');
  });

  it('is called again while connect tries', async () => {
    const server = createServer({ authenticate: ({ token }) => ({ principal: token ?? '' }) });
    open.push(() => server.close({ sessions: 'end' }));
    const { url } = await server.listen();
    let calls = 0;
    const token = async () => (++calls === 1 ? await never() : 'ann');
    const timers = { acceptTimeoutMs: 100 };
    const session = await connect(url, { WebSocket, token, timers, waitForServer: true, onError: () => {} });
    expect([...server.sessions.values()].map(({ principal }) => principal)).toEqual(['ann']);
    await session.close();
  });

  it('ends with the signal at once, and leaves nothing that waits', async () => {
    const signal = AbortSignal.timeout(20);
    const { error, errors } = await told({ signal });
    expect([error, errors]).toEqual([signal.reason, []]);
  });
});
