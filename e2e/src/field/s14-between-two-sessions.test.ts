import type { ClientOptions, ClientSession } from '@parlance/client';
import { createTestServer, type TestServer } from '@parlance/server/testing';
import { afterEach, describe, expect, it } from 'vitest';

/** The connection was away for longer than the session is kept, and the next session is not open yet: calls wait for it. */

let test: TestServer | undefined;
afterEach(() => test?.close());

const got: string[] = [];
const WINDOW_MS = 3_000;

/** A client between two sessions. */
async function between(options: ClientOptions = {}): Promise<ClientSession> {
  got.length = 0;
  test = await createTestServer({
    authenticate: () => ({ principal: 'ada' }),
    timers: { resumeWindowMs: WINDOW_MS },
    async onSession(session) {
      for await (const message of session) got.push(message.text);
    },
    async *onRequest(request) {
      yield `answer to ${request.text}`;
    },
    onFetch: () => new Response('answer'),
  });
  const session = await test.connect({ token: 't', ...options });
  test.network.down();
  await test.clock.advance(WINDOW_MS + 1_500);
  expect(session.state).toBe('connecting');
  return session;
}

async function back(): Promise<void> {
  test?.network.up();
  await test?.clock.advance(60_000);
}

const outcome = (promise: Promise<unknown>) =>
  promise.then(
    (value) => value,
    (error: { code?: string; message: string }) => error.code ?? error.message,
  );

describe('between two sessions', () => {
  it('calls of all kinds wait for the next session, in their order', async () => {
    const session = await between();
    const streamed = (async () => {
      let text = '';
      for await (const part of session.stream('b')) text += part.text;
      return text;
    })();
    const calls = [
      session.request('a').then(({ text }) => text),
      streamed,
      session.fetch('/').then((response) => response.text()),
      session.fetch('/', { method: 'POST', body: 'x' }).then((response) => response.text()),
      session.replies(),
      session.agents().then(({ list }) => list.length),
      session.send('one'),
      session.send('two'),
      session.flush(),
      (async () => {
        for await (const _ of session.follow('nothing'));
      })(),
    ].map(outcome);
    await back();
    expect(await Promise.all(calls)).toEqual([
      'answer to a',
      'answer to b',
      'answer',
      'answer',
      [],
      0,
      undefined,
      undefined,
      undefined,
      'unknown_reply',
    ]);
    expect(got).toEqual(['one', 'two']);
  });

  it('a call from a listener that hears of the loss waits as well', async () => {
    got.length = 0;
    const session = await between();
    await back();
    const sent: unknown[] = [];
    session.on('reset', () => {
      session.send('again').then(
        () => sent.push('sent'),
        (error) => sent.push(error),
      );
    });
    test?.network.down();
    await test?.clock.advance(WINDOW_MS + 1_500);
    await back();
    expect(sent).toEqual(['sent']);
    expect(got).toEqual(['again']);
  });

  it('the time of a call counts while it waits, and a signal ends its wait', async () => {
    const session = await between();
    const abort = new AbortController();
    const reason = new Error('enough');
    const calls = [
      session.request('a', { timeoutMs: 100 }),
      session.request('b', { signal: abort.signal }),
      session.send('c', { signal: abort.signal }),
      session.stream('d', { signal: abort.signal })[Symbol.asyncIterator]().next(),
      session.request('e', { timeoutMs: 600_000 }).then(({ text }) => text),
    ].map(outcome);
    abort.abort(reason);
    await test?.clock.advance(200);
    expect(await Promise.all(calls.slice(0, 4))).toEqual(['timeout', 'enough', 'enough', 'enough']);
    await back();
    expect(await calls[4]).toBe('answer to e');
    expect(got).toEqual([]);
  });

  it('a reply that is cancelled ends at once, and its request is not sent', async () => {
    const session = await between();
    const reply = session.stream('a');
    const next = reply[Symbol.asyncIterator]().next();
    reply.cancel();
    await test?.clock.advance(0);
    expect(await next).toEqual({ value: undefined, done: true });
  });

  it('the wait ends after the time for which sessions are kept, with an error that may be retried', async () => {
    const session = await between();
    const call = session.request('a').catch((error: unknown) => error);
    await test?.clock.advance(121_000);
    expect(await call).toMatchObject({ code: 'timeout', retryable: true });
  });

  it('4 MiB may wait, and no more', async () => {
    const session = await between();
    const most = 4 * 1024 * 1024 - 512;
    const fits = session.send(new Uint8Array(most));
    await expect(session.send('')).rejects.toMatchObject({ code: 'over_budget' });
    await back();
    await fits;
    expect(got).toHaveLength(1);
  });

  it('a session that is closed meanwhile fails what waits, and later calls at once', async () => {
    const session = await between();
    const waiting = [session.send('a'), session.request('b')].map(outcome);
    const closed = session.close();
    expect(await outcome(session.send('c'))).toBe('session_closed');
    await test?.clock.advance(60_000);
    await closed;
    expect(await Promise.all(waiting)).toEqual(['session_closed', 'session_closed']);
    expect(await outcome(session.request('d'))).toBe('session_closed');
  });

  it('a client that does not reconnect fails at once', async () => {
    test = await createTestServer({ timers: { resumeWindowMs: WINDOW_MS } });
    const session = await test.connect({ reconnect: false });
    test.network.down();
    await test.clock.advance(WINDOW_MS + 1_500);
    expect(await outcome(session.send('a'))).toBe('session_closed');
  });
});
