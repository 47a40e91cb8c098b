import { setTimeout as pause } from 'node:timers/promises';
import {
  type ClientOptions,
  type ClientSession,
  connect,
  ProtocolError,
  type SessionReset,
} from '@parlance/client';
import type { createServer, ServerOptions } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';
import { createPeers, failure } from '../kit/peers.js';

/** Calls with `retryUnsent`, while a server is replaced by one that does not know its sessions. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

interface Setup {
  readonly session: ClientSession;
  readonly proxy: CuttingProxy;
  /** The messages and the requests that each server has got. */
  readonly heard: readonly [string[], string[]];
  readonly resets: SessionReset[];
  readonly server: ReturnType<typeof createServer>;
  /** Loses the connection, and with it what is written from now on. */
  lose(): Promise<void>;
  /** New connections reach the other server. */
  replace(): Promise<void>;
}

async function setUp(options: ClientOptions = {}): Promise<Setup> {
  const heard: [string[], string[]] = [[], []];
  const serverOf = (texts: string[]): ServerOptions => ({
    limits: { messagesPerMinute: Infinity },
    async onSession(session) {
      for await (const message of session) texts.push(message.text);
    },
    async *onRequest(request) {
      texts.push(request.text);
      yield `re: ${request.text}`;
    },
  });
  const [{ server, port }, other] = [
    await peers.serve(serverOf(heard[0])),
    await peers.serve(serverOf(heard[1])),
  ];
  const proxy = peers.use(await createCuttingProxy(port));
  const session = peers.use(
    await connect(`ws://127.0.0.1:${proxy.port}/session`, {
      WebSocket,
      reconnect: { minDelayMs: 5, maxDelayMs: 50 },
      ...options,
    }),
  );
  const resets: SessionReset[] = [];
  session.on('reset', (reset) => resets.push(reset));
  return {
    session,
    proxy,
    heard,
    resets,
    server,
    async lose() {
      proxy.refuse(true);
      proxy.cut();
      await expect.poll(() => session.state).toBe('suspended');
    },
    async replace() {
      const { id } = session;
      proxy.redirect(other.port);
      proxy.refuse(false);
      proxy.cut();
      await expect.poll(() => session.state === 'established' && session.id !== id).toBe(true);
    },
  };
}

const textOf = async (stream: AsyncIterable<{ readonly text: string }>): Promise<string> => {
  let text = '';
  for await (const part of stream) text += part.text;
  return text;
};

const RETRY = { retryUnsent: true } as const;

describe('a call that was not written when the session was lost', () => {
  it('moves on to the next one in its order, if its sender asked for that', async () => {
    const { session, heard, resets, lose, replace } = await setUp();
    await session.send('first', RETRY);
    await session.flush();
    await lose();
    await session.send('a', RETRY);
    await session.send('stays');
    await session.send({ b: 1 }, { ...RETRY, signal: new AbortController().signal });
    await session.send('x'.repeat(100_000), RETRY);
    const answers = [session.request('question', RETRY), textOf(session.stream('stream', RETRY))];
    const failed = failure(session.request('fails'));
    await session.send(Uint8Array.of(99), RETRY);
    await replace();
    expect(await failed).toMatchObject({ code: 'session_lost' });
    expect((await session.request('last')).text).toBe('re: last');
    const [answer, streamed] = await Promise.all(answers);
    expect(typeof answer === 'object' && answer.text).toBe('re: question');
    expect(streamed).toBe('re: stream');
    expect(heard[0]).toEqual(['first']);
    await expect
      .poll(() => heard[1].filter((text) => !['question', 'stream', 'last'].includes(text)))
      .toEqual(['a', '{"b":1}', 'x'.repeat(100_000), 'c']);
    expect(resets).toEqual([
      {
        code: 'session_lost',
        reason: expect.any(String),
        notSent: [
          { kind: 'message', streamId: 0 },
          { kind: 'request', streamId: expect.any(Number) },
        ],
        unknown: [],
      },
    ]);
  });

  it('is as it was when it was sent, even if the object is changed later', async () => {
    const { session, heard, lose, replace } = await setUp();
    await lose();
    const body = { n: 1 };
    await session.send(body, RETRY);
    body.n = 2;
    await replace();
    await expect.poll(() => heard[1]).toEqual(['{"n":1}']);
  });

  it('moves on as often as sessions are lost, and once per session', async () => {
    const { session, proxy, heard, lose, replace } = await setUp();
    await lose();
    const answer = session.request('question', RETRY);
    await session.send('message', RETRY);
    // The next session is lost before it has begun.
    const { port } = await peers.serve({ authenticate: () => new Promise(() => {}) });
    const { opened } = proxy;
    proxy.redirect(port);
    proxy.refuse(false);
    await expect.poll(() => proxy.opened).toBeGreaterThan(opened);
    await replace();
    expect((await answer).text).toBe('re: question');
    await expect.poll(() => [...heard[1]].sort()).toEqual(['message', 'question']);
  });
});

describe('a call that may have arrived', () => {
  it('is reported as unknown and never repeated', async () => {
    const { session, proxy, heard, resets, replace } = await setUp();
    await session.send('before', RETRY);
    await session.flush();
    proxy.freeze();
    await session.send('in between', RETRY);
    const answer = failure(session.request('question', RETRY));
    const streamed = failure(textOf(session.stream('stream', RETRY)));
    await expect.poll(() => session.stats().sent.messages).toBe(4);
    await replace();
    expect(await answer).toMatchObject({ code: 'session_lost' });
    expect(await streamed).toMatchObject({ code: 'session_lost' });
    await session.send('after', RETRY);
    await expect.poll(() => heard[1]).toEqual(['after']);
    expect(heard[0]).toEqual(['before']);
    expect(resets.map(({ notSent, unknown }) => [notSent, unknown.map(({ kind }) => kind).sort()])).toEqual([
      [[], ['message', 'request', 'request']],
    ]);
  });

  it('is told from what may not, whenever the session is lost', async () => {
    const { session, proxy, heard, resets, replace } = await setUp();
    const COUNT = 400;
    const sending = (async () => {
      for (let i = 0; i < COUNT; i++) {
        await session.send(String(i), RETRY);
        if (i % 10 === 0) await pause(1);
        if (i === 150) proxy.freeze();
        if (i === 250) await replace();
      }
    })();
    await sending;
    await session.flush();
    const arrived = [...heard[0], ...heard[1]].map(Number);
    const unknown = resets.flatMap((reset) => reset.unknown).length;
    expect(resets.flatMap(({ notSent }) => notSent)).toEqual([]);
    expect(arrived).toEqual([...new Set(arrived)].sort((a, b) => a - b));
    expect(unknown).toBeGreaterThan(0);
    expect(arrived.length).toBeGreaterThanOrEqual(COUNT - unknown);
    expect(arrived.at(-1)).toBe(COUNT - 1);
  });
});

describe('while there is no session', () => {
  /** Neither server can be reached, and the session is lost. */
  async function between(options: ClientOptions = {}) {
    const setup = await setUp(options);
    const { session, server, proxy } = setup;
    proxy.refuse(true);
    await server.drain({ timeoutMs: 1_000, returnWithinMs: 1 });
    await expect.poll(() => session.state).toBe('connecting');
    return setup;
  }

  it('calls wait for the next one', async () => {
    const { session, heard, resets, replace } = await between();
    const sent = session.send('waits', RETRY);
    const answer = session.request('question', RETRY);
    const streamed = textOf(session.stream('stream', RETRY));
    const without = session.request('without');
    await replace();
    await sent;
    const answers = [(await answer).text, await streamed, (await without).text];
    expect(answers).toEqual(['re: question', 're: stream', 're: without']);
    expect([...heard[1]].sort()).toEqual(['question', 'stream', 'waits', 'without']);
    expect(resets).toEqual([]);
  });

  it('calls end with their signal, their time limit and the client', async () => {
    const { session } = await between();
    const abort = new AbortController();
    const { signal } = abort;
    const aborted = [
      session.request('a', { ...RETRY, signal }),
      textOf(session.stream('b', { ...RETRY, signal })),
    ].map(failure);
    abort.abort(new Error('enough'));
    for (const error of await Promise.all(aborted)) expect(error.message).toBe('enough');
    expect(await failure(session.request('c', { ...RETRY, timeoutMs: 20 }))).toMatchObject({
      code: 'timeout',
      message: 'no reply within 20 ms',
    });
    const stream = session.stream('d', RETRY);
    const reading = textOf(stream);
    stream.cancel();
    expect(await reading).toBe('');
    const left = [session.request('e', RETRY), textOf(session.stream('f', RETRY))].map(failure);
    await pause(20);
    await session.close();
    for (const error of await Promise.all(left)) expect(error).toMatchObject({ code: 'session_closed' });
    expect(await failure(session.request('g', RETRY))).toMatchObject({ code: 'session_closed' });
  });

  it('4 MiB wait, and not a byte more', async () => {
    const { session, heard, replace } = await between();
    // Each call counts 512 bytes.
    const half = 'x'.repeat(2 * 1024 * 1024 - 512);
    const waiting = [session.request(half, RETRY), session.request(half, RETRY)];
    expect(await failure(session.request('', RETRY))).toBeInstanceOf(ProtocolError);
    expect(await failure(session.request('', RETRY))).toMatchObject({ code: 'over_budget' });
    await replace();
    expect((await Promise.all(waiting)).map(({ text }) => text.length)).toEqual([
      half.length + 4,
      half.length + 4,
    ]);
    expect(heard[1].length).toBe(2);
    expect((await session.request('', RETRY)).text).toBe('re: ');
  });
});

it('a client that never has another session fails as without it, and a server refuses the option', async () => {
  const { server, url } = await peers.serve();
  const session = await peers.dial(url, { reconnect: false });
  const [served] = [...server.sessions.values()];
  expect(await failure((served as NonNullable<typeof served>).send('x', RETRY))).toMatchObject({
    code: 'unsupported',
  });
  await server.close();
  await session.closed;
  expect(await failure(session.request('x', RETRY))).toMatchObject({ code: 'session_closed' });
});
