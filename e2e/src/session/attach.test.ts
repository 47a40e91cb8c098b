import { once } from 'node:events';
import { createServer as createHttpServer, type Server as HttpServer } from 'node:http';
import { type AddressInfo, connect as connectTcp, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { createServer, type ServerOptions } from '@parlance/server';
import { attach as attachEngine } from 'engine.io';
import { Server as SocketIo } from 'socket.io';
import { createServer as createVite } from 'vite';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket, { WebSocketServer } from 'ws';
import { createPeers, failure } from '../kit/peers.js';

/** A session server that shares an HTTP server with listeners of other upgrades, or with none. */

const peers = createPeers();
const open: (() => unknown)[] = [];
afterEach(async () => {
  await peers[Symbol.asyncDispose]();
  for (const close of open.splice(0).reverse()) await close();
});

/** How long others have to take an upgrade here. */
const WAIT_MS = 300;

interface Shared {
  readonly http: HttpServer;
  readonly port: number;
  readonly url: string;
}

async function listen(http = createHttpServer()): Promise<Shared> {
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  open.push(() => {
    http.close();
    http.closeAllConnections();
  });
  const { port } = http.address() as AddressInfo;
  return { http, port, url: `ws://127.0.0.1:${port}` };
}

function attach(http: HttpServer, options: ServerOptions = {}): void {
  const server = createServer({
    onRequest: ({ text }) => `re: ${text}`,
    timers: { helloTimeoutMs: WAIT_MS },
    ...options,
  });
  peers.use(server).attach(http);
}

/** A client that sends a request for an upgrade and then only what it is told to. It keeps its side open. */
function ask(port: number, path: string, before = ''): { socket: Socket; answer: Promise<string> } {
  const socket = connectTcp({ port, host: '127.0.0.1', allowHalfOpen: true });
  open.push(() => socket.destroy());
  let text = '';
  socket.on('error', () => {});
  socket.on('data', (data) => {
    text += String(data);
  });
  const answer = once(socket, 'end').then(() => text);
  answer.catch(() => {});
  socket.write(
    `${before}GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
      'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n',
  );
  return { socket, answer };
}

const connections = (http: HttpServer) =>
  new Promise<number>((resolve, reject) =>
    http.getConnections((error, count) => (error === null ? resolve(count) : reject(error))),
  );

async function untilNone(http: HttpServer): Promise<void> {
  for (let left = 200; left > 0 && (await connections(http)) > 0; left--) await pause(50);
  expect(await connections(http)).toBe(0);
}

const HINT = 'HTTP 404: there is no session endpoint at /wrong; the default path is /session';
const says = async (url: string, said: string) => {
  const session = await peers.dial(url);
  expect((await session.request(said)).text).toBe(`re: ${said}`);
};

/** A listener that takes no upgrade. */
const idle = () => {};

describe('an upgrade for another path', () => {
  it.each([
    ['alone', () => {}],
    ['beside a listener that takes none', (http: HttpServer) => void http.on('upgrade', idle)],
  ])('is answered with the hint that listen gives, %s', async (_where, prepare) => {
    const { http, url } = await listen();
    prepare(http);
    attach(http);
    const { message } = await failure(peers.dial(`${url}/wrong`));
    expect(message).toContain(HINT);
    const owner = await peers.serve();
    expect((await failure(peers.dial(`ws://127.0.0.1:${owner.port}/wrong`))).message).toContain(HINT);
    await says(`${url}/session`, 'hello');
    await untilNone(await closeSessions(http));
  });

  it.each(['alone', 'beside another listener'])(
    'does not stay open, if the client never closes it, %s',
    async (where) => {
      const { http, port } = await listen();
      if (where !== 'alone') http.on('upgrade', idle);
      attach(http);
      const answers = await Promise.all([1, 2, 3].map(() => ask(port, '/wrong').answer));
      for (const answer of answers)
        expect(answer).toMatch(/^HTTP\/1.1 404 Not Found\r\n[\s\S]*endpoint is \/session\.\n$/);
      await untilNone(http);
    },
  );

  it('does not keep a server that listens by itself from closing', async () => {
    const { server, port } = await peers.serve();
    await ask(port, '/wrong').answer;
    await server.close();
  });

  it.each(['alone', 'beside another listener'])(
    'does not end the process if it is reset, %s',
    async (where) => {
      const { http, port } = await listen();
      if (where !== 'alone') http.on('upgrade', idle);
      attach(http);
      const closed = new Promise((resolve) => http.on('connection', (socket) => socket.on('close', resolve)));
      const uncaught: unknown[] = [];
      const handlers = process.rawListeners('uncaughtException') as ((error: Error) => void)[];
      process.removeAllListeners('uncaughtException');
      process.on('uncaughtException', (error) => uncaught.push(error));
      try {
        const { socket } = ask(port, '/wrong');
        // By now it has arrived; an answer has to be on its way, or another listener to be waited for.
        await pause(50);
        socket.resetAndDestroy();
        await closed;
        await untilNone(http);
      } finally {
        process.removeAllListeners('uncaughtException');
        for (const handler of handlers) process.on('uncaughtException', handler);
      }
      expect(uncaught).toEqual([]);
    },
  );

  it('waits for at most handshakesPerIp of an address; then the oldest is answered', async () => {
    const { http, port } = await listen();
    http.on('upgrade', idle);
    attach(http, { limits: { handshakesPerIp: 3 }, timers: { helloTimeoutMs: 60_000 } });
    const answered: number[] = [];
    for (const i of [0, 1, 2, 3, 4]) {
      const arrived = once(http, 'upgrade');
      ask(port, '/wrong').answer.then((text) => text.includes(' 404 ') && answered.push(i), idle);
      await arrived;
      await expect.poll(() => answered).toEqual([[], [], [], [0], [0, 1]][i]);
    }
    // None of the others before its deadline.
    await pause(100);
    expect(answered).toEqual([0, 1]);
  });

  it('may come after an answer over the same connection', async () => {
    const { http, port } = await listen(createHttpServer((_request, response) => response.end('page')));
    http.on('upgrade', idle);
    attach(http);
    const text = await ask(port, '/wrong', 'GET / HTTP/1.1\r\nHost: x\r\n\r\n').answer;
    expect(text).toMatch(/^HTTP\/1.1 200 OK[\s\S]*page[\s\S]*HTTP\/1.1 404 Not Found/);
  });
});

/** Closes the sessions of the test, so that only strangers are left. */
async function closeSessions(http: HttpServer): Promise<HttpServer> {
  await peers[Symbol.asyncDispose]();
  return http;
}

describe('other listeners keep their upgrades beyond the deadline', () => {
  const echo = (sockets: WebSocketServer) =>
    sockets.on('connection', (socket) => socket.on('message', (data) => socket.send(String(data))));

  async function echoes(url: string, protocol: string[] = []): Promise<void> {
    const socket = new WebSocket(url, protocol);
    open.push(() => socket.terminate());
    await once(socket, 'open');
    await pause(WAIT_MS * 2);
    socket.send('still here');
    const [data] = await once(socket, 'message');
    expect(String(data)).toBe('still here');
    expect(socket.readyState).toBe(WebSocket.OPEN);
  }

  it.each(['before', 'after'])('ws that takes it at once, attached %s', async (when) => {
    const { http, url } = await listen();
    const sockets = echo(new WebSocketServer({ noServer: true }));
    if (when === 'after') attach(http);
    http.on('upgrade', (request, socket, head) => {
      if (request.url === '/echo')
        sockets.handleUpgrade(request, socket, head, (webSocket) =>
          sockets.emit('connection', webSocket, request),
        );
    });
    if (when === 'before') attach(http);
    await Promise.all([echoes(`${url}/echo`), says(`${url}/session`, 'hello')]);
    expect((await failure(peers.dial(`${url}/wrong`))).message).toContain(HINT);
  });

  it.each(['before', 'after'])(
    'ws that authenticates first, as its guide shows, attached %s',
    async (when) => {
      const { http, url } = await listen();
      const sockets = echo(new WebSocketServer({ noServer: true }));
      // More than a socket may be untouched for.
      const options = { timers: { helloTimeoutMs: 8_000 } };
      if (when === 'after') attach(http, options);
      http.on('upgrade', (request, socket, head) => {
        if (request.url !== '/echo') return;
        socket.on('error', idle);
        void pause(3_500).then(() =>
          sockets.handleUpgrade(request, socket, head, (webSocket) =>
            sockets.emit('connection', webSocket, request),
          ),
        );
      });
      if (when === 'before') attach(http, options);
      await echoes(`${url}/echo`);
    },
  );

  it('socket.io and engine.io', async () => {
    const { http, url } = await listen();
    const io = new SocketIo(http);
    const engine = attachEngine(http, { destroyUpgrade: false });
    open.push(
      () => io.close(),
      () => engine.close(),
    );
    attach(http);
    for (const path of ['socket.io', 'engine.io']) {
      const socket = new WebSocket(`${url}/${path}/?EIO=4&transport=websocket`);
      open.push(() => socket.terminate());
      const [first] = await once(socket, 'message');
      expect(String(first)).toMatch(/^0\{"sid"/);
      await pause(WAIT_MS * 2);
      expect(socket.readyState).toBe(WebSocket.OPEN);
    }
    await says(`${url}/session`, 'hello');
  });

  it('Vite, which leaves what is not its', async () => {
    const { http, url } = await listen();
    const dev = await createVite({
      configFile: false,
      logLevel: 'silent',
      server: { middlewareMode: true, hmr: { server: http } },
    });
    open.push(() => dev.close());
    attach(http);
    const socket = new WebSocket(`${url}/?token=${dev.config.webSocketToken}`, ['vite-hmr']);
    open.push(() => socket.terminate());
    const [first] = await once(socket, 'message');
    expect(String(first)).toBe('{"type":"connected"}');
    await pause(WAIT_MS * 2);
    expect(socket.readyState).toBe(WebSocket.OPEN);
    expect((await failure(peers.dial(`${url}/wrong`))).message).toContain(HINT);
  });

  it('a second session server at another path', async () => {
    const { http, url, port } = await listen();
    attach(http, { path: '/one' });
    attach(http, { path: '/two' });
    await says(`${url}/one`, 'hello');
    await says(`${url}/two`, 'hello');
    const answer = await ask(port, '/wrong').answer;
    expect(answer).toContain('The session endpoint is /one or /two.');
    expect(answer.match(/HTTP\/1.1/g)).toHaveLength(1);
  });
});
