import { setTimeout as pause } from 'node:timers/promises';
import { connect, type Session } from '@parlance/client';
import { decodeControl } from '@parlance/protocol';
import { createServer, type ServerOptions } from '@parlance/server';
import { afterEach, expect, it, vi } from 'vitest';
import WebSocket from 'ws';
import type { WebSocketLike } from '../../../packages/client/src/connection/web-socket.js';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';
import { serverEndpoint } from '../kit/endpoints.js';

/** Clients that their server asks to continue over another connection, which reaches another node. */

vi.mock('@parlance/server', async (load) => {
  const { ofNodes } = await import('../kit/server-of-nodes.js');
  return ofNodes(await load());
});

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

const UNLIMITED = { messagesPerMinute: Infinity, bytesPerSecond: Infinity };

interface Bench {
  readonly proxy: CuttingProxy;
  readonly url: string;
  dial(options?: Parameters<typeof connect>[1]): ReturnType<typeof connect>;
  /** Asks the client of a session to move. */
  ask(session: Session, retryAfterMs?: number): void;
}

async function serve(options: ServerOptions): Promise<Bench> {
  const server = createServer({ limits: UNLIMITED, ...options });
  open.push(server);
  const proxy = await createCuttingProxy((await server.listen()).port);
  open.push(proxy);
  const url = `ws://127.0.0.1:${proxy.port}/session`;
  let deadline = 1_000;
  return {
    proxy,
    url,
    async dial(clientOptions = {}) {
      const session = await connect(url, {
        WebSocket,
        limits: UNLIMITED,
        reconnect: { minDelayMs: 1, maxDelayMs: 20 },
        ...clientOptions,
      });
      open.push(session);
      return session;
    },
    ask(session, retryAfterMs = 0) {
      deadline++;
      serverEndpoint(server.sessions.get(session.id)).sendGoAway({ retryAfterMs, deadline, move: true });
    },
  };
}

const resumed = (session: Session) =>
  new Promise<void>((resolve) => {
    const stop = session.on('state', (state) => {
      if (state !== 'established') return;
      stop();
      resolve();
    });
  });

it('move in the middle of streams, messages, context and tensors, and nothing is lost', async () => {
  const tensors: number[] = [];
  const numbers: string[] = [];
  const { dial, ask, proxy } = await serve({
    async onSession(session) {
      for await (const message of session) {
        if (message.tensor?.data !== undefined) tensors.push(message.tensor.data.byteLength);
        else {
          numbers.push(message.text);
          await session.send(message.text);
        }
      }
    },
    async *onRequest(request) {
      for (let i = 0; i < 150; i++) {
        yield `${i} of ${request.text.slice(-6)}, `;
        await pause(2);
      }
    },
  });
  const session = await dial();
  const { id } = session;
  const states: string[] = [];
  session.on('state', (state) => states.push(state));
  let isDone = false;
  const moving = (async () => {
    let moves = 0;
    for (; !isDone; moves++) {
      const again = resumed(session);
      ask(session, 2);
      await again;
      await pause(10);
    }
    return moves;
  })();
  const echoes: string[] = [];
  const reading = (async () => {
    for await (const message of session) if (echoes.push(message.text) === 200) return;
  })();
  const sending = (async () => {
    for (let i = 0; i < 200; i++) {
      await session.send(String(i));
      await pause(2);
    }
    for (let i = 1; i <= 4; i++) {
      const data = new Uint8Array(100_000 * i);
      await session.sendTensor({ data, shape: [data.length], dtype: 'int8', payloadType: 'hidden_state' });
    }
  })();
  const streams = Array.from({ length: 4 }, async (_, n) => {
    let text = '';
    for await (const part of session.stream(`${'a long question, '.repeat(60)}stream${n}`)) text += part.text;
    return text;
  });
  const answers = await Promise.all(streams);
  await Promise.all([sending, reading]);
  isDone = true;
  const moves = await moving;
  for (const [n, text] of answers.entries())
    expect(text).toBe(Array.from({ length: 150 }, (_, i) => `${i} of tream${n}, `).join(''));
  const inOrder = Array.from({ length: 200 }, (_, i) => String(i));
  expect([numbers, echoes]).toEqual([inOrder, inOrder]);
  await expect.poll(() => tensors).toEqual([100_000, 200_000, 300_000, 400_000]);
  expect(session.id).toBe(id);
  // Each move has opened one connection, and no connection was lost beside them.
  expect(proxy.opened).toBe(moves + 1);
  expect(states.filter((state) => state === 'suspended')).toHaveLength(moves);
  expect(moves).toBeGreaterThan(5);
});

it('keep their connection while every other one is refused, and move when one is not', async () => {
  const { dial, ask, proxy } = await serve({ onRequest: (request) => `answer to ${request.text}` });
  const session = await dial();
  const states: string[] = [];
  session.on('state', (state) => states.push(state));
  let attempts = 0;
  class Counted extends WebSocket {
    constructor(...args: ConstructorParameters<typeof WebSocket>) {
      super(...args);
      attempts++;
    }
  }
  const other = await dial({ WebSocket: Counted });
  proxy.refuse(true);
  ask(session);
  ask(other);
  await expect.poll(() => attempts).toBeGreaterThan(4);
  expect((await session.request('one')).text).toBe('answer to one');
  expect(states).toEqual([]);
  const again = resumed(session);
  proxy.refuse(false);
  await again;
  expect((await session.request('two')).text).toBe('answer to two');
  expect(states).toEqual(['suspended', 'established']);
});

it('move with a store, whose entry never states an attempt that was used', async () => {
  const { dial, ask } = await serve({
    async onSession(session) {
      for (let i = 0; session.state !== 'closed'; i++) {
        if (session.state === 'established') await session.send(String(i));
        await pause(10);
      }
    },
    onRequest: (request) => request.text,
  });
  const entries = new Map<string, string>();
  const store = {
    getItem: (key: string) => entries.get(key) ?? null,
    setItem: (key: string, value: string) => void entries.set(key, value),
    removeItem: (key: string) => void entries.delete(key),
  };
  const attempts: [hello: number | undefined, written: number][] = [];
  /** Opens late, so that the entry is written for what the connection before brings meanwhile. */
  class Late implements WebSocketLike {
    readonly #socket: WebSocket;
    constructor(url: string, protocols: string[]) {
      this.#socket = new WebSocket(url, protocols);
      this.#socket.binaryType = 'arraybuffer';
    }
    readonly binaryType = 'arraybuffer';
    get bufferedAmount(): number {
      return this.#socket.bufferedAmount;
    }
    addEventListener: WebSocketLike['addEventListener'] = (type, listener) => {
      const later: typeof listener = (event) => void setTimeout(() => listener(event), 400);
      this.#socket.addEventListener(type, (type === 'open' ? later : listener) as () => void);
    };
    close: WebSocketLike['close'] = (code, reason) => this.#socket.close(code, reason);
    send(data: string | Uint8Array): void {
      this.#socket.send(data);
      if (typeof data === 'string' || ((data[0] ?? 0) & 0xf0) !== 0x80) return;
      const message = decodeControl(data);
      if (message.type !== 'HELLO') return;
      queueMicrotask(() => {
        const [entry = '{"attempt":0}'] = entries.values();
        attempts.push([message.payload.resume?.attempt, JSON.parse(entry).attempt]);
      });
    }
  }
  const session = await dial({ store, WebSocket: Late });
  const reading = (async () => {
    for await (const message of session) expect(message.text).toMatch(/^\d+$/);
  })();
  for (let moves = 0; moves < 2; moves++) {
    const again = resumed(session);
    ask(session);
    await again;
  }
  expect(attempts).toEqual([
    [undefined, 0],
    [1, 1],
    [2, 2],
  ]);
  const { id } = session;
  await session.detach();
  await reading;
  const next = await dial({ store });
  expect([next.isRebuilt, next.id]).toEqual([true, id]);
  const again = resumed(next);
  ask(next);
  await again;
  expect((await next.request('still here')).text).toBe('still here');
});
