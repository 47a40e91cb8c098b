import { type AddressInfo, connect as connectTcp, createServer as createTcpServer } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { connect } from '@parlance/client';
import { type InspectionEvent, tap } from '@parlance/client/inspect';
import type { ServerOptions, ServerSession } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { cutSession } from '../kit/cut-session.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { createPeers, failure } from '../kit/peers.js';
import { UNLIMITED } from '../kit/unlimited.js';

/** Sessions over HTTP in place of WebSockets, over real sockets. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

const OVER_HTTP = { transports: ['http'] } as const;

async function dial(options: ServerOptions = {}, client: Parameters<typeof connect>[1] = {}) {
  const { server, url, port } = await peers.serve({ limits: UNLIMITED, ...options });
  const session = await peers.dial(url, { ...OVER_HTTP, ...client });
  return { server, url, port, session };
}

async function echo(session: ServerSession): Promise<void> {
  for await (const message of session) {
    const { tensor } = message;
    if (tensor?.data === undefined) await session.send(message.text);
    else {
      const { data, shape, dtype, payloadType } = tensor;
      await session.sendTensor({ data, shape, dtype, payloadType });
    }
  }
}

describe('a session over HTTP', () => {
  it('carries messages of any size, both ways and in order', async () => {
    const { session } = await dial({ onSession: echo });
    const sizes = [1, 127, 128, 20_000, 300_000, 5];
    for (const size of sizes) await session.send('x'.repeat(size));
    const got: number[] = [];
    for await (const { text } of session) if (got.push(text.length) === sizes.length) break;
    expect(got).toEqual(sizes);
  });

  it('carries requests of either end, replies in parts and a request to stop', async () => {
    let wasStopped = false;
    const { server, session } = await dial(
      {
        async *onRequest({ text }, { signal }) {
          signal.addEventListener('abort', () => {
            wasStopped = true;
          });
          for (let i = 0; i < Number(text); i++) {
            yield `${i} `;
            await pause(1);
          }
        },
      },
      { onRequest: ({ text }) => `re: ${text}` },
    );
    expect((await session.request('5')).text).toBe('0 1 2 3 4 ');
    const [served] = server.sessions.values();
    expect((await (served as ServerSession).request('who?')).text).toBe('re: who?');
    for await (const _ of session.stream('1000000')) break;
    await expect.poll(() => wasStopped).toBe(true);
    expect((await session.request('1')).text).toBe('0 ');
  });

  it('carries tensors', async () => {
    const { session } = await dial({ onSession: echo });
    const data = Float32Array.from({ length: 200_000 }, (_, i) => i);
    await session.sendTensor({ data, shape: [data.length], dtype: 'float32', payloadType: 'hidden_state' });
    for await (const { tensor } of session) {
      const bytes = Buffer.from(data.buffer);
      expect(tensor?.data && bytes.equals(tensor.data)).toBe(true);
      break;
    }
  });

  it('tells the server that it is closed, and why it was closed there', async () => {
    const { server, session } = await dial();
    const [served] = server.sessions.values();
    const ended = (served as ServerSession).closed;
    await session.close();
    await ended;
    expect(server.sessions.size).toBe(0);
    const { server: closing, session: other } = await dial({ onRequest: () => 'yes' });
    // A server that closes accepts no connection, so that the client answers over the one that it has.
    await other.request('are you there?');
    const states: string[] = [];
    other.on('state', (state) => states.push(state));
    await closing.close({ sessions: 'end' });
    await expect.poll(() => states.at(-1)).toBe('closed');
  });

  it.each(['the client', 'the server'])('opens no connection of TCP after its end by %s', async (who) => {
    const { server, port } = await peers.serve({ onRequest: ({ text }) => text });
    const proxy = peers.use(await createCuttingProxy(port));
    const session = await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, OVER_HTTP);
    await session.request('hello');
    const [served] = server.sessions.values();
    await (who === 'the client' ? session : served)?.close();
    await session.closed;
    const { opened } = proxy;
    // Node's `fetch` opens one at once after it has aborted a request.
    await pause(200);
    expect(proxy.opened).toBe(opened);
  });

  it('begins although the connection that it takes has just been closed', async () => {
    const { url, port } = await peers.serve({ onRequest: ({ text }) => text });
    let reused = 0;
    let waiting = 0;
    const front = createTcpServer((near) => {
      const far = connectTcp(port, '127.0.0.1');
      let isAnswered = false;
      near.on('error', () => {}).on('close', () => far.destroy());
      far.on('error', () => {}).on('close', () => near.destroy());
      far.on('data', (data) => {
        if (data.includes(' 204 ')) {
          isAnswered = true;
          waiting--;
        }
        near.write(data);
      });
      near.on('data', (data) => {
        if (data.includes('POST /session/frames')) waiting++;
        if (!isAnswered || !data.includes('POST /session/stream')) return void far.write(data);
        reused++;
        near.destroy();
      });
    });
    await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
    const through = url.replace(`:${port}/`, `:${(front.address() as AddressInfo).port}/`);
    for (const text of ['one', 'two', 'three']) {
      const session = await peers.dial(through, OVER_HTTP);
      expect((await session.request(text)).text).toBe(text);
      await session.close();
      await expect.poll(() => waiting).toBe(0);
    }
    await peers[Symbol.asyncDispose]();
    front.close();
    expect(reused).toBeGreaterThan(0);
  });

  it('is refused with the code and the reason of the server', async () => {
    const { url } = await peers.serve({ authenticate: () => null });
    const refused = await failure(connect(url, { ...OVER_HTTP, token: 'wrong' }));
    expect(refused).toMatchObject({ code: 'rejected', closeCode: 4401 });
  });

  it('is seen by an inspection', async () => {
    const events: InspectionEvent[] = [];
    const tapped = tap(WebSocket, (event) => events.push(event));
    const { session } = await dial({ onRequest: ({ text }) => text }, { WebSocket: tapped });
    await session.request('hello');
    await session.close();
    expect(events[0]).toMatchObject({ what: 'opening', url: expect.stringMatching(/^http:.*\/session$/) });
    const labels = events.flatMap((event) => (event.event === 'frame' ? [event.label] : []));
    expect(labels).toEqual(expect.arrayContaining(['HELLO', 'ACCEPT', 'request', 'response', 'CLOSE']));
    const closed = { event: 'connection', what: 'closed', code: 1000 };
    await expect.poll(() => events).toContainEqual(expect.objectContaining(closed));
    expect(events.at(-1)).toMatchObject({ event: 'state', state: 'closed' });
  });

  it('says what answers in place of a session server', async () => {
    const { url } = await peers.serve({ transports: ['websocket'] });
    const refused = await failure(connect(url, OVER_HTTP));
    expect(refused.code).toBe('connection_failed');
    expect(refused.message).toContain('HTTP 404');
  });
});

describe('a server that drains', () => {
  it('lets sessions over HTTP end what is under way, although it has released its port', async () => {
    let release = () => {};
    const isDraining = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { server, session } = await dial({
      async *onRequest({ text }) {
        yield 'one ';
        await isDraining;
        for (let i = 0; i < Number(text); i++) yield `${i} `.repeat(2_000);
      },
    });
    const parts: string[] = [];
    for await (const part of session.stream('40')) {
      if (parts.push(part.text) > 1) continue;
      void server.drain({ releasePort: true, returnWithinMs: 1 });
      release();
    }
    expect(parts.join('')).toHaveLength(4 + 2_000 * (10 * 2 + 30 * 3));
  });
});

describe('a session over HTTP that is cut', () => {
  it('continues: 1,000 messages each way through 20 cuts arrive exactly once and in order', async () => {
    const count = 1_000;
    const heard: number[] = [];
    const { proxy, session, server } = await cutSession(
      peers,
      {
        limits: UNLIMITED,
        onSession: async (other) => {
          const speak = (async () => {
            for (let i = 0; i < count; i++) {
              await other.send(String(i));
              if (i % 4 === 0) await pause(1);
            }
          })();
          for await (const message of other) heard.push(Number(message.text));
          await speak;
        },
      },
      OVER_HTTP,
    );
    const got: number[] = [];
    const reading = (async () => {
      for await (const message of session) if (got.push(Number(message.text)) === count) return;
    })();
    for (let i = 0; i < count; i++) {
      await session.send(String(i));
      if (i % 4 === 0) await pause(1);
      if (i % 100 === 40) proxy.cut();
      if (i % 100 === 90) proxy.cutAfter(7);
    }
    await reading;
    await expect.poll(() => heard.length).toBe(count);
    const inOrder = Array.from({ length: count }, (_, i) => i);
    expect(got).toEqual(inOrder);
    expect(heard).toEqual(inOrder);
    expect(server.sessions.size).toBe(1);
  });

  it('is replaced if what has opened it swallows the rest', async () => {
    const { port } = await peers.serve({ onRequest: ({ text }) => text });
    const proxy = peers.use(await createCuttingProxy(port));
    const reconnect = { minDelayMs: 5, maxDelayMs: 50 };
    const session = await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, { ...OVER_HTTP, reconnect });
    proxy.freeze();
    proxy.cut();
    expect((await session.request('still here')).text).toBe('still here');
  });
});
