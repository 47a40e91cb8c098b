import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { connect, type Session } from '@parlance/client';
import { createServer } from '@parlance/server';
import { afterEach, expect, it } from 'vitest';
import WebSocket from 'ws';

/** The cost of a stalled reader for the others; `npm run bench -- stalled` has the figures. */

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const MB = 1024 * 1024;
const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

/** Bytes in use; array buffers count twice, as they are part of `external`. */
async function memory(): Promise<number> {
  for (let i = 0; i < 3; i++) {
    collectGarbage();
    await new Promise((resolve) => setImmediate(resolve));
  }
  const { heapUsed, external, arrayBuffers } = process.memoryUsage();
  return heapUsed + external + arrayBuffers;
}

/** The reader that stops: the application or its socket. */
it.each(['application', 'socket'] as const)(
  'a stalled %s holds at most 16 MB, at both ends together, and stops no other session',
  async (stall) => {
    const piece = new Uint8Array(64 * 1024);
    const server = createServer({
      algorithms: ['NONE'],
      encodings: [],
      limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
      timers: { resumeWindowMs: 100 },
      onSession: async (session) => {
        for await (const { bytes } of session) {
          if (session.agentId !== 'stalled') await session.send(bytes);
          else for (;;) await session.send(piece);
        }
      },
      async *onRequest(_request, { signal }) {
        while (!signal.aborted) yield { bytes: piece };
      },
    });
    open.push(server);
    const { url } = await server.listen();
    const sockets: WebSocket[] = [];
    class KeptWebSocket extends WebSocket {
      constructor(address: string, protocols: string[]) {
        super(address, protocols);
        sockets.push(this);
      }
    }
    const enter = async (agentId: string): Promise<Session> => {
      const options = { agentId, encodings: [], algorithms: ['NONE'], reconnect: false } as const;
      const limits = { messagesPerMinute: Infinity, bytesPerSecond: Infinity };
      return await connect(url, { WebSocket: KeptWebSocket, limits, ...options });
    };
    const healthy = await Promise.all(Array.from({ length: 10 }, () => enter('healthy')));
    open.push(...healthy);
    const exchange = async (): Promise<void> => {
      await Promise.all(
        healthy.map(async (session) => {
          const echoes = session[Symbol.asyncIterator]();
          for (let i = 0; i < 100; i++) {
            await session.send(new Uint8Array(1_000));
            await echoes.next();
          }
          await echoes.return?.();
        }),
      );
    };

    await exchange();
    const before = await memory();
    const stalled = await enter('stalled');
    await stalled.send('flood');
    for (let i = 0; i < 8; i++) stalled.stream('flood');
    if (stall === 'socket') sockets.at(-1)?.pause();
    const theirs = [...server.sessions.values()].find(({ agentId }) => agentId === 'stalled') as Session;
    let passed = -1;
    const hasSettled = () => {
      const last = passed;
      passed = theirs.stats().sent.contentBytes;
      return passed > 0 && passed === last;
    };
    await expect.poll(hasSettled, { interval: 200 }).toBe(true);
    await exchange();
    expect((await memory()) - before).toBeLessThan(16 * MB);
    expect(passed).toBeGreaterThan(0.5 * MB);
    sockets.at(-1)?.terminate();
  },
);
