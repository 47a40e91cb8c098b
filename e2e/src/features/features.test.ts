import { once } from 'node:events';
import { request as askOver, createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  createServer,
  type Feature,
  type FeatureHooks,
  type FeatureHost,
  type ServerOptions,
} from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { createPeers } from '../kit/peers.js';

/** Features that answer HTTP and WebSockets of their own, on the port of sessions. */

const peers = createPeers();
const open: (() => unknown)[] = [];
afterEach(async () => {
  await peers[Symbol.asyncDispose]();
  for (const close of open.splice(0).reverse()) await close();
});

const feature = (name: string, hooks: FeatureHooks): Feature => ({ name, install: () => hooks });

/** Answers each message of a WebSocket at `path` with the same in brackets. */
const echo = (path: string, subprotocol?: string): Feature =>
  feature(`echo ${path}`, {
    upgrade: (asked) =>
      asked === path
        ? {
            subprotocol,
            open: (socket) => socket.listen({ onMessage: (data) => socket.send(`[${String(data)}]`) }),
          }
        : undefined,
  });

interface Serving {
  readonly http: string;
  readonly ws: string;
  readonly session: string;
  /** The fields `event` and `part` of what the server has logged as errors. */
  readonly errors: unknown[];
}

async function serve(features: readonly Feature[], options: ServerOptions = {}): Promise<Serving> {
  const errors: unknown[] = [];
  const logger = {
    ...{ debug() {}, info() {}, warn() {} },
    error: ({ event, part }: Readonly<Record<string, unknown>>) => void errors.push([event, part]),
  };
  const onRequest = ({ text }: { readonly text: string }) => `re: ${text}`;
  const { port, url } = await peers.serve({ onRequest, logger, ...options, features });
  return { http: `http://127.0.0.1:${port}`, ws: `ws://127.0.0.1:${port}`, session: url, errors };
}

/** Opens a WebSocket, which is closed after the test. */
function dial(url: string, protocols: readonly string[] = [], headers: Record<string, string> = {}) {
  const socket = new WebSocket(url, [...protocols], { headers });
  open.push(() => socket.terminate());
  return socket;
}

/** The HTTP status with which an upgrade is refused. */
const refusalOf = async (socket: WebSocket): Promise<unknown> => {
  socket.on('error', () => {});
  const [, response] = await once(socket, 'unexpected-response');
  return response.statusCode;
};

async function says(socket: WebSocket, text: string): Promise<string> {
  if (socket.readyState === WebSocket.CONNECTING) await once(socket, 'open');
  socket.send(text);
  const [data] = await once(socket, 'message');
  return String(data);
}

const request = async (url: string, said: string): Promise<string> => {
  const session = await peers.dial(url);
  return (await session.request(said)).text;
};

const fault = () => {
  throw new Error('a fault');
};

describe('HTTP at paths of features', () => {
  it('is answered by a handler for each method, and by a page for GET alone', async () => {
    const { http, session } = await serve([
      feature('handler', {
        http: (path) =>
          path === '/count'
            ? async (asked, response) => {
                let size = 0;
                for await (const chunk of asked) size += chunk.length;
                response.end(`${asked.method} ${size}`);
              }
            : undefined,
      }),
      feature('page', {
        http: (path) => (path === '/page' ? { type: 'text/plain', read: async () => 'a page' } : undefined),
      }),
    ]);
    const posted = await fetch(`${http}/count?q=1`, { method: 'POST', body: 'x'.repeat(10) });
    expect(await posted.text()).toBe('POST 10');
    expect(await (await fetch(`${http}/page`)).text()).toBe('a page');
    expect((await fetch(`${http}/page`, { method: 'POST' })).status).toBe(405);
    expect((await fetch(`${http}/other`)).status).toBe(426);
    expect(await request(session, 'still')).toBe('re: still');
  });

  it('is answered with 500 if the feature throws, and nothing else ends', async () => {
    const hooks: Readonly<Record<string, FeatureHooks['http']>> = {
      '/hook': fault,
      '/handler': () => fault,
      '/late': () => async () => fault(),
    };
    const { http, session, errors } = await serve([
      feature('bad', { http: (path, port) => hooks[path]?.(path, port) }),
      feature('good', {
        http: (path) => (path === '/good' ? (_, response) => void response.end('good') : undefined),
      }),
    ]);
    for (const path of Object.keys(hooks)) expect((await fetch(`${http}${path}`)).status).toBe(500);
    expect(errors).toEqual(Array(3).fill(['part.failed', 'bad']));
    expect(await (await fetch(`${http}/good`)).text()).toBe('good');
    expect((await fetch(`${http}/healthz`)).status).toBe(200);
    expect(await request(session, 'still')).toBe('re: still');
  });

  it('is not answered for a name that was re-pointed at loopback', async () => {
    const { http } = await serve([
      feature('handler', { http: () => (_, response) => void response.end('shown') }),
    ]);
    const { port } = new URL(http);
    expect(await statusFor(Number(port), 'evil.example')).toBe(403);
    expect(await statusFor(Number(port), 'localhost')).toBe(200);
  });
});

describe('WebSockets at paths of features', () => {
  it('are many on one port, beside sessions', async () => {
    const { ws, session } = await serve([echo('/one'), echo('/two', 'chat')]);
    const one = dial(`${ws}/one?x=1`);
    const two = dial(`${ws}/two`, ['other', 'chat']);
    expect(await says(one, 'a')).toBe('[a]');
    expect(await says(two, 'b')).toBe('[b]');
    expect([one.protocol, two.protocol]).toEqual(['', 'chat']);
    expect(await request(session, 'c')).toBe('re: c');
    expect(await refusalOf(dial(`${ws}/two`, ['other']))).toBe(400);
    expect(await refusalOf(dial(`${ws}/three`))).toBe(404);
  });

  it('are those of two servers on one HTTP server', async () => {
    const http = createHttpServer();
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    open.push(() => {
      http.close();
      http.closeAllConnections();
    });
    const url = `ws://127.0.0.1:${(http.address() as AddressInfo).port}`;
    for (const path of ['/first', '/second']) {
      const server = peers.use(
        createServer({ path: `${path}/session`, features: [echo(path), echo('/both')] }),
      );
      server.attach(http);
    }
    for (const path of ['/first', '/second', '/both'])
      expect(await says(dial(url + path), path)).toBe(`[${path}]`);
    expect(await refusalOf(dial(`${url}/neither`))).toBe(404);
  });

  it('are refused to pages of other origins, and to addresses that come too often', async () => {
    const { ws } = await serve([echo('/echo')], { limits: { connectionsPerMinutePerIp: 3 } });
    expect(await refusalOf(dial(`${ws}/echo`, [], { origin: 'https://evil.example' }))).toBe(403);
    expect(await says(dial(`${ws}/echo`), 'a')).toBe('[a]');
    expect(await says(dial(`${ws}/echo`), 'b')).toBe('[b]');
    expect(await refusalOf(dial(`${ws}/echo`))).toBe(429);
  });

  it('count once, also if they carry sessions', async () => {
    const second = (host: FeatureHost): FeatureHooks => ({
      upgrade: (path) => ({
        subprotocol: 'm2m.v1',
        open(socket, { request }) {
          const arrival = host.enter(request);
          if (path === '/second' && !('status' in arrival)) host.begin(socket, arrival, 'm2m.v1');
        },
      }),
    });
    const features = [{ name: 'second', install: second }];
    const { ws } = await serve(features, { limits: { connectionsPerMinutePerIp: 2 } });
    for (let i = 0; i < 2; i++)
      expect((await (await peers.dial(`${ws}/second`)).request('x')).text).toBe('re: x');
    expect(await refusalOf(dial(`${ws}/second`, ['m2m.v1']))).toBe(429);
  });

  it('are closed when the server closes, which waits for none of them', async () => {
    const server = createServer({
      features: [echo('/echo'), feature('idle', { upgrade: () => ({ open() {} }) })],
    });
    const { port } = await server.listen();
    const sockets = ['echo', 'idle'].map((path) => dial(`ws://127.0.0.1:${port}/${path}`));
    await Promise.all(sockets.map((socket) => once(socket, 'open')));
    const closed = sockets.map((socket) => once(socket, 'close'));
    await server.close();
    expect((await Promise.all(closed)).map(([code]) => code)).toEqual([1001, 1001]);
  });

  it('end if their feature throws, and nothing else ends', async () => {
    const bad: Readonly<Record<string, FeatureHooks['upgrade']>> = {
      '/hook': fault,
      '/open': () => ({ open: fault }),
      '/late': () => ({ open: async () => fault() }),
      '/message': () => ({ open: (socket) => socket.listen({ onMessage: fault }) }),
    };
    const { ws, session, errors } = await serve([
      feature('bad', { upgrade: (path) => bad[path]?.(path) }),
      echo('/good'),
    ]);
    const good = dial(`${ws}/good`);
    expect(await says(good, 'a')).toBe('[a]');
    expect(await refusalOf(dial(`${ws}/hook`))).toBe(500);
    for (const path of ['/open', '/late', '/message']) {
      const socket = dial(ws + path);
      socket.on('open', () => socket.send('x'));
      const [code] = await once(socket, 'close');
      expect(code).toBe(1011);
    }
    expect(new Set(errors.map(String))).toEqual(new Set(['part.failed,bad']));
    expect(await says(good, 'b')).toBe('[b]');
    expect(await request(session, 'c')).toBe('re: c');
  });
});

/** The status of a request under another host name, which `fetch` cannot send. */
async function statusFor(port: number, host: string): Promise<number | undefined> {
  const asked = askOver({ port, host: '127.0.0.1', path: '/', headers: { host } });
  asked.end();
  const [response] = await once(asked, 'response');
  response.resume();
  return response.statusCode;
}
