import { connect as connectTcp, type Socket } from 'node:net';
import { connect, type Session } from '@parlance/client';
import { CloseCode, encodeControl, Subprotocol } from '@parlance/protocol';
import { createServer, type Server } from '@parlance/server';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import WebSocket, { WebSocketServer } from 'ws';
import { helloBytes } from '../kit/peers.js';

/** Malformed frames must end in a documented close code, and must not disturb other sessions. */

const DOCUMENTED = new Set<number>(Object.values(CloseCode));

let server: Server;
let url: string;
let port: number;
let healthy: Session;
const faults: unknown[] = [];
const onFault = (error: unknown) => faults.push(error);

beforeAll(async () => {
  process.on('uncaughtException', onFault);
  process.on('unhandledRejection', onFault);
  server = createServer({
    onSession: async (session) => {
      for await (const message of session) await session.send(message.bytes);
    },
    onRequest: (request) => request.bytes.length.toString(),
    timers: { closingTimeoutMs: 200 },
    limits: {
      sessionsPerIp: Infinity,
      sessionsPerMinutePerIp: Infinity,
      connectionsPerMinutePerIp: Infinity,
      failuresPerMinutePerIp: Infinity,
    },
  });
  ({ url, port } = await server.listen());
  healthy = await connect(url, { WebSocket, algorithms: ['NONE'] });
});

afterAll(async () => {
  await server.close();
  process.off('uncaughtException', onFault);
  process.off('unhandledRejection', onFault);
  expect(faults).toEqual([]);
});

/** A session that was open before continues as if nothing had happened. */
afterEach(async () => {
  expect(faults).toEqual([]);
  expect((await healthy.request('still there?')).text).toBe('12');
  expect(server.sessions.size).toBe(1);
});

const hello = helloBytes();

/** Bytes that resemble frames enough to get past the first check. */
const frame = fc.oneof(
  fc.uint8Array({ maxLength: 80 }),
  fc
    .tuple(
      fc.constantFrom(
        0x00,
        0x10,
        0x11,
        0x12,
        0x13,
        0x14,
        0x15,
        0x16,
        0x18,
        0x19,
        0x23,
        0x41,
        0x81,
        0x84,
        0xde,
      ),
      fc.uint8Array({ maxLength: 60 }),
    )
    .map(([first, rest]) => Uint8Array.of(first, ...rest)),
  fc
    .constantFrom('', '#TK|C|', '#M2M|1|AAAA', '#BR|====', '{"type":"HELLO"}')
    .map((text) => new TextEncoder().encode(text)),
);

async function talk(
  frames: readonly Uint8Array[],
  options: { greet: boolean; text: boolean },
): Promise<number> {
  const socket = new WebSocket(url, [Subprotocol.BINARY]);
  const closed = new Promise<number>((resolve) => socket.once('close', resolve));
  socket.on('error', () => {});
  await new Promise((resolve) => socket.once('open', resolve));
  if (options.greet) {
    socket.send(hello);
    await new Promise((resolve) => socket.once('message', resolve));
  }
  for (const bytes of frames)
    if (socket.readyState === WebSocket.OPEN) socket.send(bytes, { binary: !options.text });
  const timer = setTimeout(() => socket.close(1000), 20);
  const code = await closed;
  clearTimeout(timer);
  return code;
}

describe('frames of any kind', () => {
  it('sent to the server before and after ACCEPT', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(frame, { minLength: 1, maxLength: 5 }),
        fc.boolean(),
        fc.boolean(),
        async (frames, greet, text) => {
          expect(DOCUMENTED).toContain(await talk(frames, { greet, text }));
        },
      ),
      { numRuns: 150 },
    );
    await expect.poll(() => server.sessions.size).toBe(1);
  });

  it.each([
    ['an empty frame', new Uint8Array(0)],
    ['an unknown first byte', Uint8Array.of(0x77)],
    ['a link frame before ACCEPT', Uint8Array.of(0x10, 0, 0, 1)],
    ['MessagePack that ends early', hello.subarray(0, 20)],
    ['a map without a type', Uint8Array.of(0x80)],
    ['JSON in a binary frame', Uint8Array.from(Buffer.from('{"type":"HELLO"}'))],
  ])('%s ends with 4400', async (_what, bytes) => {
    expect(await talk([bytes], { greet: false, text: false })).toBe(CloseCode.BAD_FRAME);
  });

  it('of more than 64 KiB before ACCEPT end with 4413, in one message or in many fragments', async () => {
    expect(await talk([new Uint8Array(65 * 1024).fill(0x81)], { greet: false, text: false })).toBe(
      CloseCode.TOO_LARGE,
    );
    const socket = new WebSocket(url, [Subprotocol.BINARY]);
    const closed = new Promise<number>((resolve) => socket.once('close', resolve));
    socket.on('error', () => {});
    await new Promise((resolve) => socket.once('open', resolve));
    for (let i = 0; i < 200 && socket.readyState === WebSocket.OPEN; i++) {
      socket.send(new Uint8Array(1024), { fin: false });
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect([CloseCode.TOO_LARGE, CloseCode.ABNORMAL]).toContain(await closed);
    await expect.poll(() => server.sessions.size).toBe(1);
  });

  it('in more fragments than allowed end the connection (CVE-2024-37890 and later)', async () => {
    const socket = new WebSocket(url, [Subprotocol.BINARY]);
    const closed = new Promise<number>((resolve) => socket.once('close', resolve));
    socket.on('error', () => {});
    await new Promise((resolve) => socket.once('open', resolve));
    for (let i = 0; i < 3000; i++) socket.send(new Uint8Array(1), { fin: false });
    expect(DOCUMENTED).toContain(await closed);
  });
});

describe('bytes on the socket', () => {
  const open = () =>
    new Promise<Socket>((resolve) => {
      const socket = connectTcp(port, '127.0.0.1', () => resolve(socket));
      socket.on('error', () => {});
    });
  const ended = (socket: Socket) => {
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
    });
    return new Promise<string>((resolve) => socket.once('close', () => resolve(text)));
  };
  const upgrade = (key = 'dGhlIHNhbXBsZSBub25jZQ==') =>
    `GET /session HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
    `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\nSec-WebSocket-Protocol: m2m.v1\r\n\r\n`;

  it.each([
    ['no HTTP at all', '\x00\x01\x02\x03\r\n\r\n', /^(HTTP\/1\.1 400|$)/],
    ['an upgrade without a key', upgrade('').replace(/Sec-WebSocket-Key: \r\n/, ''), /^HTTP\/1\.1 400/],
    [
      'an upgrade to something else',
      upgrade().replace('Upgrade: websocket', 'Upgrade: h2c'),
      /^HTTP\/1\.1 400/,
    ],
    ['an upgrade of an old version', upgrade().replace('Version: 13', 'Version: 7'), /^HTTP\/1\.1 400/],
    ['another path', upgrade().replace('/session', '/__proto__'), /^HTTP\/1\.1 404/],
    ['an invalid path', upgrade().replace('/session', 'session'), /^(HTTP\/1\.1 40[04]|$)/],
    [
      'thousands of headers',
      upgrade().replace('\r\n\r\n', `\r\n${'X-H: y\r\n'.repeat(5000)}\r\n`),
      /^(HTTP\/1\.1 4\d\d|$)/,
    ],
  ])('with a malformed upgrade (%s) are refused in HTTP', async (_what, text, expected) => {
    const socket = await open();
    const answer = ended(socket);
    socket.write(text, 'latin1');
    socket.end();
    expect(await answer).toMatch(expected);
  });

  it('that are arbitrary after the upgrade end the connection', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ minLength: 1, maxLength: 200 }),
        fc.boolean(),
        async (bytes, slowly) => {
          const socket = await open();
          const answer = ended(socket);
          socket.setNoDelay(true);
          socket.write(upgrade());
          for (const piece of slowly ? [...bytes].map((byte) => Uint8Array.of(byte)) : [bytes]) {
            if (socket.writable) socket.write(piece);
            if (slowly) await new Promise((resolve) => setImmediate(resolve));
          }
          socket.end();
          expect(await answer).toMatch(/^HTTP\/1\.1 101/);
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe('frames of any kind sent to the client', () => {
  let hostile: WebSocketServer;
  let frames: readonly Uint8Array[] = [];
  let accept = true;
  beforeEach(async () => {
    hostile = new WebSocketServer({ port: 0, host: '127.0.0.1', handleProtocols: () => Subprotocol.BINARY });
    await new Promise((resolve) => hostile.once('listening', resolve));
    hostile.on('connection', (socket) => {
      socket.on('error', () => {});
      socket.once('message', () => {
        if (accept) {
          socket.send(
            encodeControl({
              type: 'ACCEPT',
              sessionId: 'sess_hostile',
              timestamp: 1,
              payload: {
                shape: 'flat',
                version: '1.0',
                algorithms: ['NONE'],
                encoding: null,
                encodings: [],
                securityScanning: false,
                sessionTimeoutMs: 0,
                maxPayloadSize: 0,
                limits: {},
                extensions: { link: '{}' },
              },
            }),
          );
        }
        for (const bytes of frames) socket.send(bytes);
        setTimeout(() => socket.close(1000), 20);
      });
    });
  });
  afterEach(() => new Promise((resolve) => hostile.close(resolve)));

  it('end in a ProtocolError or have no effect', async () => {
    const address = hostile.address() as { port: number };
    await fc.assert(
      fc.asyncProperty(
        fc.array(frame, { minLength: 1, maxLength: 4 }),
        fc.boolean(),
        async (input, accepts) => {
          frames = input;
          accept = accepts;
          const outcome = await connect(`ws://127.0.0.1:${address.port}/session`, { WebSocket }).then(
            async (session) => {
              try {
                for await (const message of session) void message.algorithm;
              } catch (error) {
                return error;
              }
              return undefined;
            },
            (error: unknown) => error,
          );
          if (outcome !== undefined) expect((outcome as Error).name).toBe('ProtocolError');
        },
      ),
      { numRuns: 60 },
    );
  });
});
