import { once } from 'node:events';
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { cluster, createServer, memoryCluster, type ServerOptions } from '@parlance/server';
import { afterEach, expect, it } from 'vitest';
import WebSocket, { WebSocketServer } from 'ws';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { createPeers, failure } from '../kit/peers.js';

/** Other servers beside a session server, on one HTTP server or on one port. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

function logging() {
  const events: unknown[] = [];
  const log = ({ event }: Readonly<Record<string, unknown>>) => void events.push(event);
  return { events, logger: { debug: log, info: log, warn: log, error: log } };
}

async function listening() {
  const http = createHttpServer();
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  const { port } = http.address() as AddressInfo;
  return {
    http,
    url: (path: string) => `ws://127.0.0.1:${port}${path}`,
    async [Symbol.asyncDispose]() {
      http.closeAllConnections();
      http.close();
    },
  };
}

it('works beside ws with { server, path } that comes after it', async () => {
  await using site = await listening();
  await using server = createServer({ onRequest: () => 'here' });
  server.attach(site.http);
  const other = new WebSocketServer({ server: site.http, path: '/other' });
  other.on('connection', (socket) => socket.send('hello'));
  const session = await peers.dial(site.url('/session'), { reconnect: false });
  expect((await session.request('there?')).text).toBe('here');
  const socket = new WebSocket(site.url('/other'));
  expect(String((await once(socket, 'message'))[0])).toBe('hello');
  socket.close();
  await session.close();
  other.close();
});

it('says what is wrong beside ws with { server, path } that came before it', async () => {
  await using site = await listening();
  const other = new WebSocketServer({ server: site.http, path: '/other' });
  const { events, logger } = logging();
  await using server = createServer({ logger });
  server.attach(site.http);
  for (let i = 0; i < 2; i++) {
    const error = await failure(peers.dial(site.url('/session'), { reconnect: false }));
    expect(error.message).toContain('ws with { server, path }');
  }
  expect(events.filter((event) => event === 'upgrade.taken')).toHaveLength(1);
  other.close();
});

it('is refused at a path of an HTTP server that another one has', async () => {
  await using site = await listening();
  await using first = createServer();
  await using second = createServer();
  await using third = createServer({ path: '/third' });
  const detach = first.attach(site.http);
  third.attach(site.http);
  expect(() => second.attach(site.http)).toThrow(/another session server is attached .* at \/session; give/);
  detach();
  second.attach(site.http);
});

it.each(['onFetch', 'onRequest'] as const)('refuses an app as %s, and names attach', (option) => {
  const app = Object.assign((_request: IncomingMessage, _response: ServerResponse) => {}, {
    listen() {},
    handle() {},
    use() {},
  });
  expect(() => createServer({ [option]: app } as never as ServerOptions)).toThrow(
    new RegExp(`${option}: this is an app .* attach\\(httpServer\\)`),
  );
});

it('refuses a generator as onSession, which would never run', () => {
  const generator = async function* (): AsyncGenerator<string> {
    yield 'hello';
  };
  expect(() => createServer({ onSession: generator as never })).toThrow('a generator would never run');
});

it('says that a client came with a session of another process, once, and only without nodes of other processes', async () => {
  const first = await peers.serve({});
  const plain = logging();
  const second = await peers.serve({ logger: plain.logger });
  const unshared = logging();
  const third = await peers.serve({
    logger: unshared.logger,
    engine: memoryCluster(),
    features: [cluster()],
  });
  const clustered = logging();
  // As an engine that other processes have as well.
  const { secret = '', ...engine } = memoryCluster();
  const fourth = await peers.serve({ logger: clustered.logger, engine, features: [cluster({ secret })] });
  const front = peers.use(await createCuttingProxy(first.port));
  const dial = () =>
    peers.dial(`ws://127.0.0.1:${front.port}/session`, { reconnect: { minDelayMs: 5, maxDelayMs: 20 } });
  const sessions = [await dial(), await dial()];
  const allLost = (to: number) => {
    const resets = sessions.map((session) => new Promise((resolve) => session.on('reset', resolve)));
    front.redirect(to);
    front.cut();
    // A session at rest is followed by another one without a word.
    for (const session of sessions) void session.request('there?').catch(() => {});
    return Promise.all(resets);
  };
  for (const { port } of [second, third, fourth]) await allLost(port);
  const told = ({ events }: typeof plain) => events.filter((event) => event === 'session.of_other_process');
  const once = ['session.of_other_process'];
  expect([plain, unshared, clustered].map(told)).toEqual([once, once, []]);
});
