import { systemClock } from '@parlance/protocol/internal';
import type { ServerSession } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import { createOpenAIGateway } from '../handlers/gateway/openai.js';
import { createFakeUpstream, createTestServer, type TestServer, type TestServerOptions } from './kit.js';

/** The test kit, as tests of applications use it. */

const open: TestServer[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});
async function start(options?: TestServerOptions): Promise<TestServer> {
  const test = await createTestServer(options);
  open.push(test);
  return test;
}

const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

describe('time', () => {
  it('is real again when the server is closed, also for the timer that sessions share', async () => {
    const test = await createTestServer();
    await test.connect();
    systemClock.soon({ handleTick() {}, crash() {} });
    await test.close();
    let ticks = 0;
    systemClock.soon({ handleTick: () => void ticks++, crash() {} });
    await expect.poll(() => ticks).toBe(1);
  });

  it('passes only when the test lets it, in order, for handlers too', async () => {
    const test = await start({
      async *onRequest() {
        for (const word of ['one', 'two', 'three']) {
          await wait(60_000);
          yield word;
        }
      },
    });
    const session = await test.connect();
    const words: string[] = [];
    const reading = (async () => {
      for await (const part of session.stream('count')) words.push(`${part.text} at ${test.clock.now}`);
    })();
    await test.clock.advance(59_999);
    expect(words).toEqual([]);
    await test.clock.advance(1);
    expect(words).toEqual(['one at 60000']);
    await test.clock.advance(120_000);
    await reading;
    expect(words).toEqual(['one at 60000', 'two at 120000', 'three at 180000']);
  });

  it('is that of Date.now, performance.now and intervals, and is given back', async () => {
    const originals = [setTimeout, setInterval, clearTimeout, clearInterval, Date.now, performance.now];
    const test = await start();
    const [date, time] = [Date.now(), performance.now()];
    const ran: string[] = [];
    const interval = setInterval(() => ran.push(`tick ${test.clock.now}`), 400);
    const late = setTimeout((word: string) => void ran.push(word), 510, 'late');
    clearTimeout(setTimeout(() => ran.push('never'), 10));
    setTimeout(() => late.refresh(), 300);
    await test.clock.advance(1_000);
    clearInterval(interval);
    await test.clock.advance(1_000);
    expect(ran).toEqual(['tick 400', 'tick 800', 'late']);
    expect([Date.now() - date, performance.now() - time]).toEqual([2_000, 2_000]);
    await expect(test.clock.advance(-1)).rejects.toMatchObject({ code: 'invalid_argument' });
    await expect(test.clock.advance(Number.NaN)).rejects.toMatchObject({ code: 'invalid_argument' });
    await test.close();
    expect([setTimeout, setInterval, clearTimeout, clearInterval, Date.now, performance.now]).toEqual(
      originals,
    );
  });

  it('is that of one server at a time, unless it is real', async () => {
    const test = await start();
    await expect(createTestServer()).rejects.toMatchObject({ code: 'invalid_argument' });
    await test.close();
    await (await createTestServer()).close();
    await expect(createTestServer({ time: 'never' as never })).rejects.toMatchObject({
      code: 'invalid_option',
    });
    await expect(createTestServer({ onRequst: () => '' } as never)).rejects.toMatchObject({
      code: 'invalid_option',
    });
    // The refused ones have left nothing behind.
    const real = await start({ time: 'real', onRequest: () => 'x' });
    const session = await real.connect();
    expect((await session.request('y')).text).toBe('x');
    const before = real.clock.now;
    await real.clock.advance(5);
    expect(real.clock.now).toBeGreaterThan(before);
  });
});

describe('the network', () => {
  const echo: TestServerOptions = {
    async onSession(session) {
      for await (const message of session) await session.send(message.text);
    },
  };

  it('is cut, and the session continues when the client is back', async () => {
    const test = await start(echo);
    const session = await test.connect();
    test.network.cut();
    await test.clock.advance(0);
    expect(session.state).toBe('suspended');
    await session.send('hello');
    await test.clock.advance(1_000);
    expect(session.state).toBe('established');
    for await (const message of session) {
      expect(message.text).toBe('hello');
      break;
    }
  });

  it('is down for longer than the session is kept', async () => {
    const test = await start(echo);
    const session = await test.connect();
    const resets: string[] = [];
    session.on('reset', ({ reason }) => resets.push(reason));
    const { id } = session;
    test.network.down();
    await test.clock.advance(300_000);
    expect(test.server.sessions.size).toBe(0);
    test.network.up();
    await test.clock.advance(20_000);
    expect(session.state).toBe('established');
    expect(session.id).not.toBe(id);
    expect(resets).toHaveLength(1);
  });

  it('is frozen: neither end notices, and everything arrives later', async () => {
    const test = await start({ onRequest: (request) => `echo ${request.text}` });
    const session = await test.connect();
    test.network.freeze();
    const asking = session.request('x');
    await test.clock.advance(5_000);
    expect(session.state).toBe('established');
    test.network.thaw();
    expect((await asking).text).toBe('echo x');
  });

  it('is frozen for so long that the client looks for another connection', async () => {
    const test = await start(echo);
    const session = await test.connect();
    test.network.freeze();
    await test.clock.advance(200_000);
    expect(session.state).not.toBe('established');
  });

  it('carries megabytes, several clients, and HTTP', async () => {
    const seen: ServerSession[] = [];
    const test = await start({
      onSession: (session) => void seen.push(session),
      onFetch: async (request) => new Response(request.body),
      authenticate: ({ token }) => ({ principal: token ?? '' }),
    });
    const [a, b] = [await test.connect({ token: 'a' }), await test.connect({ token: 'b' })];
    const bytes = new Uint8Array(3_000_000).map((_, i) => i % 251);
    for (const session of [a, b]) {
      const response = await session.fetch('/', { method: 'POST', body: new Blob([bytes]) });
      expect(Buffer.from(await response.arrayBuffer()).equals(bytes)).toBe(true);
    }
    expect(seen.map(({ principal }) => principal)).toEqual(['a', 'b']);
  });
});

describe('the upstream', () => {
  const asked = { model: 'm', messages: [{ role: 'user', content: 'x' }] };

  async function chat(options: TestServerOptions = {}) {
    const upstream = createFakeUpstream();
    const onRequest = createOpenAIGateway({ ...upstream.options, apiKey: 'sk-test' });
    const test = await start({ onRequest, ...options });
    return { upstream, test, session: await test.connect() };
  }
  const post = (body: unknown): RequestInit => ({ method: 'POST', body: JSON.stringify(body) });

  it('answers what the test says, and records what it is asked', async () => {
    const { upstream, session } = await chat();
    upstream.answer({ text: ['Hello', ', world'], toolCalls: [{ name: 'get', arguments: { a: 1 } }] });
    const whole = await (await session.fetch('/v1/chat/completions', post(asked))).json();
    expect(whole.choices[0]).toMatchObject({
      message: { content: 'Hello, world', tool_calls: [{ function: { name: 'get', arguments: '{"a":1}' } }] },
      finish_reason: 'tool_calls',
    });
    upstream.answer({ error: { status: 429, message: 'slow down', code: 'rate_limit_exceeded' } });
    const refused = await session.fetch('/v1/chat/completions', post(asked));
    expect([refused.status, (await refused.json()).error.code]).toEqual([429, 'rate_limit_exceeded']);
    upstream.answer({ json: { object: 'list', data: [] } });
    expect(await (await session.fetch('/v1/models')).json()).toEqual({ object: 'list', data: [] });
    expect(upstream.requests.map(({ method, path, body }) => [method, path, body])).toEqual([
      ['POST', '/chat/completions', asked],
      ['POST', '/chat/completions', asked],
      ['GET', '/models', ''],
    ]);
    expect(upstream.requests[0]?.headers.get('authorization')).toBe('Bearer sk-test');
    expect(upstream.open).toBe(0);
  });

  it('streams at the pace of virtual time', async () => {
    const { upstream, test, session } = await chat();
    upstream.answer({ text: ['one', 'two'], delayMs: 10_000, paceMs: 1_000 });
    const seen: string[] = [];
    const reading = (async () => {
      const response = await session.fetch('/v1/chat/completions', post({ ...asked, stream: true }));
      seen.push(`${response.status} at ${test.clock.now}`);
      const decoder = new TextDecoder();
      for await (const chunk of response.body ?? []) {
        const data = decoder.decode(chunk).slice('data: '.length).trim();
        const text = data === '[DONE]' ? data : JSON.parse(data).choices[0].delta.content;
        if (text) seen.push(`${text} at ${test.clock.now}`);
      }
    })();
    await test.clock.advance(60_000);
    await reading;
    expect(seen).toEqual(['200 at 10000', 'one at 11000', 'two at 12000', '[DONE] at 14000']);
  });

  it('breaks in the middle of a stream, and sees that a request is cancelled', async () => {
    const { upstream, test, session } = await chat();
    upstream.answer({ text: ['one', 'two', 'three'], breaksAfter: 2 });
    const broken = await session.fetch('/v1/chat/completions', post({ ...asked, stream: true }));
    await expect(broken.text()).rejects.toMatchObject({ code: 'upstream_interrupted' });
    upstream.answer({ text: ['one', 'two'], paceMs: 1_000 });
    const stopped = await session.fetch('/v1/chat/completions', post({ ...asked, stream: true }));
    expect(upstream.open).toBe(1);
    await stopped.body?.cancel();
    await test.clock.advance(5_000);
    expect(upstream.requests[1]?.signal.aborted).toBe(true);
    expect(upstream.open).toBe(0);
  });
});
