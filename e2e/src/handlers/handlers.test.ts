import { setTimeout as sleep } from 'node:timers/promises';
import { type ClientOptions, connect, type Session } from '@parlance/client';
import type { ProtocolError, RequestContext } from '@parlance/protocol';
import { createServer, type Server, type ServerOptions } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';

/** Events that stop a handler and events that do not, over real sockets. */

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

const UNLIMITED = {
  sessionsPerIp: Infinity,
  sessionsPerMinutePerIp: Infinity,
  connectionsPerMinutePerIp: Infinity,
  failuresPerMinutePerIp: Infinity,
  messagesPerMinute: Infinity,
};

async function serve(options: ServerOptions): Promise<{ server: Server; proxy: CuttingProxy }> {
  const server = createServer({ limits: UNLIMITED, ...options });
  open.push(server);
  const { port } = await server.listen();
  const proxy = await createCuttingProxy(port);
  open.push(proxy);
  return { server, proxy };
}

async function enter({ port }: CuttingProxy, options: ClientOptions = {}): Promise<Session> {
  const session = await connect(`ws://127.0.0.1:${port}/session`, {
    WebSocket,
    reconnect: { minDelayMs: 5, maxDelayMs: 50 },
    timers: { closingTimeoutMs: 100 },
    ...options,
  });
  open.push(session);
  return session;
}

/** Handlers that count for as long as they may, and records of them. */
function createCounters() {
  const aborted: string[] = [];
  let running = 0;
  return {
    aborted,
    get running() {
      return running;
    },
    async *handler(_request: unknown, { signal }: RequestContext) {
      running++;
      signal.addEventListener('abort', () => aborted.push((signal.reason as ProtocolError).code));
      try {
        for (let i = 0; !signal.aborted; i++) {
          yield String(i);
          await sleep(5);
        }
      } finally {
        running--;
      }
    },
  };
}

describe('of 1,000 lost connections', () => {
  const SESSIONS = 50;
  const ROUNDS = 20;

  it('none stops a handler if its session is resumed, and no part is missing', async () => {
    const counters = createCounters();
    const { proxy } = await serve({ onRequest: counters.handler });
    const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => enter(proxy)));
    const counted = sessions.map(() => 0);
    const reading = sessions.map(async (session, i) => {
      for await (const part of session.stream('count')) {
        if (Number(part.text) !== counted[i]) throw new Error(`${part.text} follows ${counted[i]}`);
        counted[i] = Number(part.text) + 1;
      }
    });
    const isThrough = (before: readonly number[]) => () =>
      sessions.every(({ state }, i) => state === 'established' && (counted[i] ?? 0) > (before[i] ?? 0) + 1);
    await expect.poll(isThrough(sessions.map(() => 0))).toBe(true);

    let lost = 0;
    for (const session of sessions) session.on('state', (state) => state === 'suspended' && lost++);
    for (let round = 1; round <= ROUNDS; round++) {
      const before = [...counted];
      proxy.cut();
      await expect.poll(() => lost).toBe(round * SESSIONS);
      await expect.poll(isThrough(before)).toBe(true);
    }
    expect(lost).toBe(SESSIONS * ROUNDS);
    expect([counters.running, counters.aborted]).toEqual([SESSIONS, []]);

    const read = Promise.allSettled(reading);
    await Promise.all(sessions.map((session) => session.close()));
    // A truncated stream must report an error.
    expect((await read).map(({ status }) => status)).toEqual(sessions.map(() => 'rejected'));
    await expect.poll(() => counters.running).toBe(0);
  });

  it('none leaves a handler running once the resume window of its session has passed', async () => {
    const counters = createCounters();
    const { server, proxy } = await serve({
      onRequest: counters.handler,
      timers: { resumeWindowMs: 100 },
    });
    for (let i = 0; i < SESSIONS; i++) {
      const session = await enter(proxy);
      await session.stream('count')[Symbol.asyncIterator]().next();
    }
    expect(counters.running).toBe(SESSIONS);
    proxy.refuse(true);
    proxy.cut();
    await expect.poll(() => counters.running).toBe(0);
    expect(counters.aborted).toEqual(Array.from({ length: SESSIONS }, () => 'session_lost'));
    expect(server.sessions.size).toBe(0);
  });
});

describe('a handler that runs to completion', () => {
  /** A handler that runs until it is released, and a record of it. */
  function createWorker() {
    const fate: string[] = [];
    let letGo = () => {};
    const released = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    return {
      fate,
      letGo: () => letGo(),
      async *handler(_request: unknown, context: RequestContext) {
        context.runToCompletion();
        context.signal.addEventListener('abort', () => fate.push('aborted'));
        try {
          yield 'begun';
          await Promise.race([
            released,
            new Promise((done) => context.signal.addEventListener('abort', done)),
          ]);
          // There may be no receiver for these any more.
          for (let i = 0; i < 100; i++) yield { text: 'x'.repeat(10_000) };
          if (!context.signal.aborted) fate.push('finished');
        } finally {
          fate.push('returned');
        }
      },
    };
  }

  it('is not stopped by the end of its session', async () => {
    const worker = createWorker();
    const { server, proxy } = await serve({ onRequest: worker.handler, timers: { resumeWindowMs: 100 } });
    const session = await enter(proxy);
    await session.stream('work')[Symbol.asyncIterator]().next();
    proxy.refuse(true);
    proxy.cut();
    await expect.poll(() => server.sessions.size).toBe(0);
    worker.letGo();
    await expect.poll(() => worker.fate).toEqual(['finished', 'returned']);
  });

  it('is not stopped by a session that closes', async () => {
    const worker = createWorker();
    const { server, proxy } = await serve({ onRequest: worker.handler });
    const session = await enter(proxy);
    await session.stream('work')[Symbol.asyncIterator]().next();
    await session.close();
    await expect.poll(() => server.sessions.size).toBe(0);
    worker.letGo();
    await expect.poll(() => worker.fate).toEqual(['finished', 'returned']);
  });

  it('is stopped by its requester', async () => {
    const worker = createWorker();
    const { proxy } = await serve({ onRequest: worker.handler });
    const session = await enter(proxy);
    const stream = session.stream('work');
    await stream[Symbol.asyncIterator]().next();
    stream.cancel();
    await expect.poll(() => worker.fate).toEqual(['aborted', 'returned']);
  });
});

it('a handler of a lost session that returns late does not affect those of the next session', async () => {
  const signals: AbortSignal[] = [];
  const release: (() => void)[] = [];
  const { server, proxy } = await serve({ timers: { resumeWindowMs: 100 } });
  const session = await enter(proxy, {
    onRequest: async (_request, { signal }) => {
      signals.push(signal);
      await new Promise<void>((resolve) => release.push(resolve));
      return 'late';
    },
  });
  const theirs = () => [...server.sessions.values()].find((each) => each.state === 'established');
  theirs()
    ?.request('first')
    .catch(() => {});
  await expect.poll(() => signals.length).toBe(1);
  const { id } = session;
  proxy.refuse(true);
  proxy.cut();
  await expect.poll(() => server.sessions.size).toBe(0);
  proxy.refuse(false);
  await expect.poll(() => session.id !== id && theirs() !== undefined).toBe(true);
  const abort = new AbortController();
  theirs()
    ?.request('second', { signal: abort.signal })
    .catch(() => {});
  await expect.poll(() => signals.length).toBe(2);
  // Both requests had the first stream of their session.
  release[0]?.();
  await sleep(0);
  abort.abort();
  await expect.poll(() => signals[1]?.aborted).toBe(true);
  release[1]?.();
});
