import { createServer as createHttpServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TransportName } from '@parlance/client';
import { createServer } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import { createPeers } from '../kit/peers.js';
import { UNLIMITED } from '../kit/unlimited.js';
import { proxyMissing, startProxyWith } from '../proxies/proxy-server.js';

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
async function talk(url: string, transports: readonly TransportName[]): Promise<void> {
  const session = await peers.dial(url, { transports });
  expect(session.transport).toBe('http');
  const messages = session[Symbol.asyncIterator]();
  for (let i = 0; i < ROUNDS; i++) {
    await session.send(`${i}`);
    const { value } = await messages.next();
    expect(value?.text).toBe(`re: ${i}`);
  }
  await session.close();
}

type OnUpgrade = 'refuse' | 'hold' | 'drop the answers to' | 'hold the frames behind';

/** A proxy that forwards requests and answers as they come, and that no WebSocket passes. */
async function withoutUpgrades(target: number, onUpgrade: OnUpgrade) {
  const held = new Set<{ destroy(): void }>();
  const proxy = createHttpServer((request, response) => {
    const { method, url, headers } = request;
    const forward = httpRequest({ port: target, method, path: url, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.on('error', () => response.destroy());
      answer.pipe(response);
    });
    forward.on('error', () => response.destroy());
    response.on('close', () => forward.destroy());
    request.pipe(forward);
  });
  proxy.on('upgrade', (_request, socket) => {
    held.add(socket.on('error', () => {}));
    if (onUpgrade === 'refuse') socket.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n');
  });
  if (onUpgrade === 'drop the answers to')
    proxy.on('upgrade', ({ url, headers }) => {
      const forward = httpRequest({ port: target, path: url, headers });
      forward.on('upgrade', (_answer, socket) => held.add(socket.on('error', () => {})));
      forward.on('error', () => {}).end();
    });
  if (onUpgrade === 'hold the frames behind')
    proxy.on('upgrade', ({ url, headers }, near) => {
      const forward = httpRequest({ port: target, path: url, headers });
      forward.on('upgrade', ({ rawHeaders }, far) => {
        held.add(far.on('error', () => {}).resume());
        const pairs = rawHeaders.map((text, i) => (i % 2 === 0 ? `${text}: ` : `${text}\r\n`));
        near.write(`HTTP/1.1 101 Switching Protocols\r\n${pairs.join('')}\r\n`);
        near.pipe(far);
      });
      forward.on('error', () => {}).end();
    });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  return peers.use({
    port: (proxy.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      for (const socket of held) socket.destroy();
      proxy.close();
      proxy.closeAllConnections();
    },
  });
}

describe('a session', () => {
  it.each(['refuse', 'hold'] as const)('goes over HTTP if a proxy will %s upgrades', async (what) => {
    const proxy = await withoutUpgrades(await serve(), what);
    await talk(`ws://127.0.0.1:${proxy.port}/session`, ['websocket', 'http']);
  });

  it.each(['drop the answers to', 'hold the frames behind'] as const)(
    'begins once if a proxy will %s an upgrade with HELLO',
    async (what) => {
      let begun = 0;
      const port = await serve(() => {
        begun++;
      });
      const proxy = await withoutUpgrades(port, what);
      await talk(`ws://127.0.0.1:${proxy.port}/session`, ['websocket', 'http']);
      expect(begun).toBe(1);
    },
  );

  it.skipIf(proxyMissing('nginx'))('goes through nginx as it is without any setting', async () => {
    const target = await serve();
    const nginx = peers.use(
      await startProxyWith(
        'nginx',
        (port, folder) => `
          worker_processes 1; pid ${folder}/nginx.pid; error_log stderr error;
          events { worker_connections 100; }
          http {
            access_log off;
            ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((each) => `${each}_temp_path ${folder}/${each};`).join(' ')}
            server { listen 127.0.0.1:${port}; location / { proxy_pass http://127.0.0.1:${target}; } }
          }`,
      ),
    );
    await talk(`ws://127.0.0.1:${nginx.port}/session`, ['http']);
    // It forwards no upgrade.
    await talk(`ws://127.0.0.1:${nginx.port}/session`, ['websocket', 'http']);
  });

  it.skipIf(proxyMissing('haproxy'))('goes through HAProxy as it is without any setting', async () => {
    const target = await serve();
    const haproxy = peers.use(
      await startProxyWith(
        'haproxy',
        (port) => `
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend all
  bind 127.0.0.1:${port}
  default_backend servers
backend servers
  server one 127.0.0.1:${target}
`,
      ),
    );
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
