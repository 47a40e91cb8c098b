import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect as connectSocket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { CloseCode, decodeControl } from '@parlance/protocol';
import { encodeClose, encodeRecords, RecordReader } from '@parlance/protocol/records';
import type { ServerOptions } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import { createPeers, failure, helloBytes } from '../kit/peers.js';
import { merged } from '../kit/server-options.js';
import { UNLIMITED } from '../kit/unlimited.js';
import { frames, HELLO, open, PING, post } from './by-hand.js';

/** Keys, numbers and HELLO of sessions over HTTP that are forged or repeated, or that browsers send twice by themselves. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

const FRAMES = '/session/frames';
/** The control messages behind a key. */
const controlsIn = ([, ...frames]: readonly Uint8Array[]) =>
  frames.filter(([first = 0]) => first >= 0x80).map((frame) => decodeControl(frame));
const typesIn = (records: readonly Uint8Array[]) => controlsIn(records).map(({ type }) => type);
const EXTENSIONS = { link: '{}', resume: '{}' };

async function serve(options: ServerOptions = {}) {
  const { server, port } = await peers.serve(merged({ limits: UNLIMITED }, options));
  return { server, port };
}

describe('a key', () => {
  it('is refused if it is a part of one, or has more', async () => {
    const { port } = await serve();
    const stream = await open(port);
    const { key } = stream;
    const others = [
      ...[0, 1, 3, 15, 16].map((size) => key.subarray(0, size)),
      Buffer.concat([key, Buffer.of(0)]),
      Buffer.concat([Buffer.of(0), key]),
    ];
    for (const other of others) expect((await post(port, FRAMES, frames(other, 1, PING))).status).toBe(404);
    // Too short for a number.
    for (const first of [Buffer.of(1), Buffer.of(1, 0, 0)])
      expect((await post(port, FRAMES, encodeRecords([first, PING]))).status).toBe(404);
    expect(stream.types()).toEqual(['ACCEPT']);
    stream.request.destroy();
  });

  it('of a stream that another one has replaced is worth nothing', async () => {
    const { port } = await serve();
    const hello = encodeRecords([
      helloBytes({ extensions: EXTENSIONS, nonce: new Uint8Array(16).fill(3) }) as Uint8Array,
    ]);
    const first = await open(port, hello);
    const second = await open(port, hello);
    await first.over;
    expect((await post(port, FRAMES, frames(first.key, 1, PING))).status).toBe(404);
    expect((await post(port, FRAMES, frames(second.key, 1, PING))).status).toBe(204);
    await expect.poll(() => typesIn(second.records)).toContain('PONG');
    second.request.destroy();
  });
});

describe('numbers', () => {
  it('out of order, or of before, have no effect', async () => {
    const { port } = await serve();
    const { key, types, request } = await open(port);
    await expect.poll(types).toEqual(['ACCEPT']);
    const statuses = async (...numbers: number[]) => {
      const got: number[] = [];
      for (const number of numbers) got.push((await post(port, FRAMES, frames(key, number, PING))).status);
      return got;
    };
    expect(await statuses(3, 2, 0xffff_ffff)).toEqual([409, 409, 409]);
    // 0 is that of the request for the stream.
    expect(await statuses(0)).toEqual([204]);
    expect(types()).toEqual(['ACCEPT']);
    expect(await statuses(1, 1, 2, 1, 2, 0, 4, 3)).toEqual([204, 204, 204, 204, 204, 204, 409, 204]);
    await expect.poll(types).toEqual(['ACCEPT', 'PONG', 'PONG', 'PONG']);
    request.destroy();
  });

  it('that come together are taken once', async () => {
    const { port } = await serve();
    const { key, types, request } = await open(port);
    await expect.poll(types).toEqual(['ACCEPT']);
    const body = frames(key, 1, PING);
    const answers = await Promise.all(Array.from({ length: 20 }, () => post(port, FRAMES, body)));
    const statuses = new Set(answers.map(({ status }) => status));
    expect(statuses.has(204)).toBe(true);
    expect([...statuses].every((status) => status === 204 || status === 409)).toBe(true);
    expect((await post(port, FRAMES, frames(key, 2, PING))).status).toBe(204);
    await expect.poll(types).toEqual(['ACCEPT', 'PONG', 'PONG']);
    request.destroy();
  });

  it('that come in one go on one connection are taken in order, as far as they are', async () => {
    const { port } = await serve();
    const { key, types, request } = await open(port);
    await expect.poll(types).toEqual(['ACCEPT']);
    const line = connectSocket(port, '127.0.0.1');
    let text = '';
    line.on('data', (chunk) => {
      text += chunk.toString('latin1');
    });
    for (const number of [1, 2, 3, 2]) {
      const body = frames(key, number, PING);
      const head = `POST ${FRAMES} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: text/plain\r\ncontent-length: ${body.length}`;
      line.write(Buffer.concat([Buffer.from(`${head}\r\n\r\n`), body]));
    }
    let isOver = false;
    line.on('close', () => {
      isOver = true;
    });
    const answers = () => [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
    await expect.poll(() => isOver || answers().length === 4).toBe(true);
    // One that comes before the last one has ended is out of order, and ends the line.
    const taken = Math.min(3, answers().filter((status) => status === '204').length);
    expect(taken).toBeGreaterThan(0);
    expect(['204', '409']).toEqual(expect.arrayContaining(answers()));
    expect((await post(port, FRAMES, frames(key, taken + 1, PING))).status).toBe(204);
    await expect.poll(types).toEqual(['ACCEPT', ...Array.from({ length: taken + 1 }, () => 'PONG')]);
    line.destroy();
    request.destroy();
  });

  it('that repeat without end cost the connection', async () => {
    const { port } = await serve({ limits: { ...UNLIMITED, controlMessagesPerMinute: 60 } });
    const { key, over, closed } = await open(port);
    const body = frames(key, 0, PING);
    let isOver = false;
    void over.then(() => {
      isOver = true;
    });
    for (let tries = 0; !isOver && tries < 1_000; tries++) await post(port, FRAMES, body);
    expect(closed()?.code).toBe(CloseCode.RATE_LIMITED);
  });
});

describe('HELLO', () => {
  it('that comes again on its stream ends the session, and is not answered', async () => {
    const { server, port } = await serve();
    const twice = await open(port, Buffer.concat([HELLO, HELLO]));
    const later = await open(port, HELLO);
    await post(port, FRAMES, frames(later.key, 1, helloBytes() as Uint8Array));
    for (const stream of [twice, later]) {
      await stream.over;
      expect(stream.types().filter((type) => type === 'ACCEPT').length).toBeLessThan(2);
      expect(stream.closed()?.code).toBe(CloseCode.BAD_FRAME);
    }
    await expect.poll(() => server.sessions.size).toBe(0);
  });

  it('that comes on two streams at the same time begins one session, 20 of 20', async () => {
    const begun: string[] = [];
    const { port, server } = await serve({
      onSession: ({ id }) => void begun.push(id),
      authenticate: async () => {
        await pause(1);
        return { principal: 'a' };
      },
    });
    for (let round = 1; round <= 20; round++) {
      const nonce = new Uint8Array(16).fill(round);
      const hello = encodeRecords([helloBytes({ extensions: EXTENSIONS, nonce }) as Uint8Array]);
      const both = await Promise.all([open(port, hello), open(port, hello)]);
      const lost = await Promise.race(both.map(({ over }, at) => over.then(() => at)));
      const left = both[1 - lost] as (typeof both)[0];
      await expect.poll(() => typesIn(left.records)).toContain('ACCEPT');
      const ids = new Set(
        both.flatMap(({ records }) =>
          controlsIn(records).flatMap(({ type, sessionId }) => (type === 'ACCEPT' ? [sessionId] : [])),
        ),
      );
      expect([ids.size, begun.length, server.sessions.size]).toEqual([1, round, round]);
      left.request.destroy();
    }
  });
});

describe('a client', () => {
  it('ends a session whose server answers HELLO twice', async () => {
    const { port } = await serve();
    const { records, request } = await open(
      port,
      encodeRecords([helloBytes({ extensions: {} }) as Uint8Array]),
    );
    await expect.poll(() => records.length).toBe(2);
    request.destroy();
    const [key, accept] = records as [Uint8Array, Uint8Array];
    const codes: number[] = [];
    const server = createHttpServer((asked, response) => {
      asked.on('data', (chunk: Buffer) => {
        const reader = new RecordReader(1e6, { onRecord() {}, onClose: (code) => codes.push(code) });
        reader.push(chunk);
      });
      asked.on('end', () => {
        if (!asked.url?.endsWith('/stream')) response.writeHead(204).end();
        else response.write(encodeRecords([key, accept, accept]));
      });
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port: own } = server.address() as AddressInfo;
    const ended = failure(peers.dial(`ws://127.0.0.1:${own}/session`, { transports: ['http'] }));
    expect((await ended).code).toBe('protocol_violation');
    await expect.poll(() => codes).toEqual([CloseCode.BAD_FRAME]);
    server.closeAllConnections();
    server.close();
  });

  it('takes no frame that comes before the key, behind a close, or is longer than it allows', async () => {
    const answers = [
      Buffer.alloc(0),
      encodeClose(CloseCode.FORBIDDEN, 'no'),
      Buffer.concat([encodeClose(CloseCode.FORBIDDEN, 'no'), encodeRecords([PING])]),
      Buffer.of(0xff, 0xff, 0xff, 0xff, 0x7f),
      Buffer.of(0x80, 0x80, 0x80, 0x80, 0x80, 0x80),
    ];
    for (const answer of answers) {
      const server = createHttpServer(
        (asked, response) => void asked.resume().on('end', () => response.end(answer)),
      );
      await once(server.listen(0, '127.0.0.1'), 'listening');
      const { port } = server.address() as AddressInfo;
      const refused = await failure(
        peers.dial(`ws://127.0.0.1:${port}/session`, { transports: ['http'], reconnect: false }),
      );
      expect(refused.code).toMatch(/^(connection_failed|rejected)$/);
      server.closeAllConnections();
      server.close();
    }
  });
});
