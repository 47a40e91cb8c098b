import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { connect, RequestError } from '@parlance/client';
import { createServer, type Logger, type ServerOptions } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { collect, freePort } from '../kit/cli-process.js';
import { createPeers, failure, helloBytes, openRaw } from '../kit/peers.js';

/**
 * Mistakes of people who were new to the library, of which they saw nothing or the wrong thing. Each of them now is an
 * error that names the mistake, is reported, or works.
 */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

function createLog(): Logger & { readonly lines: Readonly<Record<string, unknown>>[] } {
  const lines: Readonly<Record<string, unknown>>[] = [];
  const log = (fields: Readonly<Record<string, unknown>>) => void lines.push(fields);
  return { lines, debug: log, info: log, warn: log, error: log };
}

describe('a handler', () => {
  it('that throws is printed in full, without a logger and without an option', async () => {
    const thrown = new TypeError("Cannot read properties of undefined (reading 'sum')");
    const printed: unknown[][] = [];
    const { error } = console;
    console.error = (...what: unknown[]) => void printed.push(what);
    try {
      const server = peers.use(
        createServer({
          onRequest: () => {
            throw thrown;
          },
        }),
      );
      const { url } = await server.listen();
      const session = await peers.dial(url);
      expect(await failure(session.request('x'))).toMatchObject({ code: 'internal' });
    } finally {
      console.error = error;
    }
    expect(printed).toEqual([[expect.stringContaining('request.failed'), thrown]]);
  });

  it('that throws is told to onError of a server with a logger, whose lines have no content', async () => {
    const log = createLog();
    const errors: unknown[] = [];
    const { url } = await peers.serve({
      logger: log,
      onError: (error) => errors.push(error),
      onRequest: () => {
        throw new TypeError('canary');
      },
    });
    const session = await peers.dial(url);
    await failure(session.request('x'));
    expect(errors).toEqual([new TypeError('canary')]);
    expect(JSON.stringify(log.lines)).not.toContain('canary');
  });

  it.each<[string, ServerOptions['onRequest'], string]>([
    [
      'yields numbers',
      async function* () {
        yield 1;
        yield 2;
      },
      '12',
    ],
    ['returns an object', () => ({ sum: 3 }), '{"sum":3}'],
  ])('%s, which are sent as JSON', async (_what, onRequest, text) => {
    const { url } = await peers.serve({ onRequest });
    const session = await peers.dial(url);
    expect((await session.request('x')).text).toBe(text);
  });
});

describe('authenticate', () => {
  it.each<[string, () => unknown]>([
    ['returns true', () => true],
    ['throws', () => Promise.reject(new Error('db down'))],
  ])('that %s is a failure of the server, and not a wrong token', async (_what, authenticate) => {
    const events: unknown[] = [];
    const { url } = await peers.serve({
      authenticate: authenticate as never,
      onError: (_error, { event }) => void events.push(event),
    });
    expect(await failure(connect(url, { WebSocket, token: 'right' }))).toMatchObject({
      message: 'the server failed to check the credentials; its log says why',
    });
    expect(events).toEqual(['auth.failed']);
  });
});

describe('a body', () => {
  const floats = Float32Array.of(1, 2);
  it.each<[string, () => object, Uint8Array]>([
    ['an ArrayBuffer', () => Uint8Array.of(1, 2, 3).buffer, Uint8Array.of(1, 2, 3)],
    ['a DataView', () => new DataView(Uint8Array.of(1, 2, 3).buffer, 1), Uint8Array.of(2, 3)],
    ['a Float32Array', () => floats, new Uint8Array(floats.buffer)],
    ['a Blob', () => new Blob([Uint8Array.of(1, 2, 3)]), Uint8Array.of(1, 2, 3)],
  ])('that is %s arrives as its bytes', async (_what, create, bytes) => {
    const heard: Uint8Array[] = [];
    const { url } = await peers.serve({
      async onSession(session) {
        for await (const message of session) heard.push(message.bytes);
      },
      onRequest(request) {
        heard.push(request.bytes);
        return create();
      },
    });
    const session = await peers.dial(url);
    await session.send(create());
    await session.flush();
    await expect.poll(() => heard.length).toBe(1);
    expect(Uint8Array.from((await session.request(create())).bytes)).toEqual(bytes);
    expect(heard.map((each) => Uint8Array.from(each))).toEqual([bytes, bytes]);
  });

  it.each<[string, unknown]>([
    ['a Map', new Map([[1, 2]])],
    ['a Set', new Set([1])],
    ['an Error', new Error('x')],
    ['a function', () => 1],
  ])('that is %s is refused, because nothing of it would arrive', async (_what, body) => {
    const { url } = await peers.serve({ onRequest: () => 'ok' });
    const session = await peers.dial(url);
    const refusal = { code: 'invalid_argument', message: expect.stringContaining('no JSON form') };
    expect(await failure(session.send(body as object))).toMatchObject(refusal);
    expect(await failure(session.request(body as object))).toMatchObject(refusal);
  });
});

describe('messages that have no reader', () => {
  it('fail at once if the server has no onSession', async () => {
    const { url } = await peers.serve({ onRequest: () => 'ok' });
    const session = await peers.dial(url);
    expect(await failure(session.send('x'))).toMatchObject({ code: 'unsupported' });
  });

  it('of a peer that does not know that are logged once by the server', async () => {
    const log = createLog();
    const { url } = await peers.serve({ logger: log, onRequest: () => 'ok' });
    const peer = await openRaw(url);
    peer.send(helloBytes());
    await peer.control('ACCEPT');
    for (let i = 0; i < 3; i++) peer.send(Uint8Array.of(0x10, 0, 0, 0x78));
    // The answer to a request comes after them.
    peer.send(Uint8Array.of(0x11, 1, 0, 0x78));
    await expect.poll(() => peer.received.length).toBeGreaterThan(1);
    expect(log.lines.filter(({ event }) => event === 'message.unread').length).toBe(1);
    peer.socket.close();
  });

  it('because the client never reads are told once, with how many wait, by an event and a log line of the server', async () => {
    const log = createLog();
    const events: unknown[] = [];
    let sent = 0;
    const { url } = await peers.serve({
      logger: log,
      async onSession(session) {
        session.on('unread', (event) => events.push(event));
        for (; sent < 3_000; sent++) await session.send(`message ${sent} ${'x'.repeat(1_000)}`);
      },
      onRequest: () => 'requests pass',
    });
    const session = await peers.dial(url, { timers: { closingTimeoutMs: 200 } });
    await expect.poll(() => events.length).toBe(1);
    expect(sent).toBeLessThan(3_000);
    expect(events).toEqual([{ messages: expect.any(Number), bytes: expect.any(Number) }]);
    const { messages, bytes } = events[0] as { messages: number; bytes: number };
    expect(messages).toBeGreaterThan(50);
    expect(messages).toBeLessThan(sent);
    expect(bytes).toBeGreaterThan(0);
    const line = { event: 'session.unread', session: session.id, messages, bytes };
    expect(log.lines.filter(({ event }) => event === 'session.unread')).toEqual([line]);
    expect((await session.request('x')).text).toBe('requests pass');
    // Waiting messages arrive as soon as something reads.
    let read = 0;
    for await (const _message of session) if (++read === 3_000) break;
    expect([read, events.length]).toEqual([3_000, 1]);
  });
});

describe('throttling', () => {
  it('does not begin within the first thousands of small messages', async () => {
    let heard = 0;
    const { url } = await peers.serve({
      async onSession(session) {
        for await (const _message of session) heard++;
      },
    });
    const session = await peers.dial(url);
    const events: unknown[] = [];
    session.on('throttled', (event) => events.push(event));
    for (let i = 0; i < 3_000; i++) await session.send('cursor');
    await expect.poll(() => heard).toBe(3_000);
    expect([events, session.stats().blockedOnRate]).toEqual([[], false]);
  });

  it('is told, and the calls of the client wait', async () => {
    const { url } = await peers.serve({
      limits: { messagesPerMinute: 60 },
      async onSession(session) {
        for await (const _message of session);
      },
    });
    const session = await peers.dial(url);
    const events: unknown[] = [];
    session.on('throttled', (event) => events.push(event));
    let sent = 0;
    const sending = (async () => {
      while (session.state === 'established') {
        await session.send('cursor');
        sent++;
      }
    })().catch(() => {});
    await expect.poll(() => events).toEqual([{ limit: 'messagesPerMinute', rate: 60 }]);
    expect(sent).toBeLessThan(90);
    await session.close();
    await sending;
  });

  it('of new sessions is an error that says for how long', async () => {
    const { url } = await peers.serve({ limits: { sessionsPerMinutePerIp: 2 } });
    for (let i = 0; i < 2; i++) await (await peers.dial(url)).close();
    expect(await failure(peers.dial(url))).toMatchObject({
      code: 'rejected',
      reject: { code: 'RATE_LIMITED' },
      retryable: true,
      retryAfterMs: expect.any(Number),
    });
  });
});

describe('options', () => {
  it('reconnect: true stands for the defaults', async () => {
    const { server, url } = await peers.serve();
    const session = await peers.dial(url, { reconnect: true });
    expect([session.state, server.sessions.size]).toEqual(['established', 1]);
  });

  it('the code of a RequestError that is in upper case is refused with the rule', () => {
    expect(() => new RequestError('NOT_FOUND', 'x')).toThrow(/1 to 64 characters of a-z, 0-9 and _/);
  });

  it.each<[string, unknown, string]>([
    [
      'an Express app',
      Object.assign(() => {}, { listen() {}, on() {}, off() {} }),
      'this is an app, so pass createServer(app)',
    ],
    ['nothing', undefined, 'this is of type undefined'],
    ['a port', 8_080, 'call listen({ port: 8080 })'],
  ])('attach(%s) says what to pass instead', (_what, given, advice) => {
    const server = peers.use(createServer());
    expect(() => server.attach(given as never)).toThrow(advice);
  });

  it('attach twice to one HTTP server is refused, and the first one continues', async () => {
    let sessions = 0;
    const server = peers.use(createServer({ onSession: () => void sessions++ }));
    const http = createHttpServer();
    const detach = server.attach(http);
    expect(() => server.attach(http)).toThrow('attached to that HTTP server already');
    detach();
    server.attach(http);
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    const address = http.address();
    const port = typeof address === 'object' ? address?.port : 0;
    const session = await peers.dial(`ws://127.0.0.1:${port}/session`);
    expect((await session.close()).unacknowledged).toBe(0);
    expect(sessions).toBe(1);
    http.close();
  });
});

describe('the loop of the quick start', () => {
  const [QUICKSTART = '', DEPLOY = ''] = ['start/quickstart.md', 'operate/deploy.md'].map((name) =>
    readFileSync(fileURLToPath(new URL(`../../../docs/${name}`, import.meta.url)), 'utf8'),
  );
  /** The code of the quick start that contains `text`, with another port. */
  const block = (text: string, port: string): string => {
    const found = QUICKSTART.split('```').find((each) => /^jsx?\n/.test(each) && each.includes(text));
    return (found ?? expect.fail(`the quick start has no ${text}`))
      .replace(/^.*\n/, '')
      .replace('8765', port);
  };
  const running: ChildProcessWithoutNullStreams[] = [];
  afterEach(() => {
    for (const child of running.splice(0)) child.kill('SIGKILL');
  });
  const run = (code: string) => {
    const flags = ['--import', 'tsx', '--conditions=@parlance/source', '--input-type=module', '--eval', code];
    const child = spawn(process.execPath, flags, { cwd: fileURLToPath(new URL('..', import.meta.url)) });
    running.push(child);
    const output = [collect(child.stdout), collect(child.stderr)];
    return {
      child,
      lines: () =>
        output
          .map((read) => read())
          .join('')
          .split('\n'),
    };
  };
  const echoesIn = (lines: readonly string[]) =>
    lines.flatMap((line) => /^you said: number (\d+)$/.exec(line)?.[1] ?? []).map(Number);

  it.each(['killed with SIGKILL', 'drained and replaced'])('continues when the server is %s', async (how) => {
    const port = await freePort();
    // A deployment as the guide describes it: the server, and what it does on SIGTERM.
    const onSigterm = /process\.once\('SIGTERM'.*?\n\}\);/s.exec(DEPLOY)?.[0] ?? expect.fail('no SIGTERM');
    const start = async () => {
      const server = run(`${block('// server.mjs', port)}\n${onSigterm}`);
      await expect.poll(server.lines).toContain(`listening on ws://127.0.0.1:${port}/session`);
      return server.child;
    };
    const first = await start();
    const { child, lines } = run(block('// stay.mjs', port).replace('1_000', '20'));
    await expect.poll(() => echoesIn(lines()).length).toBeGreaterThan(10);
    first.kill(how.startsWith('killed') ? 'SIGKILL' : 'SIGTERM');
    await once(first, 'exit');
    const before = echoesIn(lines()).length;
    await start();
    await expect.poll(() => echoesIn(lines()).length).toBeGreaterThan(before + 20);
    expect(child.exitCode).toBe(null);
    const echoes = echoesIn(lines());
    expect(echoes).toEqual([...new Set(echoes)].sort((a, b) => a - b));
    const missing = (echoes.at(-1) as number) - echoes.length;
    const told = lines().flatMap((line) => /^new session: 0 not sent, (\d+) may/.exec(line)?.[1] ?? []);
    if (how.startsWith('drained')) expect([missing, told]).toEqual([0, []]);
    else expect(told.length).toBe(1);
    expect(lines()).toContain('state: connecting');
    await pause(0);
  });
});
