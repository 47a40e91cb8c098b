import { createServer as createHttpServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { connect, type TransportName } from '@parlance/client';
import { createServer } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { createPeers, failure } from '../kit/peers.js';
import { UNLIMITED } from '../kit/unlimited.js';
import { nginxWith, PLAIN, proxyMissing, startProxyWith } from '../proxies/proxy-server.js';
import { withoutUpgrades } from '../proxies/without-upgrades.js';

/** Sessions through networks that hold back, refuse or cut WebSockets. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

const ROUNDS = 50;

async function serve(begun: () => void = () => {}): Promise<number> {
  const { port } = await peers.serve({
    limits: UNLIMITED,
    authenticate: () => ({ principal: 'a' }),
    async onSession(session) {
      begun();
      for await (const { text } of session) await session.send(`re: ${text}`);
    },
  });
  return port;
}

/** One message after the other, each of which waits for the answer to the last one: none may be held back. */
async function talk(url: string, transports?: readonly TransportName[]): Promise<void> {
  const session = peers.use(await connect(url, { transports }));
  expect(session.transport).toBe('http');
  const messages = session[Symbol.asyncIterator]();
  for (let i = 0; i < ROUNDS; i++) {
    await session.send(`${i}`);
    const { value } = await messages.next();
    expect(value?.text).toBe(`re: ${i}`);
  }
  await session.close();
}

describe('a session', () => {
  it.each([
    ['refuse', undefined],
    ['hold', undefined],
    ['refuse', ['websocket', 'http']],
    ['hold', ['websocket', 'http']],
  ] as const)('goes over HTTP if a proxy will %s upgrades, with transports %j', async (what, transports) => {
    const proxy = peers.use(await withoutUpgrades(await serve(), what));
    await talk(`ws://127.0.0.1:${proxy.port}/session`, transports);
  });

  it.each([
    ['drop the answers to', undefined],
    ['hold the frames behind', undefined],
    ['drop the answers to', ['websocket', 'http']],
    ['hold the frames behind', ['websocket', 'http']],
  ] as const)(
    'begins once if a proxy will %s an upgrade with HELLO, with transports %j',
    async (what, transports) => {
      let begun = 0;
      const port = await serve(() => {
        begun++;
      });
      const proxy = peers.use(await withoutUpgrades(port, what));
      await talk(`ws://127.0.0.1:${proxy.port}/session`, transports);
      expect(begun).toBe(1);
    },
  );

  it.skipIf(proxyMissing('nginx'))('goes through nginx as it is without any setting', async () => {
    const target = await serve();
    const nginx = peers.use(await startProxyWith('nginx', PLAIN.nginx([target])));
    await talk(`ws://127.0.0.1:${nginx.port}/session`, ['http']);
    // It forwards no upgrade.
    await talk(`ws://127.0.0.1:${nginx.port}/session`, ['websocket', 'http']);
  });

  it.skipIf(proxyMissing('nginx'))(
    'is refused if nginx states the name of its upstream as the host',
    async () => {
      const target = await serve();
      const through = (more: string) =>
        startProxyWith('nginx', (port, folder) =>
          nginxWith(
            folder,
            `upstream sessions { server 127.0.0.1:${target}; }
          server { listen 127.0.0.1:${port}; location /session { proxy_pass http://sessions; ${more} } }`,
          ),
        );
      const named = peers.use(await through(''));
      const url = `ws://127.0.0.1:${named.port}/session`;
      expect((await failure(connect(url, { transports: ['http'] }))).message).toContain('HTTP 403');
      const nginx = peers.use(await through('proxy_set_header Host $http_host;'));
      await talk(`ws://127.0.0.1:${nginx.port}/session`, ['http']);
    },
  );

  it.skipIf(proxyMissing('haproxy'))('goes through HAProxy as it is without any setting', async () => {
    const target = await serve();
    const haproxy = peers.use(await startProxyWith('haproxy', PLAIN.haproxy([target])));
    await talk(`ws://127.0.0.1:${haproxy.port}/session`, ['http']);
  });
});

it('is a session over a WebSocket if one opens', async () => {
  let paths: string[] = [];
  const server = peers.use(createServer());
  const http = createHttpServer((request, response) => {
    paths = [...paths, request.url ?? ''];
    if (!server.respond(request, response)) response.writeHead(404).end();
  });
  server.attach(http);
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const { port } = http.address() as AddressInfo;
  const session = await peers.dial(`ws://127.0.0.1:${port}/session`, { transports: ['websocket', 'http'] });
  expect(session.transport).toBe('websocket');
  await session.close();
  expect(paths).toEqual([]);
  http.close();
});

describe('a client that falls back by itself', () => {
  type Answer = (response: ServerResponse) => void;
  const answered = (status: number, type: string): Answer => {
    return (response) =>
      response.writeHead(status, { 'content-type': type }).end('<p>Nothing here</p>'.repeat(9));
  };

  /** A server of something else. */
  async function stranger(onUpgrade: ((socket: Duplex) => void) | undefined, answer: Answer) {
    const asked: string[] = [];
    const http = createHttpServer((request, response) => {
      asked.push(`${request.method} ${request.url}`);
      answer(response);
    });
    http.on('upgrade', (request, socket) => {
      asked.push(`upgrade ${request.url}`);
      if (onUpgrade === undefined) socket.end('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n');
      else onUpgrade(socket);
    });
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    peers.use({
      async [Symbol.asyncDispose]() {
        http.close();
        http.closeAllConnections();
      },
    });
    return { asked, url: `ws://127.0.0.1:${(http.address() as AddressInfo).port}/session` };
  }

  it.each([
    ['nothing at the path', answered(404, 'text/html')],
    ['no such method', answered(405, 'text/html')],
    ['a page for each path', answered(200, 'text/html')],
    ['a connection that is reset', (response) => void response.destroy()],
  ] as const satisfies readonly (readonly [string, Answer])[])(
    'says what became of the WebSocket if a stranger has %s',
    async (_what, answer) => {
      const { asked, url } = await stranger(undefined, answer);
      const [first, usual] = [
        await failure(connect(url, { transports: ['websocket'] })),
        await failure(connect(url)),
      ];
      expect([usual.code, usual.message]).toEqual([first.code, first.message]);
      expect(asked).toEqual(['upgrade /session', 'upgrade /session', 'POST /session/stream']);
    },
  );

  it('says the same of a server that takes no sessions over HTTP', async () => {
    const { port } = await peers.serve({ transports: ['websocket'] });
    const proxy = peers.use(await withoutUpgrades(port, 'refuse'));
    const url = `ws://127.0.0.1:${proxy.port}/session`;
    const [first, usual] = [
      await failure(connect(url, { transports: ['websocket'] })),
      await failure(connect(url)),
    ];
    expect([usual.code, usual.message]).toEqual([first.code, first.message]);
    expect(usual.message).toContain('HTTP 403');
  });

  it('says that there was no answer if nothing answers an upgrade, and a request neither', async () => {
    const held = new Set<Duplex>();
    const { asked, url } = await stranger(
      (socket) => held.add(socket),
      () => {},
    );
    const error = await failure(connect(url, { timers: { acceptTimeoutMs: 4_500 } }));
    expect(error.message).toContain(`cannot connect to ${url}: no answer within 8500 ms`);
    expect(asked).toEqual(['upgrade /session', 'POST /session/stream']);
    for (const socket of held) socket.destroy();
  });

  it('asks nothing but WebSockets of its own class, with text frames, and if it is told so', async () => {
    const { asked, url } = await stranger(undefined, answered(404, 'text/html'));
    class Own extends WebSocket {}
    for (const options of [
      { WebSocket: Own },
      { subprotocol: 'm2m.v1.json' },
      { transports: ['websocket'] },
    ] as const)
      await failure(connect(url, options));
    expect(asked).toEqual(['upgrade /session', 'upgrade /session', 'upgrade /session']);
  });

  it('asks a server that is away over HTTP once in 10 s', async () => {
    const server = peers.use(createServer());
    let isDown = false;
    const asked: string[] = [];
    const sockets = new Set<Duplex>();
    const http = createHttpServer((request, response) => {
      asked.push(request.method ?? '');
      if (isDown) response.destroy();
      else server.respond(request, response);
    });
    http.on('connection', (socket) => sockets.add(socket.on('error', () => {})));
    http.on('upgrade', (_request, socket) => {
      asked.push('upgrade');
      if (isDown) socket.destroy();
    });
    server.attach(http);
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    const { port } = http.address() as AddressInfo;
    const reconnect = { minDelayMs: 20, maxDelayMs: 20 };
    const session = peers.use(await connect(`ws://127.0.0.1:${port}/session`, { reconnect }));
    expect([session.transport, asked]).toEqual(['websocket', ['upgrade']]);
    isDown = true;
    for (const socket of sockets) socket.destroy();
    await expect.poll(() => asked.length, { timeout: 10_000 }).toBeGreaterThan(20);
    isDown = false;
    await expect.poll(() => session.state).toBe('established');
    expect(session.transport).toBe('websocket');
    expect(asked.filter((what) => what !== 'upgrade')).toEqual(['POST']);
    await session.close();
    http.close();
  });
});
