import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { connect as connectSocket, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { CloseCode, decodeControl } from '@parlance/protocol';
import { encodeClose, RecordReader } from '@parlance/protocol/records';
import type { ServerOptions } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import { createPeers } from '../kit/peers.js';
import { merged } from '../kit/server-options.js';
import { UNLIMITED } from '../kit/unlimited.js';
import { frames, HELLO, OCTETS, open, PING, post } from './by-hand.js';

/** Requests of attackers to sessions over HTTP. */

const peers = createPeers();
const sockets = new Set<Socket>();
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  await peers[Symbol.asyncDispose]();
});

const STREAM = '/session/stream';
const FRAMES = '/session/frames';

async function serve(options: ServerOptions = {}) {
  const { server, port } = await peers.serve(merged({ limits: UNLIMITED }, options));
  return { server, port };
}

/** A TCP connection on which the test writes what it likes, and what it is answered. */
function dial(port: number) {
  const socket = connectSocket(port, '127.0.0.1');
  sockets.add(socket);
  let text = '';
  socket
    .on('error', () => {})
    .on('data', (chunk) => {
      text += chunk.toString('latin1');
    });
  const over = new Promise((resolve) => socket.once('close', resolve));
  return { socket, over, text: () => text };
}

const headOf = (path: string, more: string) =>
  `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: text/plain\r\n${more}\r\n`;

/** A body without `Content-Length`, whose answer is read until its end. */
async function postInChunks(port: number, path: string, body: Uint8Array) {
  const request = httpRequest({ port, path, method: 'POST', headers: OCTETS, agent: false });
  request.on('error', () => {});
  const answered = once(request, 'response') as Promise<[IncomingMessage]>;
  for (let at = 0; at < body.length; at += 10_000) request.write(body.subarray(at, at + 10_000));
  request.end();
  const [response] = await answered;
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return { status: response.statusCode, body: Buffer.concat(chunks) };
}

/** Records that say nothing, of so many bytes together. */
function padding(size: number): Buffer {
  const [most, head] = [100, encodeClose(0, '').length];
  const pieces: Uint8Array[] = [];
  for (let left = size; left > 0; ) {
    // Then nothing is left, or enough for a record.
    const length = left <= head + most ? left : Math.min(head + most, left - head);
    pieces.push(encodeClose(0, ' '.repeat(length - head)));
    left -= length;
  }
  return Buffer.concat(pieces);
}

describe('a request that does not come to its end', () => {
  it('by a head that is half, or comes byte by byte, has its connection cut', async () => {
    const { server, port } = await serve({ timers: { helloTimeoutMs: 300 } });
    for (const path of [STREAM, FRAMES]) {
      const [half, slow] = [dial(port), dial(port)];
      const head = headOf(path, `x-slow: ${'x'.repeat(500)}\r\n`);
      half.socket.write(head.slice(0, 40));
      const dripping = (async () => {
        for (let at = 0; at < head.length && !slow.socket.destroyed; at++) {
          slow.socket.write(head[at] as string);
          await pause(20);
        }
      })();
      await Promise.all([half.over, slow.over]);
      await dripping;
    }
    expect(server.sessions.size).toBe(0);
  });

  it('by a body that comes byte by byte, has its connection cut', async () => {
    const { port } = await serve({ timers: { helloTimeoutMs: 300 } });
    for (const path of [STREAM, FRAMES]) {
      const slow = dial(port);
      slow.socket.write(headOf(path, 'content-length: 1000\r\n'));
      for (let at = 0; at < 1_000 && !slow.socket.destroyed; at++) {
        slow.socket.write('\x01');
        await pause(20);
      }
      await slow.over;
    }
  });

  it('because its client ends its half of the connection, ends the stream', async () => {
    const { server, port } = await serve({ timers: { resumeWindowMs: 1 } });
    const half = dial(port);
    half.socket.write(headOf(STREAM, `content-length: ${HELLO.length}\r\n`));
    half.socket.write(HELLO);
    await expect.poll(half.text).toContain('ACCEPT');
    half.socket.end();
    await half.over;
    await expect.poll(() => server.sessions.size).toBe(0);
  });

  it('takes no place of those who come whole', async () => {
    const { port } = await serve();
    const halves = Array.from({ length: 50 }, (_, at) => {
      const half = dial(port);
      half.socket.write(headOf(at % 2 === 0 ? STREAM : FRAMES, 'content-length: 100\r\n'));
      return half;
    });
    await Promise.all(halves.map(({ socket }) => socket.connecting && once(socket, 'connect')));
    const stream = await open(port);
    await expect.poll(stream.types).toEqual(['ACCEPT']);
    expect((await post(port, FRAMES, frames(stream.key, 1, PING))).status).toBe(204);
    stream.request.destroy();
  });
});

describe('the size of a body that does not state it', () => {
  it('is bounded for HELLO', async () => {
    const { port } = await serve({ limits: { ...UNLIMITED, maxHandshakeSize: 4_096 } });
    const most = 4_096 + 8;
    const ends: (number | undefined)[] = [];
    for (const size of [most, most + 1]) {
      const stream = await open(port, HELLO);
      stream.request.destroy();
      const body = Buffer.concat([HELLO, padding(size - HELLO.length)]);
      expect(body).toHaveLength(size);
      const request = httpRequest({ port, path: STREAM, method: 'POST', headers: OCTETS, agent: false });
      request.on('error', () => {}).write(body);
      request.end();
      const [response] = (await once(request, 'response')) as [IncomingMessage];
      expect(response.statusCode).toBe(200);
      let end: number | undefined;
      const types: string[] = [];
      let isKey = true;
      const reader = new RecordReader(1e6, {
        onRecord(frame) {
          if (!isKey) types.push(decodeControl(frame).type);
          isKey = false;
        },
        onClose: (code) => {
          end = code;
        },
      });
      response.on('data', (chunk: Buffer) => reader.push(chunk)).on('error', () => {});
      await expect.poll(() => types.length > 0 || end !== undefined).toBe(true);
      ends.push(end);
      request.destroy();
    }
    expect(ends).toEqual([undefined, CloseCode.TOO_LARGE]);
  });

  it('is bounded for frames, and so is each record', async () => {
    const { port } = await serve({ limits: { ...UNLIMITED, maxMessageSize: 300_000 } });
    const maxRecord = 300_000 + 16 * 1024;
    const most = 64 * 1024 + maxRecord;
    const none = new Uint8Array(maxRecord + 1).fill(0x60);
    const cases: [(key: Uint8Array) => Uint8Array, number, number | undefined][] = [
      [(key) => padded(frames(key, 1), most), 204, undefined],
      [(key) => padded(frames(key, 1), most + 1), 413, CloseCode.TOO_LARGE],
      // It is read, and the session refuses it: the close code comes down the stream.
      [(key) => frames(key, 1, none.subarray(1)), 204, CloseCode.TOO_LARGE],
      [(key) => frames(key, 1, none), 413, CloseCode.TOO_LARGE],
    ];
    for (const [bodyOf, status, code] of cases) {
      const stream = await open(port);
      await expect.poll(stream.types).toEqual(['ACCEPT']);
      expect((await postInChunks(port, FRAMES, bodyOf(stream.key))).status).toBe(status);
      if (code !== undefined) await stream.over;
      expect(stream.closed()?.code).toBe(code);
      stream.request.destroy();
    }
  });

  const padded = (body: Uint8Array, size: number) => Buffer.concat([body, padding(size - body.length)]);
});

describe('a head', () => {
  it('with any coding is refused', async () => {
    const { port } = await serve();
    for (const path of [STREAM, FRAMES]) {
      for (const coding of ['gzip', 'br', 'deflate', 'zstd', 'identity, gzip', 'x'])
        expect((await post(port, path, HELLO, { 'content-encoding': coding })).status).toBe(415);
    }
  });

  it('that asks before it sends is answered, and one that expects something else is refused', async () => {
    const { server, port } = await serve();
    const stream = await open(port);
    const body = frames(stream.key, 1, PING);
    const headers = { ...OCTETS, expect: '100-continue', 'content-length': body.length };
    const request = httpRequest({ port, path: FRAMES, method: 'POST', headers, agent: false });
    request.flushHeaders();
    await once(request, 'continue');
    request.end(body);
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    expect(response.statusCode).toBe(204);
    for (const path of [STREAM, FRAMES])
      expect((await post(port, path, HELLO, { expect: 'something' })).status).toBe(417);
    expect(server.sessions.size).toBe(1);
    stream.request.destroy();
  });

  it('with two lengths hides no second request', async () => {
    const { server, port } = await serve();
    const both = dial(port);
    const hidden = `${headOf(STREAM, `content-length: ${HELLO.length}\r\n`)}${Buffer.from(HELLO).toString('latin1')}`;
    both.socket.write(
      headOf(FRAMES, `transfer-encoding: chunked\r\ncontent-length: ${hidden.length + 5}\r\n`),
    );
    both.socket.write(Buffer.from(`0\r\n\r\n${hidden}`, 'latin1'));
    await both.over;
    expect(both.text()).toMatch(/^HTTP\/1\.1 400 /);
    expect(both.text().match(/HTTP\/1\.1 /g)).toHaveLength(1);
    expect(server.sessions.size).toBe(0);
  });
});

describe('a page of another site', () => {
  it('cannot have a browser begin a session with its cookies, by a form or otherwise', async () => {
    let asked = 0;
    const { server, port } = await serve({
      authenticate() {
        asked++;
        return { principal: 'a' };
      },
    });
    const cookie = 'session=1';
    // The types that forms send without asking first.
    for (const type of ['application/x-www-form-urlencoded', 'multipart/form-data; boundary=b'])
      expect(
        (await post(port, STREAM, HELLO, { cookie, origin: 'https://evil.example', 'content-type': type }))
          .status,
      ).toBe(415);
    const own = `http://localhost:${port}`;
    for (const origin of [
      'https://evil.example',
      'null',
      `${own}.evil.example`,
      `http://localhost:${port + 1}`,
    ]) {
      const stream = await open(port, HELLO, { cookie, origin, 'content-type': 'text/plain' });
      await stream.over;
      expect([stream.types(), stream.closed()?.code]).toEqual([['REJECT'], CloseCode.FORBIDDEN]);
      expect(stream.response.headers).not.toHaveProperty('access-control-allow-origin');
    }
    // As an image or a link would.
    expect((await post(port, STREAM, new Uint8Array(), { cookie }, 'GET')).status).toBe(405);
    expect([asked, server.sessions.size]).toEqual([0, 0]);
    const stream = await open(port, HELLO, { cookie, origin: own });
    await expect.poll(stream.types).toEqual(['ACCEPT']);
    stream.request.destroy();
  });
});

describe('no answer', () => {
  it('may be kept, whatever its status', async () => {
    const { port } = await serve({
      limits: { ...UNLIMITED, maxMessageSize: 300_000, connectionsPerMinutePerIp: 3 },
    });
    const page = { origin: `http://localhost:${port}` };
    const stream = await open(port, HELLO, page);
    const { key } = stream;
    const broken = Buffer.concat([frames(key, 2), Buffer.of(0x80)]);
    const kept = new Map([[200, stream.response.headers['cache-control']]]);
    const asked: [number, Uint8Array, Readonly<Record<string, string>>, string?][] = [
      [405, HELLO, page, 'GET'],
      [415, HELLO, { ...page, 'content-encoding': 'gzip' }],
      [413, new Uint8Array(400_000), page],
      [404, frames(new Uint8Array(22), 1), page],
      [403, frames(key, 1), {}],
      [409, frames(key, 7), page],
      [204, frames(key, 1, PING), page],
      [400, broken, page],
    ];
    for (const [status, body, headers, method] of asked) {
      const got = await post(port, FRAMES, body, headers, method);
      expect(got.status).toBe(status);
      kept.set(status, got.headers['cache-control']);
    }
    let last = await post(port, STREAM, HELLO.subarray(0, 1));
    for (let tries = 0; last.status !== 429 && tries < 10; tries++)
      last = await post(port, STREAM, HELLO.subarray(0, 1));
    kept.set(last.status, last.headers['cache-control']);
    expect([...kept.keys()]).toContain(429);
    for (const [status, value] of kept) expect(`${status} ${value}`).toContain('no-store');
    stream.request.destroy();
  });
});
