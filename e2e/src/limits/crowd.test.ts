import { randomBytes } from 'node:crypto';
import { connect as connectTcp, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { createPeers, helloBytes } from '../kit/peers.js';

/** Crowds of unfinished connections must not keep a new client from being served. */

const peers = createPeers();
const crowd: Socket[] = [];
afterEach(async () => {
  for (const socket of crowd.splice(0)) socket.destroy();
  await peers[Symbol.asyncDispose]();
});

const UPGRADE = (port: number) =>
  `GET /session HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
  'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n' +
  'Sec-WebSocket-Protocol: m2m.v1\r\n\r\n';

const UNLIMITED = {
  sessionsPerIp: Infinity,
  sessionsPerMinutePerIp: Infinity,
  connectionsPerMinutePerIp: Infinity,
  failuresPerMinutePerIp: Infinity,
  bytesPerSecond: Infinity,
};

/** Opens sockets that send `text` and then stay silent. */
async function gather(port: number, count: number, text: string): Promise<Socket[]> {
  const sockets: Socket[] = [];
  for (let done = 0; done < count; done += 200) {
    sockets.push(
      ...(await Promise.all(
        Array.from(
          { length: Math.min(200, count - done) },
          () =>
            new Promise<Socket>((resolve, reject) => {
              const socket = connectTcp(port, '127.0.0.1', () => {
                socket.write(text);
                resolve(socket);
              });
              socket.on('error', reject);
              crowd.push(socket);
            }),
        ),
      )),
    );
  }
  for (const socket of sockets) socket.removeAllListeners('error').on('error', () => {});
  return sockets;
}

/** A masked WebSocket message of a client. */
function masked(payload: Uint8Array): Buffer {
  const head =
    payload.length < 126 ? [payload.length | 0x80] : [126 | 0x80, payload.length >> 8, payload.length & 0xff];
  return Buffer.from([0x82, ...head, 0, 0, 0, 0, ...payload]);
}

/** Connects a few clients, one after the other, and prints the shortest time that it took. */
async function connectBeside(url: string): Promise<void> {
  let best = Infinity;
  for (let i = 0; i < 5; i++) {
    const begun = performance.now();
    const session = await peers.dial(url, { timers: { acceptTimeoutMs: PATIENCE_MS } });
    best = Math.min(best, performance.now() - begun);
    await session.close();
  }
  console.log(`crowd: connected in ${best.toFixed(1)} ms`);
}

/** No connection is dropped while the clients connect. */
const PATIENCE_MS = 200_000;

describe('new clients are connected', () => {
  it('beside 2,000 half-open handshakes', async () => {
    const timers = { helloTimeoutMs: 2 * PATIENCE_MS };
    const { url, port, server } = await peers.serve({ limits: UNLIMITED, timers });
    // Silent connections, unfinished upgrades, and upgrades without HELLO.
    const silent = await gather(port, 500, '');
    const unfinished = await gather(port, 500, UPGRADE(port).slice(0, -30));
    const upgraded = await gather(port, 1_000, UPGRADE(port));
    await connectBeside(url);
    // All of them were open when they connected.
    for (const socket of [...silent, ...unfinished, ...upgraded]) expect(socket.destroyed).toBe(false);
    await expect.poll(() => server.sessions.size).toBe(0);
  });

  it('beside more handshakes of its address than allowed, which make room for it', async () => {
    const timers = { helloTimeoutMs: 2 * PATIENCE_MS };
    const { url, port } = await peers.serve({ limits: { ...UNLIMITED, handshakesPerIp: 50 }, timers });
    await gather(port, 500, UPGRADE(port));
    await connectBeside(url);
  });

  it('beside 1,000 slow readers, whose memory stays bounded', async () => {
    const part = { bytes: randomBytes(16 * 1024) };
    let yielded = 0;
    const { url, port, server } = await peers.serve({
      limits: { ...UNLIMITED, messagesPerMinute: Infinity },
      async *onRequest() {
        for (;;) {
          yield part;
          yielded++;
        }
      },
    });
    const readers = await gather(port, 1_000, UPGRADE(port));
    for (const socket of readers) {
      socket.pause();
      // A link that states its window, as an honest client does.
      const link = '{"max_streams":128,"message_window":65536,"stream_window":16384}';
      socket.write(masked(helloBytes({ extensions: { link, resume: '{}' } })));
    }
    await expect.poll(() => server.sessions.size).toBe(1_000);
    for (const socket of readers) socket.write(masked(Uint8Array.of(0x11, 1, 0, 0x78)));
    for (let last = -1; last !== yielded; await pause(200)) last = yielded;
    await connectBeside(url);
    // Each has one window in flight, and the rest of one stream queued.
    const queued = [...server.sessions.values()].map((session) => session.stats().queuedBytes);
    expect(Math.max(...queued)).toBeLessThanOrEqual(256 * 1024 + part.bytes.length);
  });
});
