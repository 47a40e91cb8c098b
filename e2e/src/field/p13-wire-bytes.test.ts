import { type AddressInfo, createServer, type Socket, connect as tcp } from 'node:net';
import { metrics } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import { createPeers, helloBytes, openRaw } from '../kit/peers.js';
import { sampleOf, scrape } from '../operate/scraping.js';

/** The bytes that the metrics count, beside those that a TCP proxy has passed on after the upgrade. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

/** Counts what follows the blank line of each side's head. */
async function countingProxy(target: number) {
  const bytes = { sent: 0, received: 0 };
  const sockets = new Set<Socket>();
  const pass = (from: Socket, to: Socket, direction: 'sent' | 'received') => {
    let head: Buffer | undefined = Buffer.alloc(0);
    sockets.add(from);
    from.on('data', (chunk: Buffer) => {
      to.write(chunk);
      bytes[direction] += chunk.length;
      if (head === undefined) return;
      head = Buffer.concat([head, chunk]);
      const end = head.indexOf('\r\n\r\n');
      if (end < 0) return;
      bytes[direction] -= end + 4;
      head = undefined;
    });
    from.on('error', () => {});
    from.on('close', () => to.destroy());
  };
  const server = createServer((near) => {
    const far = tcp(target, '127.0.0.1');
    pass(near, far, 'received');
    pass(far, near, 'sent');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const proxy = {
    bytes,
    url: (path = '/session') => `ws://127.0.0.1:${(server.address() as AddressInfo).port}${path}`,
    cut: () => sockets.forEach((socket) => void socket.destroy()),
    async [Symbol.asyncDispose]() {
      proxy.cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return peers.use(proxy);
}

async function counted(port: number) {
  const page = await scrape(port);
  const count = (direction: string) => sampleOf(page, 'wire_bytes_total', { direction });
  return { sent: count('sent'), received: count('received') };
}

describe.each(['net', 'ws'] as const)('the bytes of the metrics, with the wire %s', (wire) => {
  async function serve() {
    const { port, server } = await peers.serve({
      wire,
      earlyHello: false,
      features: [metrics()],
      // Headers of frames have three sizes.
      onRequest: ({ text }) => new Uint8Array(Number(text)).map((_, at) => (at * at) >> 3),
    });
    return { port, server, proxy: await countingProxy(port) };
  }

  it('are those of a proxy, in both directions and after a cut', async () => {
    const { port, proxy } = await serve();
    const session = await peers.dial(proxy.url());
    const talk = async () => {
      for (const size of [1, 50, 130, 3_000, 70_000, 300_000])
        await session.request(String(size), { algorithm: 'NONE' });
      await session.request(' '.repeat(70_000) + 5, { algorithm: 'NONE' });
      await session.flush();
    };
    await talk();
    await expect.poll(async () => await counted(port)).toEqual(proxy.bytes);
    proxy.cut();
    await talk();
    await expect.poll(async () => await counted(port)).toEqual(proxy.bytes);
    expect(proxy.bytes.sent).toBeGreaterThan(230_000);
    const { sent, received } = session.stats();
    expect(proxy.bytes.received).toBeGreaterThan(sent.wireBytes);
    expect(proxy.bytes.sent).toBeGreaterThan(received.wireBytes);
  });

  it('have pings, pongs and text frames, and those of sessions that are over', async () => {
    const { port, proxy } = await serve();
    const raw = await openRaw(proxy.url());
    raw.socket.ping('are you there?');
    raw.send(helloBytes());
    await raw.control('ACCEPT');
    for (let turn = 0; turn < 5; turn++) raw.socket.ping('x'.repeat(turn));
    const text = await peers.dial(proxy.url(), { subprotocol: 'm2m.v1.json' });
    await text.send('größer');
    await text.flush();
    await expect.poll(async () => await counted(port)).toEqual(proxy.bytes);
    const session = await peers.dial(proxy.url());
    await session.request('10');
    await session.close();
    // The last close frames come when the session is over.
    await expect
      .poll(async () => {
        const { sent, received } = await counted(port);
        return Math.abs(proxy.bytes.sent - sent) + Math.abs(proxy.bytes.received - received);
      })
      .toBeLessThan(64);
  });
});
