import { once } from 'node:events';
import { createServer as createHttpServer, request as httpRequest, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect as connectSocket } from 'node:net';
import { CloseCode } from '@parlance/protocol';
import { encodeClose, encodeRecords } from '@parlance/protocol/records';
import { createServer, type ServerOptions } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import { createPeers, helloBytes } from '../kit/peers.js';
import { UNLIMITED } from '../kit/unlimited.js';
import { frames, HELLO, OCTETS, open, PING, post } from './by-hand.js';

/** The requests that a session over HTTP is made of, by hand: those of a client, and those of others. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

async function serve(options: ServerOptions = {}) {
  const { server, port } = await peers.serve({ limits: UNLIMITED, ...options });
  return { server, port };
}

describe('the request that opens a stream', () => {
  it('is answered without a length and without chunks, with what keeps proxies from holding it back', async () => {
    const { port } = await serve();
    const stream = await open(port);
    await expect.poll(stream.types).toEqual(['ACCEPT']);
    const { headers, statusCode } = stream.response;
    expect(statusCode).toBe(200);
    expect(headers).toMatchObject({
      connection: 'close',
      'content-type': 'application/octet-stream',
      'cache-control': 'no-store, no-transform',
      'x-accel-buffering': 'no',
    });
    expect(headers).not.toHaveProperty('content-length');
    expect(headers).not.toHaveProperty('transfer-encoding');
    stream.request.destroy();
  });

  it('may leave HELLO to the first request with frames', async () => {
    const { port } = await serve();
    const stream = await open(port, new Uint8Array());
    expect(
      (await post(port, '/session/frames', frames(stream.key, 1, helloBytes() as Uint8Array))).status,
    ).toBe(204);
    await expect.poll(stream.types).toEqual(['ACCEPT']);
    stream.request.destroy();
  });

  it('has a key that names its node and that no other has', async () => {
    const { port } = await serve();
    const [one, other] = [await open(port), await open(port)];
    const node = Buffer.from(one.key.subarray(16)).toString();
    expect(node).toMatch(/^[\w-]{6,}$/);
    expect(Buffer.from(other.key.subarray(16)).toString()).toBe(node);
    expect(other.key.subarray(0, 16)).not.toEqual(one.key.subarray(0, 16));
    for (const { request } of [one, other]) request.destroy();
  });

  it('is refused by its method, type, coding and length', async () => {
    const { port } = await serve({ limits: { ...UNLIMITED, maxHandshakeSize: 4_096 } });
    for (const path of ['/session/stream', '/session/frames']) {
      const got = await post(port, path, new Uint8Array(), {}, 'GET');
      expect([got.status, got.headers['allow']]).toEqual([405, 'POST']);
      expect((await post(port, path, new Uint8Array(), {}, 'OPTIONS')).status).toBe(405);
      expect((await post(port, path, HELLO, { 'content-encoding': 'gzip' })).status).toBe(415);
      expect((await post(port, path, HELLO, { 'content-type': 'application/json' })).status).toBe(415);
    }
    const most = 4_096 + 8;
    expect((await post(port, '/session/stream', new Uint8Array(most + 1))).status).toBe(413);
    // Its length is allowed, so it is read, and refused because it is not a record.
    expect((await post(port, '/session/stream', new Uint8Array(most).fill(0xff))).status).toBe(200);
  });

  it('counts as an upgrade does, in the limits of an address', async () => {
    const { port } = await serve({ limits: { ...UNLIMITED, connectionsPerMinutePerIp: 2 } });
    for (let i = 0; i < 2; i++) (await open(port)).request.destroy();
    const got = await post(port, '/session/stream', HELLO);
    expect(got.status).toBe(429);
    expect(Number(got.headers['retry-after'])).toBeGreaterThan(0);
  });

  it('is answered with 100 if it asks first', async () => {
    const { port } = await serve();
    const request = httpRequest({
      port,
      path: '/session/stream',
      method: 'POST',
      headers: { ...OCTETS, expect: '100-continue' },
      agent: false,
    });
    request.flushHeaders();
    await once(request, 'continue');
    request.end(HELLO);
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    expect(response.statusCode).toBe(200);
    request.on('error', () => {}).destroy();
  });

  it('ends if HELLO does not come in time, or in pieces without an end', async () => {
    const { server, port } = await serve({ timers: { helloTimeoutMs: 300 } });
    const silent = await open(port, new Uint8Array());
    await silent.over;
    expect(silent.closed()?.code).toBe(CloseCode.TIMEOUT);
    const slow = connectSocket(port, '127.0.0.1');
    slow.write(
      'POST /session/stream HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: text/plain\r\ncontent-length: 500\r\n\r\n',
    );
    await once(slow.resume(), 'close');
    expect(server.sessions.size).toBe(0);
  });
});

describe('pages', () => {
  const FOREIGN = { origin: 'https://other.example', 'content-type': 'text/plain' };

  it('of other origins are refused, and cannot read the answer', async () => {
    const { server, port } = await serve();
    const stream = await open(port, HELLO, FOREIGN);
    await stream.over;
    expect(stream.types()).toEqual(['REJECT']);
    expect(stream.closed()?.code).toBe(CloseCode.FORBIDDEN);
    expect(stream.response.headers).not.toHaveProperty('access-control-allow-origin');
    expect(server.sessions.size).toBe(0);
  });

  it('of origins that are listed are named, with their cookies', async () => {
    let cookie: string | undefined;
    const { port } = await serve({
      origins: ['https://other.example'],
      authenticate({ headers }) {
        ({ cookie } = headers);
        return { principal: 'a' };
      },
    });
    const stream = await open(port, HELLO, { ...FOREIGN, cookie: 'session=1' });
    await expect.poll(stream.types).toEqual(['ACCEPT']);
    expect(cookie).toBe('session=1');
    const allowed = {
      'access-control-allow-origin': 'https://other.example',
      'access-control-allow-credentials': 'true',
      vary: 'origin',
    };
    expect(stream.response.headers).toMatchObject(allowed);
    const taken = await post(port, '/session/frames', frames(stream.key, 1, PING), FOREIGN);
    expect(taken).toMatchObject({ status: 204, headers: allowed });
    // The key is of use to the page alone that has opened the stream.
    for (const headers of [{}, { ...FOREIGN, origin: 'https://third.example' }]) {
      const stolen = await post(port, '/session/frames', frames(stream.key, 2, PING), headers);
      expect(stolen.status).toBe(403);
      expect(stolen.headers).not.toHaveProperty('access-control-allow-origin');
    }
    stream.request.destroy();
  });

  it('have to be named by requests with cookies', async () => {
    const { port } = await serve({ authenticate: () => ({ principal: 'a' }) });
    const stream = await open(port, HELLO, { cookie: 'session=1' });
    await stream.over;
    expect(stream.types()).toEqual(['REJECT']);
  });
});

describe('a request with frames', () => {
  it('has its key in the first 1,024 bytes, so that a stranger has the server keep no more', async () => {
    const { port } = await serve();
    // The beginning of a record of 1 MiB.
    const body = Buffer.alloc(1_025, 1);
    body.set([0x80, 0x80, 0x40]);
    expect((await post(port, '/session/frames', body.subarray(0, 1_024))).status).toBe(400);
    const path = '/session/frames';
    const request = httpRequest({ port, path, method: 'POST', headers: OCTETS, agent: false });
    request.on('error', () => {}).write(body);
    // It is answered while the rest of its body is awaited.
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    expect(response.statusCode).toBe(404);
    request.destroy();
    expect((await post(port, path, encodeClose(1_000, ''))).status).toBe(404);
  });

  it('is taken once, and in order', async () => {
    const { port } = await serve();
    const { key, types, request } = await open(port);
    await expect.poll(types).toEqual(['ACCEPT']);
    const statusOf = async (body: Uint8Array) => (await post(port, '/session/frames', body)).status;
    expect(await statusOf(frames(key, 2, PING))).toBe(409);
    expect(await statusOf(frames(key, 1, PING))).toBe(204);
    await expect.poll(types).toEqual(['ACCEPT', 'PONG']);
    expect(await statusOf(frames(key, 1, PING))).toBe(204);
    expect(await statusOf(frames(key, 2, PING, PING))).toBe(204);
    await expect.poll(types).toEqual(['ACCEPT', 'PONG', 'PONG', 'PONG']);
    request.destroy();
  });

  it('has to have the key of an open stream', async () => {
    const { port } = await serve({ limits: { ...UNLIMITED, connectionsPerMinutePerIp: 7 } });
    const stream = await open(port);
    const forged = Uint8Array.from(stream.key);
    forged[3] = (forged[3] as number) ^ 1;
    const statusOf = async (body: Uint8Array) => (await post(port, '/session/frames', body)).status;
    expect(await statusOf(frames(forged, 1, PING))).toBe(404);
    expect(await statusOf(frames(stream.key.subarray(0, -1), 1, PING))).toBe(404);
    expect(await statusOf(frames(new Uint8Array(), 1, PING))).toBe(404);
    expect(await statusOf(new Uint8Array())).toBe(404);
    stream.request.destroy();
    await stream.over;
    await expect.poll(() => statusOf(frames(stream.key, 1, PING))).toBe(404);
    // One that tries keys is turned away as one that opens too many connections.
    await expect.poll(() => statusOf(frames(forged, 1, PING))).toBe(429);
  });

  it('that is under way admits no other one', async () => {
    const { port } = await serve();
    const { key, types, request } = await open(port);
    await expect.poll(types).toEqual(['ACCEPT']);
    const body = frames(key, 1, PING, PING);
    const first = httpRequest({
      port,
      path: '/session/frames',
      method: 'POST',
      headers: { ...OCTETS, 'content-length': body.length },
      agent: false,
    });
    const answered = once(first, 'response') as Promise<[IncomingMessage]>;
    first.write(body.subarray(0, -1));
    await expect.poll(types).toEqual(['ACCEPT', 'PONG']);
    for (const number of [1, 2])
      expect((await post(port, '/session/frames', frames(key, number, PING))).status).toBe(409);
    first.end(body.subarray(-1));
    expect((await answered)[0].statusCode).toBe(204);
    await expect.poll(types).toEqual(['ACCEPT', 'PONG', 'PONG']);
    request.destroy();
  });

  it('that breaks off gives its whole frames, and ends the connection', async () => {
    const { port } = await serve();
    const { key, types, over, closed } = await open(port);
    await expect.poll(types).toEqual(['ACCEPT']);
    const body = frames(key, 1, PING, PING);
    const half = connectSocket(port, '127.0.0.1');
    half.write(
      `POST /session/frames HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: text/plain\r\ncontent-length: ${body.length}\r\n\r\n`,
    );
    half.write(body.subarray(0, -1));
    await expect.poll(types).toEqual(['ACCEPT', 'PONG']);
    half.destroy();
    await over;
    expect(closed()).toBeUndefined();
  });

  it('that does not end in time ends the connection', async () => {
    const { port } = await serve({ timers: { helloTimeoutMs: 300 } });
    const { key, types, over } = await open(port);
    await expect.poll(types).toEqual(['ACCEPT']);
    const body = frames(key, 1, PING, PING);
    const slow = connectSocket(port, '127.0.0.1');
    slow.on('error', () => {});
    slow.write(
      `POST /session/frames HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: text/plain\r\ncontent-length: ${body.length}\r\n\r\n`,
    );
    slow.write(body.subarray(0, -1));
    await over;
    slow.destroy();
  });

  it('that is not made of records, or longer than allowed, ends the connection', async () => {
    const { port } = await serve({ limits: { ...UNLIMITED, maxMessageSize: 300_000 } });
    const maxRecord = 300_000 + 16 * 1024;
    const cases = [
      [(key: Uint8Array) => Buffer.concat([frames(key, 1), Buffer.of(0x80)]), 400, CloseCode.BAD_FRAME],
      [
        (key: Uint8Array) => Buffer.concat([frames(key, 1), encodeRecords([new Uint8Array(maxRecord + 1)])]),
        413,
        CloseCode.TOO_LARGE,
      ],
    ] as const;
    for (const [bodyOf, status, code] of cases) {
      const { key, types, over, closed } = await open(port);
      await expect.poll(types).toEqual(['ACCEPT']);
      expect((await post(port, '/session/frames', bodyOf(key))).status).toBe(status);
      await over;
      expect(closed()?.code).toBe(code);
    }
  });

  it('is refused by its length before it is read', async () => {
    const { port } = await serve({ limits: { ...UNLIMITED, maxMessageSize: 300_000 } });
    const most = 64 * 1024 + 300_000 + 16 * 1024;
    expect((await post(port, '/session/frames', new Uint8Array(most + 1))).status).toBe(413);
    expect((await post(port, '/session/frames', new Uint8Array(most))).status).toBe(404);
  });

  it('may close the connection, with a code', async () => {
    const { server, port } = await serve();
    const { key, types, over } = await open(port);
    await expect.poll(types).toEqual(['ACCEPT']);
    expect(server.sessions.size).toBe(1);
    const body = Buffer.concat([frames(key, 1), encodeClose(1000, 'done')]);
    expect((await post(port, '/session/frames', body)).status).toBe(204);
    await over;
    await expect.poll(() => server.sessions.size).toBe(0);
  });
});

describe('a server', () => {
  it('answers such requests with 404 if it has WebSockets only', async () => {
    const options: ServerOptions = { transports: ['websocket'] };
    const { port } = await peers.serve(options);
    for (const path of ['/session/stream', '/session/frames'])
      expect((await post(port, path, HELLO)).status).toBe(404);
    const server = peers.use(createServer(options));
    const http = createHttpServer((request, response) => {
      if (!server.respond(request, response)) response.writeHead(404).end();
    });
    await once(http.listen(0, '127.0.0.1'), 'listening');
    const { port: own } = http.address() as AddressInfo;
    expect((await post(own, '/session/stream', HELLO)).status).toBe(404);
    http.close();
  });

  it('serves sessions over HTTP on a server of the application', async () => {
    const server = peers.use(createServer({ path: '/here' }));
    const http = createHttpServer((request, response) => {
      if (!server.respond(request, response)) response.writeHead(404).end();
    });
    server.attach(http);
    await once(http.listen(0, '127.0.0.1'), 'listening');
    const { port } = http.address() as AddressInfo;
    const session = await peers.dial(`ws://127.0.0.1:${port}/here`, { transports: ['http'] });
    expect(server.sessions.size).toBe(1);
    await session.close();
    http.close();
  });

  it('ends its streams when it closes', async () => {
    const { server, port } = await serve({ timers: { closingTimeoutMs: 100 } });
    const { types, over, closed } = await open(port);
    await expect.poll(types).toEqual(['ACCEPT']);
    const unanswered = await open(port, new Uint8Array());
    await server.close();
    await Promise.all([over, unanswered.over]);
    expect([closed()?.code, unanswered.closed()?.code].every((code) => code !== undefined)).toBe(true);
  });
});
