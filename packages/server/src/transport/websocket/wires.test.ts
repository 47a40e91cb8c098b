import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import {
  createServer as createHttpServer,
  type Server as HttpServer,
  request as httpRequest,
} from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import type { TransportEvents } from '../transport.js';
import { createWebSocketAdapter, WIRE_KINDS } from './adapter.js';
import { AUTOBAHN_CASES } from './testing/autobahn.js';
import { Certificates, opensslMissing } from './testing/certificates.js';
import { encodeFrame, type SentFrame } from './testing/frames.js';
import type { WebSocketTransport, WireKind } from './ws.js';

/** A wire on a socket behaves the same with each kind of wire. */

const MAX_PAYLOAD = 1024 * 1024;
/** Against hanging only; one test has a shorter one. */
const CLOSE_TIMEOUT_MS = 30_000;
const until = <T>(value: () => T) => expect.poll(value, { interval: 5 });

type Event = readonly [string, ...unknown[]];

/** A connection from both ends. */
interface Pair {
  readonly wire: WebSocketTransport;
  /** The server's events, without the bytes that were read. */
  readonly events: Event[];
  readonly server: Socket;
  readonly client: Socket;
  /** The bytes that the client has received after the upgrade. */
  received(): Buffer;
  send(...frames: readonly SentFrame[]): void;
}

const open: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});
let certificates: Certificates | undefined;
afterAll(() => certificates?.[Symbol.dispose]());

const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
const head = (change: (text: string) => string = (text) => text) =>
  change(
    'GET /session HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
      `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${KEY}\r\nSec-WebSocket-Protocol: m2m.v1\r\n\r\n`,
  );

interface Accepted {
  readonly wire: WebSocketTransport;
  readonly events: Event[];
  readonly server: Socket;
}

interface Serving {
  readonly onWire?: (wire: WebSocketTransport, events: Event[]) => Partial<TransportEvents>;
  readonly http?: HttpServer;
  readonly closeTimeoutMs?: number;
}

async function serve(
  kind: WireKind,
  { onWire, http = createHttpServer(), closeTimeoutMs = CLOSE_TIMEOUT_MS }: Serving = {},
): Promise<{ port: number; accepted: Promise<Accepted> }> {
  const adapter = createWebSocketAdapter({
    wire: kind,
    maxPayload: MAX_PAYLOAD,
    maxFragments: 1_000,
    closeTimeoutMs,
  });
  const accepted = new Promise<Accepted>((resolve) =>
    http.on('upgrade', (request, socket, first) =>
      adapter.upgrade(request, socket, first, 'm2m.v1', (wire) => {
        const events: Event[] = [];
        const more = onWire?.(wire, events);
        wire.listen({
          onMessage: (data, size) =>
            events.push(
              typeof data === 'string' ? ['text', data, size] : ['binary', Buffer.from(data), size],
            ),
          onControl: () => events.push(['control']),
          onData() {},
          onDrain: () => events.push(['drain']),
          onClose: (code, reason) => events.push(['close', code, reason]),
          onFault: (error) => events.push(['fault', error]),
          ...more,
        });
        resolve({ wire, events, server: socket as Socket });
      }),
    ),
  );
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  open.push(() => {
    http.close();
    http.closeAllConnections();
  });
  return { port: (http.address() as AddressInfo).port, accepted };
}

/** @param behind is sent together with the request. */
async function connect(
  kind: WireKind,
  { behind = [], ...serving }: Serving & { readonly behind?: readonly SentFrame[] } = {},
): Promise<Pair> {
  const { port, accepted } = await serve(kind, serving);
  const client = connectTcp({ port, host: '127.0.0.1', allowHalfOpen: true });
  return await pair(client, accepted, behind);
}

async function pair(
  client: Socket,
  accepted: Promise<Accepted>,
  behind: readonly SentFrame[] = [],
): Promise<Pair> {
  open.push(() => client.destroy());
  client.on('error', () => {});
  const chunks: Buffer[] = [];
  const received = () => {
    const bytes = Buffer.concat(chunks);
    const end = bytes.indexOf('\r\n\r\n');
    return end < 0 ? undefined : bytes.subarray(end + 4);
  };
  client.on('data', (chunk: Buffer) => chunks.push(chunk));
  const send = (...frames: readonly SentFrame[]) => void client.write(Buffer.concat(frames.map(encodeFrame)));
  client.write(Buffer.concat([Buffer.from(head()), ...behind.map(encodeFrame)]));
  const { wire, events, server } = await accepted;
  open.push(() => wire.terminate());
  await until(received).toBeDefined();
  return {
    wire,
    events,
    server,
    client,
    received: () => received() as Buffer,
    send,
  };
}

const TEXT = 1;
const BINARY = 2;
const CLOSE = 8;
const PING = 9;
const hello: SentFrame = { opcode: TEXT, payload: 'héllo' };
const HELLO: Event = ['text', 'héllo', 6];
const closeFrame = (code: number, reason = '') => {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(code);
  return { opcode: CLOSE, payload: Buffer.concat([bytes, Buffer.from(reason)]) };
};
/** As a server writes it. */
const written = (frame: SentFrame) => encodeFrame({ ...frame, isMasked: false });
const ended = async (socket: Socket) => {
  if (socket.readableEnded || socket.destroyed) return;
  await new Promise<void>((resolve) => {
    socket.once('end', resolve);
    socket.once('close', () => resolve());
  });
};

describe.each(WIRE_KINDS)('a wire of the kind %s', (kind) => {
  it('reads what came with the request, and text and bytes behind it', async () => {
    const { events, send } = await connect(kind, { behind: [hello] });
    send({ opcode: BINARY, payload: 'bytes' });
    await until(() => events).toEqual([HELLO, ['binary', Buffer.from('bytes'), 5]]);
  });

  it('writes text and bytes', async () => {
    const { wire, received } = await connect(kind);
    wire.send('text');
    wire.send(Buffer.from('bytes'));
    const expected = Buffer.concat([
      written({ opcode: TEXT, payload: 'text' }),
      written({ opcode: BINARY, payload: 'bytes' }),
    ]);
    await until(received).toEqual(expected);
  });

  it('reports the bytes of a chunk after the messages in it', async () => {
    const { events, send } = await connect(kind, {
      onWire: (_wire, list) => ({ onData: (size) => list.push(['data', size]) }),
    });
    send(hello, hello);
    await until(() => events).toEqual([HELLO, HELLO, ['data', 24]]);
  });

  it('answers pings, and reports them', async () => {
    const { events, send, received } = await connect(kind);
    send({ opcode: PING, payload: 'ping' }, { opcode: 10, payload: 'pong' });
    await until(() => events).toEqual([['control'], ['control']]);
    await until(received).toEqual(written({ opcode: 10, payload: 'ping' }));
  });

  it('pings while it is open, and counts the bytes', async () => {
    const { wire, received } = await connect(kind);
    const before = wire.traffic.sent;
    wire.ping();
    await until(received).toEqual(written({ opcode: PING, payload: '' }));
    expect(wire.traffic.sent - before).toBe(2);
    wire.close(1000, '');
    wire.ping();
    await until(received).toEqual(
      Buffer.concat([written({ opcode: PING, payload: '' }), written(closeFrame(1000))]),
    );
  });

  it('cuts off a peer that pings and reads no answer', async () => {
    const { events, server, send } = await connect(kind);
    // The socket takes nothing, like a kernel whose buffers are full.
    server.cork();
    server.write(Buffer.alloc(1024));
    send(...Array.from({ length: 60 }, () => ({ opcode: PING })));
    await until(() => events.length).toBe(60);
    expect(server.destroyed).toBe(false);
    send({ opcode: PING });
    await until(() => events.at(-1)).toEqual(['close', 1006, '']);
  });

  it('answers a close with its code and reason, and ends', async () => {
    const { client, events, send, received } = await connect(kind);
    send(hello, closeFrame(4001, 'bye'), hello);
    await ended(client);
    expect(received()).toEqual(written(closeFrame(4001, 'bye')));
    client.end();
    await until(() => events).toEqual([HELLO, ['close', 4001, 'bye']]);
  });

  it('answers a close without a code', async () => {
    const { client, events, send, received } = await connect(kind);
    send({ opcode: CLOSE });
    await ended(client);
    expect(received()).toEqual(written({ opcode: CLOSE }));
    client.end();
    await until(() => events).toEqual([['close', 1005, '']]);
  });

  it('closes with a code and reason behind what was sent, and reads until the answer', async () => {
    const { wire, client, events, send, received } = await connect(kind);
    wire.send('last');
    wire.close(4002, 'that is all');
    wire.send('not sent');
    const expected = Buffer.concat([
      written({ opcode: TEXT, payload: 'last' }),
      written(closeFrame(4002, 'that is all')),
    ]);
    await until(received).toEqual(expected);
    send(hello, { opcode: PING }, closeFrame(4002), hello);
    await ended(client);
    client.end();
    await until(() => events).toEqual([HELLO, ['control'], ['close', 4002, '']]);
    expect(received()).toEqual(expected);
  });

  it('refuses to send a code or a reason that has no form', async () => {
    const { wire } = await connect(kind);
    expect(() => wire.close(1006, '')).toThrow();
    expect(() => wire.close(4000, 'é'.repeat(62))).toThrow(RangeError);
    wire.close(4000, 'é'.repeat(61));
  });

  it('does not wait for the answer to a close for ever', async () => {
    const { wire, client, events } = await connect(kind, { closeTimeoutMs: 10 });
    wire.close(4000, '');
    await ended(client);
    await until(() => events).toEqual([['close', 1006, '']]);
  });

  it('drops what is in flight after a close, up to a bound', async () => {
    const { wire, client, events } = await connect(kind);
    // A flood: 256 KiB may still arrive.
    wire.close(4429, '');
    const flood = Buffer.alloc(64 * 1024, encodeFrame({ opcode: 10, key: Buffer.alloc(4) }).subarray(0, 6));
    for (let count = 0; count < 64 && !client.destroyed; count++) client.write(flood);
    await until(() => events.at(-1)).toEqual(['close', 1006, '']);
  });

  it('ends its side when the client does, without a close', async () => {
    const { client, events, send } = await connect(kind);
    send(hello);
    client.end(encodeFrame(hello).subarray(0, 8));
    await ended(client);
    await until(() => events).toEqual([HELLO, ['close', 1006, '']]);
  });

  it('reads what had arrived when a paused connection broke', async () => {
    const { wire, server, events, send } = await connect(kind);
    wire.pause?.();
    send(hello, hello);
    // The stream reads ahead while it is paused.
    await until(() => server.bytesRead).toBeGreaterThan(head().length + 20);
    await until(() => server.readableLength).toBeGreaterThan(0);
    server.destroy(new Error('reset'));
    await until(() => events).toEqual([HELLO, HELLO, ['close', 1006, '']]);
  });

  it('reads while it is neither paused nor held', async () => {
    const { wire, server, events, send } = await connect(kind);
    wire.hold();
    wire.pause?.();
    wire.hold();
    send(hello);
    await until(() => server.readableLength).toBeGreaterThan(0);
    wire.unhold();
    wire.resume?.();
    expect(server.isPaused()).toBe(true);
    wire.unhold();
    await until(() => events).toEqual([HELLO]);
    wire.pause?.();
    expect(server.isPaused()).toBe(true);
    wire.resume?.();
    expect(server.isPaused()).toBe(false);
  });

  it('notices the end of a client although it is paused by a message before the close', async () => {
    const { client, events, send } = await connect(kind, {
      onWire: (wire, list) => ({
        onMessage(data, size) {
          list.push(['text', data, size]);
          wire.pause?.();
        },
      }),
    });
    send(hello, closeFrame(1000));
    await ended(client);
    client.end();
    await until(() => events).toEqual([HELLO, ['close', 1000, '']]);
  });

  it('says when the socket takes more', async () => {
    const { wire, client, events } = await connect(kind);
    client.pause();
    for (let count = 0; count < 100; count++) wire.send(Buffer.alloc(100_000));
    await until(() => wire.bufferedAmount).toBeGreaterThan(1_000_000);
    expect(events).toEqual([]);
    client.resume();
    await until(() => events).toContainEqual(['drain']);
    await until(() => wire.bufferedAmount).toBe(0);
  });

  it('terminates without a close', async () => {
    const { wire, client, events, received } = await connect(kind);
    wire.terminate();
    await ended(client);
    await until(() => events).toEqual([['close', 1006, '']]);
    expect(received()).toEqual(Buffer.alloc(0));
    wire.terminate();
    wire.close(1000, '');
  });

  it('closes with the code of each violation that Autobahn knows', async () => {
    const cases = AUTOBAHN_CASES.filter(({ seen }) => seen.at(-1)?.[0] === 'violation');
    for (const { id, sent, seen } of cases.filter((_case, at) => at % 8 === 0)) {
      const { client, events, send, received } = await connect(kind);
      send(...sent);
      await ended(client);
      client.end();
      const [, code] = seen.at(-1) as readonly [string, number];
      expect(received().subarray(-4), id).toEqual(written(closeFrame(code)));
      await until(() => events.at(-1)).toEqual(['close', 1006, '']);
    }
  });

  it.each([
    ['of more bytes than allowed', [{ opcode: BINARY, payload: Buffer.alloc(MAX_PAYLOAD + 1) }], 1009],
    [
      'of more fragments than allowed',
      Array.from({ length: 1_001 }, (_, at) => ({ opcode: at === 0 ? BINARY : 0, isFinal: at === 1_000 })),
      1008,
    ],
  ] as const)('closes for a message %s', async (_what, frames, code) => {
    const { client, events, send, received } = await connect(kind);
    send(...frames);
    await until(received).toEqual(written(closeFrame(code)));
    client.end();
    await until(() => events).toEqual([['close', 1006, '']]);
  });

  it('selects no extension', async () => {
    const { port } = await serve(kind);
    const client = new WebSocket(`ws://127.0.0.1:${port}`, ['m2m.v1'], { perMessageDeflate: true });
    open.push(() => client.terminate());
    await once(client, 'open');
    expect(client.extensions).toBe('');
    expect(client.protocol).toBe('m2m.v1');
  });

  it.each([
    ['POST', (text: string) => text.replace('GET', 'POST'), 405],
    ['another upgrade', (text: string) => text.replace('Upgrade: websocket', 'Upgrade: h2c'), 400],
    ['no key', (text: string) => text.replace(/Sec-WebSocket-Key.*\r\n/, ''), 400],
    ['a short key', (text: string) => text.replace(KEY, KEY.slice(1)), 400],
    ['an old version', (text: string) => text.replace('Version: 13', 'Version: 7'), 400],
    ['a name twice', (text: string) => text.replace('Protocol: m2m.v1', 'Protocol: m2m.v1, m2m.v1'), 400],
    ['a name that is none', (text: string) => text.replace('Protocol: m2m.v1', 'Protocol: m2m.v1, a b'), 400],
    ['an empty name', (text: string) => text.replace('Protocol: m2m.v1', 'Protocol: m2m.v1,'), 400],
    ['version 8', (text: string) => text.replace('Version: 13', 'Version: 8'), 101],
    ['spaces', (text: string) => text.replace('Protocol: m2m.v1', 'Protocol: a ,\tm2m.v1'), 101],
    ['capitals', (text: string) => text.replace('websocket', 'WebSocket'), 101],
  ])('answers a request with %s', async (_what, change, status) => {
    const { port } = await serve(kind);
    const client = connectTcp({ port, host: '127.0.0.1' });
    open.push(() => client.destroy());
    client.write(head(change));
    const [answer] = (await once(client, 'data')) as [Buffer];
    expect(answer.toString().startsWith(`HTTP/1.1 ${status} `)).toBe(true);
    if (status === 101)
      expect(answer.toString()).toContain('Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=');
  });

  it('does not take a socket that it has already', async () => {
    const http = createHttpServer();
    const bounds = { maxPayload: 1, maxFragments: 1, closeTimeoutMs: 1 };
    const twice = createWebSocketAdapter({ ...bounds, wire: kind });
    const { port } = await serve(kind, { http });
    const thrown = new Promise<unknown>((resolve) =>
      http.on('upgrade', (request, socket, first) => {
        try {
          twice.upgrade(request, socket, first, 'm2m.v1', () => resolve(undefined));
        } catch (error) {
          resolve(error);
        }
      }),
    );
    const request = httpRequest({ port, host: '127.0.0.1', headers: UPGRADE });
    request.on('error', () => {});
    request.end();
    open.push(() => request.destroy());
    expect(await thrown).toBeInstanceOf(Error);
  });

  it.skipIf(opensslMissing !== undefined)('reads and closes over TLS', async () => {
    const http = createHttpsServer(identity());
    const { port, accepted } = await serve(kind, { http: http as unknown as HttpServer });
    const client = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
    const { events, send, received } = await pair(client, accepted, [hello]);
    const long = Buffer.alloc(200_000, 7);
    send({ opcode: BINARY, payload: long }, closeFrame(1000));
    await ended(client);
    expect(received()).toEqual(written(closeFrame(1000)));
    await until(() => events.map(([kind]) => kind)).toEqual(['text', 'binary', 'close']);
    expect(long.equals(events[1]?.[1] as Buffer)).toBe(true);
  });
});

/** Resolves when a socket takes more, or never will. */
const writable = async (socket: Socket) =>
  await new Promise<void>((resolve) => {
    const done = () => {
      socket.off('drain', done);
      socket.off('close', done);
      resolve();
    };
    socket.on('drain', done);
    socket.on('close', done);
  });

/** Bounds that the library does not have. */
describe('a wire over sockets of Node', () => {
  it('does not wait for ever for a client that has ended its side and reads nothing', async () => {
    const { wire, client, events } = await connect('net', { closeTimeoutMs: 10 });
    client.pause();
    // More than the buffers of both ends hold.
    for (let count = 0; count < 64; count++) wire.send(Buffer.alloc(1024 * 1024));
    await until(() => wire.bufferedAmount).toBeGreaterThan(1024 * 1024);
    client.end();
    await until(() => events.at(-1)).toEqual(['close', 1006, '']);
  });

  it.each([
    ['a violation', { opcode: 3 }, 1006],
    ['its own close', closeFrame(1000), 1000],
  ] as const)('cuts off a client that floods after %s', async (_what, frame, code) => {
    const { client, events, send } = await connect('net');
    send(frame);
    const flood = Buffer.alloc(1024 * 1024);
    for (let count = 0; count < 64 && !client.destroyed; count++) {
      if (!client.write(flood)) await writable(client);
    }
    await until(() => events.at(-1)).toEqual(['close', code, '']);
    expect(client.bytesWritten).toBeLessThan(64 * flood.length);
  });

  it('reads all that had arrived in pieces when a paused connection broke', async () => {
    const { wire, server, events, send } = await connect('net');
    wire.pause?.();
    send(hello);
    await until(() => server.readableLength).toBe(12);
    send(hello);
    // The stream reads ahead up to its mark.
    await until(() => server.readableLength).toBe(24);
    server.destroy(new Error('reset'));
    await until(() => events).toEqual([HELLO, HELLO, ['close', 1006, '']]);
  });
});

const UPGRADE = {
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': KEY,
  'sec-websocket-protocol': 'm2m.v1',
};

/** Made once, for the first test that needs it. */
let tls: { readonly cert: Buffer; readonly key: Buffer } | undefined;
function identity() {
  if (tls === undefined) {
    certificates = new Certificates();
    const { cert, key } = certificates.authority();
    tls = { cert: readFileSync(cert), key: readFileSync(key) };
  }
  return tls;
}
