import { mkdtemp, rm } from 'node:fs/promises';
import { createServer as createHttpServer, type Server as HttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { connect } from '@parlance/client';
import { attach as attachEngine } from 'engine.io';
import { buildSchema } from 'graphql';
import { useServer } from 'graphql-ws/use/ws';
import { Server as SocketIo } from 'socket.io';
import { createServer as createVite } from 'vite';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import WebSocket, { WebSocketServer } from 'ws';
import type { Child } from '../../../scripts/child-process.js';
import { installNode22, node22Missing, startUnderNode22 } from '../ai/node-22.js';
import { freePort } from '../kit/cli-process.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import type { NativeCommands } from '../kit/native-process.js';
import { createPeers, failure } from '../kit/peers.js';

/** The URL of a session server that another server has: what applications see with the servers that people use. */

const open: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

async function listen(http: HttpServer = createHttpServer()): Promise<string> {
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  open.push(() => {
    http.close();
    http.closeAllConnections();
  });
  return `ws://127.0.0.1:${(http.address() as AddressInfo).port}`;
}

async function socketIo(): Promise<string> {
  const http = createHttpServer();
  const io = new SocketIo(http);
  open.push(() => io.close());
  return await listen(http);
}

async function engineIo(): Promise<string> {
  const http = createHttpServer();
  const engine = attachEngine(http, {});
  open.push(() => engine.close());
  return await listen(http);
}

async function graphql(): Promise<string> {
  const http = createHttpServer();
  const sockets = new WebSocketServer({ server: http, path: '/graphql' });
  const used = useServer({ schema: buildSchema('type Query { hello: String }') }, sockets);
  open.push(() => used.dispose());
  return await listen(http);
}

/** @param hasPort whether its WebSocket has a port of its own. */
async function vite(hasPort: boolean): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'parlance-vite-'));
  open.push(() => rm(root, { recursive: true, force: true }));
  // Closed again at once: Vite takes a number.
  const url = await listen();
  const port = Number(new URL(url).port);
  await open.pop()?.();
  const host = '127.0.0.1';
  const server = hasPort
    ? ({ middlewareMode: true, hmr: { host, port } } as const)
    : ({ host, port, strictPort: true } as const);
  const dev = await createVite({ configFile: false, root, logLevel: 'silent', server });
  open.push(() => dev.close());
  if (!hasPort) await dev.listen();
  return url;
}

async function echo(isBinary?: boolean): Promise<string> {
  const http = createHttpServer();
  const sockets = new WebSocketServer({ server: http });
  sockets.on('connection', (socket) =>
    socket.on('message', (data, binary) => socket.send(data, { binary: isBinary ?? binary })),
  );
  return await listen(http);
}

const SOCKET_IO = 'it looks like a socket.io server: it said "0{\\"sid\\"';
const QUERY = '?EIO=4&transport=websocket';
/** Of `ws`, whose errors say more than those of browsers. */
const CASES: readonly (readonly [what: string, start: () => Promise<string>, path: string, said: string])[] =
  [
    ['socket.io', socketIo, `/socket.io/${QUERY}`, SOCKET_IO],
    ['socket.io, without its query', socketIo, '/socket.io/', 'HTTP 400: it is a server of other WebSockets'],
    [
      'socket.io, at another path',
      socketIo,
      '/session',
      'as a socket.io server does at paths that are not its',
    ],
    ['engine.io', engineIo, `/engine.io/${QUERY}`, SOCKET_IO],
    [
      'engine.io, at another path',
      engineIo,
      '/session',
      'as a socket.io server does at paths that are not its',
    ],
    [
      'graphql-ws',
      graphql,
      '/graphql',
      'not a Parlance session server: GraphQL servers refuse its subprotocol',
    ],
    ['graphql-ws, at another path', graphql, '/session', 'HTTP 400: it is a server of other WebSockets'],
    ['Vite, its WebSocket', () => vite(true), '/', 'it looks like a development server such as Vite'],
    ['Vite, its pages', () => vite(false), '/session', 'no answer within 5000 ms'],
    ['ws that echoes', echo, '/', 'it sends back what it is sent'],
    [
      'ws that echoes bytes as text',
      () => echo(false),
      '/',
      'does not reach one: the connection closed with code',
    ],
  ];

describe('if another server listens', () => {
  it.each(CASES)('%s, an error says what answers', async (_what, start, path, said) => {
    const url = await start();
    const error = await failure(connect(url + path, { WebSocket }));
    expect(error.message).toContain(`cannot connect to ${url}${path.replace(/\?.*/, '')}: `);
    expect(error.message).toContain(said);
  });
});

const missing = node22Missing();

describe.skipIf(missing !== undefined)('with the WebSocket of Node 22', () => {
  let child: Child<NativeCommands>;
  beforeAll(async () => {
    await installNode22();
    child = startUnderNode22('native-process');
  });
  afterAll(() => child?.kill());

  it('each of them is an error that names the URL', async () => {
    const urls = await Promise.all(CASES.map(async ([, start, path]) => (await start()) + path));
    urls.push(`ws://127.0.0.1:${await freePort()}/session`);
    const messages = await Promise.all(urls.map((url) => child.callWithin(30_000, 'fail', url)));
    for (const [i, url] of urls.entries())
      expect(messages[i]).toContain(`cannot connect to ${url.replace(/\?.*/, '')}: `);
  });

  it('a session comes back after attempts that have failed', async () => {
    await using peers = createPeers();
    const { port } = await peers.serve({ onRequest: (request) => `re: ${request.text}` });
    const proxy = peers.use(await createCuttingProxy(port));
    await child.callWithin(30_000, 'connect', `ws://127.0.0.1:${proxy.port}/session`);
    proxy.refuse(true);
    proxy.cut();
    const asked = child.callWithin(30_000, 'ask', 'are you back?');
    // Several attempts fail.
    await pause(300);
    proxy.refuse(false);
    expect(await asked).toBe('re: are you back?');
  });
});
