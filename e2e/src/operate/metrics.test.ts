import { encodeControl } from '@parlance/protocol';
import { cluster, durable, metrics, scan } from '@parlance/server';
import { createOpenAIGateway } from '@parlance/server/openai';
import { redis } from '@parlance/server/redis';
import { afterEach, describe, expect, it } from 'vitest';
import { redisMissing, startRedis } from '../../../packages/server/src/engine/testing/redis-server.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { createPeers, failure, greet } from '../kit/peers.js';
import { sampleOf, scrape } from './scraping.js';

/** The metrics for an operator, beyond traffic: see observability.test.ts for that. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

/** How many times a histogram was given a value, and their sum. */
async function histogram(port: number, name: string): Promise<{ count: number; sum: number }> {
  const sample = (await scrape(port)).get(`parlance_${name}`)?.metrics[0];
  return { count: Number(sample?.count), sum: Number(sample?.sum) };
}

const tensorOf = (length: number) =>
  ({
    data: new Float32Array(length),
    shape: [length],
    dtype: 'float32',
    payloadType: 'hidden_state',
  }) as const;

/** A tensor that never ends. */
async function* forever(): AsyncGenerator<Uint8Array> {
  yield new Uint8Array(1_000);
  await new Promise(() => {});
}

/** How many tensors have begun to arrive. */
async function sampleOfTensors(port: number): Promise<number | undefined> {
  return sampleOf(await scrape(port), 'tensors_total', { direction: 'received' });
}

describe('metrics', () => {
  it('time the handshake, the first part of a reply, and the round trip', async () => {
    const { url, port } = await peers.serve({
      features: [metrics()],
      authenticate: async () => {
        await new Promise((resolve) => setTimeout(resolve, 30));
        return { principal: 'p' };
      },
      async *onRequest(request) {
        yield '';
        await new Promise((resolve) => setTimeout(resolve, 40));
        if (request.text === 'fail') throw new Error('as asked');
        yield 'a';
        yield 'b';
      },
    });
    const session = await peers.dial(url, { token: 't' });
    await session.request('x');
    await failure(session.request('fail'));
    const handshake = await histogram(port, 'handshake_seconds');
    expect(handshake.count).toBe(1);
    expect(handshake.sum).toBeGreaterThan(0.02);
    const first = await histogram(port, 'request_first_part_seconds');
    // The empty part that comes at once does not count as content, and the request that failed had none.
    expect(first.count).toBe(1);
    expect(first.sum).toBeGreaterThan(0.03);
  });

  it('time PINGs that are answered', async () => {
    const { server, url, port } = await peers.serve({ features: [metrics()] });
    const raw = await greet(url);
    // Nothing acknowledges this, so the server asks early whether the client is there.
    const asked = failure([...server.sessions.values()][0]?.request('are you there?') as Promise<unknown>);
    const { sessionId, timestamp, payload } = await raw.control('PING');
    raw.send(encodeControl({ type: 'PONG', sessionId, timestamp, payload }));
    await expect.poll(async () => (await histogram(port, 'round_trip_seconds')).count).toBe(1);
    raw.socket.close();
    await server.close();
    await asked;
  });

  it('tell how long resumed sessions were away, and why others could not resume', async () => {
    const { server, url, port } = await peers.serve({
      features: [metrics()],
      timers: { closingTimeoutMs: 200 },
      onRequest: () => 'ok',
    });
    const proxy = peers.use(await createCuttingProxy(port));
    const session = await peers.dial(url.replace(String(port), String(proxy.port)), {
      reconnect: { minDelayMs: 50, maxDelayMs: 60 },
    });
    proxy.cut();
    await expect.poll(async () => (await histogram(port, 'resume_gap_seconds')).count).toBe(1);
    expect((await histogram(port, 'resume_gap_seconds')).sum).toBeGreaterThan(0);
    proxy.refuse(true);
    proxy.cut();
    await expect.poll(() => [...server.sessions.values()][0]?.state).toBe('suspended');
    const [own] = server.sessions.values();
    // While it closes, its client could still resume it.
    await own?.close();
    proxy.refuse(false);
    await expect.poll(() => session.state).toBe('established');
    const page = await scrape(port);
    expect(sampleOf(page, 'resumes_failed_total', { reason: 'unknown_session' })).toBe(1);
  });

  it('count what passes between agents, and what does not', async () => {
    const { url, port } = await peers.serve({
      features: [metrics()],
      authenticate: ({ token }) => ({ principal: 'p', agentId: token }),
    });
    const options = { extensions: { agents: true } };
    const a = await peers.dial(url, { ...options, token: 'a' });
    await peers.dial(url, { ...options, token: 'b', onRequest: (request) => request.text });
    expect((await a.request('x', { to: 'b' })).text).toBe('x');
    await failure(a.request('x', { to: 'nobody-here' }));
    const page = await scrape(port);
    expect(sampleOf(page, 'agents')).toBe(2);
    expect(sampleOf(page, 'relay_bodies_total', { how: 'passed' })).toBe(2);
    expect(sampleOf(page, 'undelivered_total', { outcome: 'refused' })).toBe(1);
  });

  it('count messages, requests, parts and tensors, and contents that were blocked', async () => {
    const { url, port } = await peers.serve({
      features: [
        metrics(),
        scan((message) => ({ safe: message.tensor !== undefined || message.text !== 'bad' })),
      ],
      async onSession(session) {
        for await (const message of session) if (message.tensor === undefined) await session.send('back');
      },
      async *onRequest() {
        yield 'a';
        yield 'b';
      },
    });
    const session = await peers.dial(url);
    await session.send('one');
    await session.request('x');
    const data = new Float32Array(64);
    await session.sendTensor({ data, shape: [64], dtype: 'float32', payloadType: 'hidden_state' });
    const page = await scrape(port);
    expect(sampleOf(page, 'bodies_total', { direction: 'received', kind: 'messages' })).toBe(1);
    expect(sampleOf(page, 'bodies_total', { direction: 'sent', kind: 'parts' })).toBeGreaterThanOrEqual(2);
    expect(sampleOf(page, 'bodies_total', { direction: 'received', kind: 'requests' })).toBe(2);
    expect(sampleOf(page, 'tensors_total', { direction: 'received' })).toBe(1);
    expect(sampleOf(page, 'tensor_bytes_total', { direction: 'received' })).toBeGreaterThanOrEqual(256);
    await failure(session.request('bad'));
    expect(sampleOf(await scrape(port), 'scan_blocked_total')).toBe(1);
  });

  it('count token IDs, and the bytes of the text that they stand for', async () => {
    let sent = 0;
    const { server, url, port } = await peers.serve({
      features: [metrics()],
      onRequest(request) {
        sent = request.tokens?.length ?? 0;
        return request.text;
      },
    });
    const session = await peers.dial(url);
    const text = 'a few words that are sent as token IDs, and not as text';
    const reply = await session.request(text, { algorithm: 'TOKEN_NATIVE' });
    expect(reply.text).toBe(text);
    const page = await scrape(port);
    const labels = { direction: 'received', algorithm: 'TOKEN_NATIVE' };
    expect(sampleOf(page, 'content_bytes_total', labels)).toBe(text.length);
    const count = sampleOf(page, 'tokens_total', { direction: 'received' });
    expect(sent).toBeGreaterThan(9);
    expect(count).toBe(sent);
    // The sum is that of open sessions and of those that are over.
    await session.close();
    await expect.poll(() => server.sessions.size).toBe(0);
    expect(sampleOf(await scrape(port), 'tokens_total', { direction: 'received' })).toBe(count);
  });

  it('tell what became of tensors', async () => {
    const arrived: Promise<unknown>[] = [];
    const { server, url, port } = await peers.serve({
      features: [metrics()],
      timers: { closingTimeoutMs: 200 },
      async onSession(session) {
        for await (const { tensor } of session)
          if (tensor !== undefined) arrived.push(session.sendTensor(tensorOf(tensor.shape[0] as number)));
      },
    });
    const session = await peers.dial(url);
    await session.sendTensor(tensorOf(8));
    for await (const { tensor } of session) {
      expect(tensor?.shape).toEqual([8]);
      break;
    }
    await Promise.all(arrived);
    const aborting = new AbortController();
    const endless = { ...tensorOf(1 << 12), data: forever() };
    const sending = failure(session.sendTensor(endless, { signal: aborting.signal }));
    const outcome = async (direction: string, name: string) =>
      sampleOf(await scrape(port), 'transfers_total', { direction, outcome: name });
    await expect.poll(() => sampleOfTensors(port)).toBe(2);
    aborting.abort();
    await sending;
    await expect.poll(() => outcome('received', 'cancelled')).toBe(1);
    expect(await outcome('received', 'whole')).toBe(1);
    expect(await outcome('sent', 'whole')).toBe(1);
    const lost = failure(session.sendTensor({ ...endless, data: forever() }));
    await expect.poll(() => sampleOfTensors(port)).toBe(3);
    for (const each of server.sessions.values()) void each.close();
    await lost;
    await expect.poll(() => outcome('received', 'lost')).toBe(1);
    await peers.dial(url, { limits: { maxTransferSize: 1 << 20 } });
    const [served] = server.sessions.values();
    expect((await failure(served?.sendTensor(tensorOf(1 << 20)) as Promise<void>)).code).toBe(
      'transfer_too_large',
    );
    expect(await outcome('sent', 'refused')).toBe(1);
  });

  it('name the limits, and those that were met', async () => {
    const { url, port } = await peers.serve({
      features: [metrics()],
      limits: { sessionsPerIp: 2, connectionsPerMinutePerIp: 4 },
      onRequest: () => 'ok',
    });
    for (let i = 0; i < 2; i++) await peers.dial(url, { reconnect: false });
    await failure(peers.dial(url, { reconnect: false }));
    await failure(peers.dial(url, { reconnect: false }));
    await failure(peers.dial(url, { reconnect: false }));
    const page = await scrape(port);
    expect(sampleOf(page, 'rate_limited_total', { limit: 'sessionsPerIp' })).toBe(2);
    expect(sampleOf(page, 'rate_limited_total', { limit: 'connectionsPerMinutePerIp' })).toBe(1);
    expect(sampleOf(page, 'limit', { name: 'sessionsPerIp' })).toBe(2);
    expect(page.get('parlance_build_info')?.metrics[0]?.labels?.['version']).toMatch(/^\d+\.\d+\.\d+/);
  });

  it("count a gateway's requests, with labels that clients cannot make grow", async () => {
    let asked = 0;
    const { url, port } = await peers.serve({
      features: [metrics()],
      onRequest: createOpenAIGateway({
        baseUrl: 'http://upstream.invalid/v1',
        maxRetries: 2,
        maxRetryDelayMs: 1,
        async fetch(_url, init) {
          const body = String(new TextDecoder().decode(init?.body as Uint8Array));
          const { model } = JSON.parse(body) as { model: string };
          if (model === 'busy' && asked++ === 0)
            return new Response('{}', { status: 429, headers: { 'retry-after': '0' } });
          if (model.startsWith('unknown')) return new Response('{}', { status: 404 });
          if (model === 'down') throw new TypeError('fetch failed');
          const usage = { prompt_tokens: 7, completion_tokens: 3 };
          return Response.json({ id: 'x', usage });
        },
      }),
    });
    const session = await peers.dial(url);
    const ask = (model: string) => session.request({ model, messages: [] });
    await ask('busy');
    await failure(ask('down'));
    for (let i = 0; i < 30; i++) await failure(ask(`unknown-${i}`));
    for (let i = 0; i < 30; i++) await ask(`served-${i}`);
    const page = await scrape(port);
    const requests = 'upstream_requests_total';
    expect(sampleOf(page, requests, { status: '200', model: 'busy' })).toBe(1);
    expect(sampleOf(page, requests, { status: '429', model: 'other' })).toBe(1);
    expect(sampleOf(page, requests, { status: '404', model: 'other' })).toBe(30);
    expect(sampleOf(page, requests, { status: 'failed', model: 'other' })).toBe(1);
    expect(sampleOf(page, requests, { status: '200', model: 'other' })).toBe(30 - 19);
    expect(sampleOf(page, 'upstream_retries_total')).toBe(1);
    expect(sampleOf(page, 'upstream_tokens_total', { direction: 'prompt', model: 'busy' })).toBe(7);
    expect(sampleOf(page, 'upstream_tokens_total', { direction: 'completion', model: 'busy' })).toBe(3);
    expect(page.get('parlance_upstream_requests_total')?.metrics.length).toBe(24);
    expect((await histogram(port, 'upstream_first_byte_seconds')).count).toBe(62);
  });
});

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'metrics of durable sessions', () => {
  it('count them, those that were taken over, and the bad days of the engine', async () => {
    await using engine = await startRedis();
    const { url, port } = await peers.serve({
      engine: redis({ url: engine.url }),
      features: [
        metrics(),
        cluster({ secret: 'a secret of the cluster in tests' }),
        durable(true, { allowVolatileEngine: true, unavailableAfterMs: 100 }),
      ],
      onRequest: ({ text }) => text,
    });
    const session = await peers.dial(url);
    await session.flush();
    const count = async (event: string) => sampleOf(await scrape(port), 'durable_events_total', { event });
    expect(sampleOf(await scrape(port), 'sessions_durable')).toBe(1);
    expect(sampleOf(await scrape(port), 'moves_total', { outcome: 'taken_over' })).toBe(0);
    expect(await count('engine.stalled')).toBe(0);
    const calls = async (call: string, outcome: string) =>
      sampleOf(await scrape(port), 'engine_calls_total', { call, outcome });
    expect(await calls('renew', 'answered')).toBeGreaterThan(0);
    expect(await calls('writeSession', 'answered')).toBeGreaterThan(0);
    expect((await histogram(port, 'engine_call_seconds')).count).toBeGreaterThan(1);
    await expect.poll(async () => sampleOf(await scrape(port), 'engine_bytes')).toBeGreaterThan(100_000);
    expect(sampleOf(await scrape(port), 'engine_oldest_record_seconds')).toBeGreaterThan(0);
    await engine.kill();
    const asked = session.request('is anyone there?');
    await expect.poll(() => count('engine.stalled')).toBeGreaterThan(0);
    await engine.restart();
    expect((await asked).text).toBe('is anyone there?');
    expect(
      (await calls('writeSession', 'timeout')) + (await calls('writeSession', 'connection_failed')),
    ).toBeGreaterThan(0);
    await expect.poll(() => count('engine.answered')).toBe(1);
  });
});
