import { getEventListeners } from 'node:events';
import { createTestServer, type TestServer } from '@parlance/server/testing';
import { afterEach, expect, it } from 'vitest';

/** One signal for all calls of a page or a job. Node warns of a leak if a signal has more than ten listeners. */

let test: TestServer | undefined;
afterEach(() => test?.close());

const MANY = 40;

/** Each begins a call that stays under way until the signal aborts, and returns how it ends. */
type Begin = (signal: AbortSignal) => Promise<unknown>;

const NAMES = [
  'request',
  'request, retryUnsent',
  'stream',
  'fetch',
  'fetch with a body that streams',
  'connect',
  'presence',
] as const;

async function begins(): Promise<Record<(typeof NAMES)[number], Begin>> {
  test = await createTestServer({
    authenticate: ({ token }) => ({ principal: token ?? 'ann' }),
    onRequest: () => new Promise(() => {}),
    onFetch: () => new Promise(() => {}),
  });
  const { connect, server } = test;
  const session = await connect();
  const presences = async (signal: AbortSignal) => {
    for await (const _ of server.group('all').presence({ signal }));
  };
  return {
    request: (signal) => session.request('x', { signal }),
    'request, retryUnsent': (signal) => session.request('x', { signal, retryUnsent: true }),
    stream: async (signal) => {
      for await (const _ of session.stream('x', { signal }));
    },
    fetch: (signal) => session.fetch('/', { signal }),
    'fetch with a body that streams': (signal) =>
      session.fetch('/', { method: 'POST', body: new ReadableStream({}), signal }),
    connect: (signal) => connect({ signal, token: () => new Promise<string>(() => {}) }),
    presence: presences,
  };
}

/** Some calls load their code first. */
async function untilListening(signal: AbortSignal): Promise<void> {
  while (getEventListeners(signal, 'abort').length === 0) await test?.clock.advance(100);
  await test?.clock.advance(100);
  expect(getEventListeners(signal, 'abort')).toHaveLength(1);
}

it.each(NAMES)('many calls of %s have one listener, which goes with them', async (name) => {
  const begin = (await begins())[name];
  const abort = new AbortController();
  const { signal } = abort;
  const calls = Array.from({ length: MANY }, () => begin(signal).catch((error: unknown) => error));
  await untilListening(signal);
  abort.abort(new Error('the page is left'));
  await test?.clock.advance(100);
  const ends = new Set((await Promise.all(calls)).map(String));
  expect([...ends]).toEqual([name === 'presence' ? 'undefined' : 'Error: the page is left']);
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});

it('sends that wait for a connection have one listener, and none when they are written', async () => {
  test = await createTestServer({ onSession() {} });
  const session = await test.connect();
  const { signal } = new AbortController();
  test.network.down();
  await test.clock.advance(1_000);
  const sent = Array.from({ length: MANY }, () => session.send('x', { signal }));
  await untilListening(signal);
  test.network.up();
  await test.clock.advance(10_000);
  await Promise.all(sent);
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});
