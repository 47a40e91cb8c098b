import { createServer as createHttpServer } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import type { Session } from '@parlance/client';
import { DEFAULT_LIMITS, encodeControl, type Logger, type SessionStats } from '@parlance/protocol';
import { createServer, metrics, scan } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { createPeers, failure, greet, helloBytes, openRaw } from '../kit/peers.js';
import { get, sampleOf, scrape } from './scraping.js';

/** The metrics, health, logs and traces that a server exposes. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

const sum = (stats: readonly SessionStats[], pick: (stats: SessionStats) => number) =>
  stats.reduce((total, each) => total + pick(each), 0);

describe('metrics', () => {
  it("parse under load and match the clients' own figures, including those of lost connections", async () => {
    const { server, port } = await peers.serve({
      features: [metrics()],
      limits: {
        sessionsPerMinutePerIp: Infinity,
        connectionsPerMinutePerIp: Infinity,
        failuresPerMinutePerIp: Infinity,
        messagesPerMinute: Infinity,
      },
      async onSession(session) {
        for await (const message of session) await session.send(message.bytes);
      },
      async *onRequest(request) {
        if (request.text === 'fail') throw new Error('as asked');
        for (let i = 0; i < 5; i++) yield `${request.text} ${i} `;
      },
    });
    const proxy = peers.use(await createCuttingProxy(port));
    const sessions = await Promise.all(
      Array.from({ length: 12 }, () =>
        peers.dial(`ws://127.0.0.1:${proxy.port}/session`, { reconnect: { minDelayMs: 1, maxDelayMs: 5 } }),
      ),
    );
    const work = sessions.map(async (session, client) => {
      const reading = (async () => {
        let count = 0;
        for await (const _message of session) if (++count === 40) return;
      })();
      for (let i = 0; i < 40; i++) {
        await session.send({ model: 'gpt-4o', messages: [{ role: 'user', content: `${client} says ${i}` }] });
        if (i % 8 === 0) await session.request(`what is ${i}?`);
        if (i === 20 && client === 0) proxy.cut();
        await pause(1);
      }
      await reading;
    });
    const scrapes: Promise<unknown>[] = [];
    for (let i = 0; i < 10; i++) {
      scrapes.push(scrape(port));
      await pause(10);
    }
    await Promise.all([...work, ...scrapes]);
    expect(await failure((sessions[0] as Session).request('fail'))).toMatchObject({ code: 'internal' });
    // Some of them have ended when the metrics are read.
    await Promise.all(sessions.map((session) => session.flush()));
    await Promise.all([...server.sessions.values()].map((session) => session.flush()));
    await Promise.all(sessions.slice(0, 4).map((session) => session.close()));
    await expect.poll(() => server.sessions.size).toBe(8);

    const page = await scrape(port);
    const stats = sessions.map((session) => session.stats());
    for (const [direction, own] of [
      ['received', 'sent'],
      ['sent', 'received'],
    ] as const) {
      for (const algorithm of ['M2M', 'TOKEN_NATIVE', 'BROTLI', 'NONE'] as const) {
        const labels = { direction, algorithm };
        for (const [metric, field] of [
          ['messages_total', 'messages'],
          ['coded_bytes_total', 'codedBytes'],
        ] as const) {
          expect([metric, labels, sampleOf(page, metric, labels)]).toEqual([
            metric,
            labels,
            sum(stats, (each) => each[own].byAlgorithm[algorithm]?.[field] ?? 0),
          ]);
        }
      }
    }
    expect(sampleOf(page, 'sessions', { state: 'connected' })).toBe(8);
    expect(sampleOf(page, 'connections')).toBe(8);
    expect(sampleOf(page, 'sessions_accepted_total', { kind: 'new' })).toBe(12);
    expect(sampleOf(page, 'sessions_accepted_total', { kind: 'resumed' })).toBe(12);
    expect(sampleOf(page, 'sessions_ended_total', { reason: 'closed' })).toBe(4);
    expect(sampleOf(page, 'requests_total', { outcome: 'answered' })).toBe(12 * 5);
    expect(sampleOf(page, 'requests_total', { outcome: 'failed' })).toBe(1);
    // The parser reads no histograms with labels.
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    const counts = text.matchAll(/^parlance_request_duration_seconds_count\{outcome="(\w+)"\} (\d+)$/gm);
    expect(Object.fromEntries([...counts].map(([, outcome, count]) => [outcome, count]))).toEqual({
      answered: '60',
      failed: '1',
    });
    expect(sampleOf(page, 'draining')).toBe(0);
  });

  it('count sessions that were refused, and the bytes of their connections', async () => {
    const { server, url, port } = await peers.serve({ features: [metrics()], onRequest: () => 'ok' });
    const session = await peers.dial(url);
    for (let i = 0; i < 10; i++) await session.request(`question ${i}`);
    const refused = await openRaw(url);
    const hello = helloBytes({ algorithms: [] });
    refused.send(hello);
    await refused.closed;
    await session.flush();
    await Promise.all([...server.sessions.values()].map((each) => each.flush()));
    const page = await scrape(port);
    const toRefused = refused.received.reduce((bytes, { length }) => bytes + length, 0);
    // `p13-wire-bytes.test.ts` counts exactly. The HELLO of the session has come with the upgrade.
    const least = { sent: session.stats().received.wireBytes + toRefused, received: hello.length };
    for (const direction of ['sent', 'received'] as const)
      expect(sampleOf(page, 'wire_bytes_total', { direction })).toBeGreaterThan(least[direction]);
    expect(
      sampleOf(page, 'sessions_refused_total', { code: 'NO_COMMON_ALGORITHM', close_code: '4400' }),
    ).toBe(1);
  });

  it('have help, base units, and no label that grows with the sessions', async () => {
    const { url, port } = await peers.serve({
      features: [metrics({ path: '/internal/metrics' })],
      onRequest: () => 'ok',
    });
    for (let i = 0; i < 5; i++) await (await peers.dial(url)).request('x');
    const page = await scrape(port, '/internal/metrics');
    expect(page.size).toBeGreaterThan(10);
    // Node's own, under the names that dashboards for Node expect.
    for (const name of ['nodejs_eventloop_lag_p99_seconds', 'process_resident_memory_bytes'])
      expect(page.has(name)).toBe(true);
    const own = [...page.values()].filter(({ name }) => !/^(nodejs|process)_/.test(name));
    for (const { name, help, type, metrics: samples } of own) {
      expect(name).toMatch(/^parlance_[a-z_]+$/);
      expect(name).not.toMatch(/_(ms|milliseconds|minutes|kb|mb)(_|$)/);
      expect(name.endsWith('_total')).toBe(type === 'COUNTER');
      expect(help.length).toBeGreaterThan(10);
      // The limits, and that of the memory.
      const most = name === 'parlance_limit' ? Object.keys(DEFAULT_LIMITS).length + 1 : 16;
      expect(samples.length).toBeLessThanOrEqual(most);
      expect(JSON.stringify(samples)).not.toMatch(/sess_|local-/);
    }
  });

  it('are off by default, and on a port of their own on request', async () => {
    const { port: without } = await peers.serve();
    expect((await get(without, '/metrics')).status).toBe(426);
    const { server, port } = await peers.serve({ features: [metrics()] });
    expect((await get(port, '/metrics')).status).toBe(200);
    const own = await server.listenMetrics();
    expect(own.url).toBe(`http://127.0.0.1:${own.port}/metrics`);
    expect((await get(port, '/metrics')).status).toBe(426);
    expect(await get(own.port, '/metrics')).toMatchObject({
      status: 200,
      type: expect.stringMatching(/^text\/plain; version=0\.0\.4/),
    });
    expect((await get(own.port, '/')).status).toBe(404);
    expect((await get(own.port, '/readyz')).status).toBe(200);
    expect((await get(own.port, '/metrics', 'POST')).status).toBe(405);
    expect(await failure(server.listenMetrics())).toMatchObject({ code: 'invalid_argument' });
    // Two servers in one process do not share figures.
    const { port: other } = await peers.serve({ features: [metrics()] });
    expect(sampleOf(await scrape(other), 'sessions_accepted_total', { kind: 'new' })).toBe(0);
  });
});

describe('health', () => {
  it('is served through an existing HTTP server on request', async () => {
    const server = peers.use(createServer({ features: [metrics()], onRequest: () => 'ok' }));
    const http = createHttpServer((request, response) => {
      if (!server.respond(request, response)) response.end('the page');
    });
    server.attach(http);
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    peers.use({ [Symbol.asyncDispose]: () => new Promise<void>((resolve) => http.close(() => resolve())) });
    const { port } = http.address() as { port: number };
    expect((await get(port, '/')).text).toBe('the page');
    await expect.poll(async () => (await get(port, '/readyz')).status).toBe(200);
    const session = await peers.dial(`ws://127.0.0.1:${port}/session`);
    expect((await session.request('x')).text).toBe('ok');
    expect(sampleOf(await scrape(port), 'sessions', { state: 'connected' })).toBe(1);
    await session.close();
  });

  it('is alive and ready, and not ready while the server drains', async () => {
    const { server, url, port } = await peers.serve({
      async *onRequest(_request, { signal }) {
        yield 'begun';
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
      },
    });
    expect(await get(port, '/healthz')).toMatchObject({ status: 200, text: 'alive\n' });
    expect((await get(port, '/readyz')).status).toBe(200);
    const session = await peers.dial(url);
    const stream = session.stream('x')[Symbol.asyncIterator]();
    await stream.next();
    const drained = server.drain({ timeoutMs: 1_000 });
    expect((await get(port, '/healthz')).status).toBe(200);
    expect(await get(port, '/readyz')).toMatchObject({
      status: 503,
      text: 'not ready: the server is shutting down\n',
    });
    await stream.return?.();
    await drained;
  });
});

/** Records each log line with all of its fields. */
function createLog() {
  const lines: { level: string; fields: Record<string, unknown>; message: string }[] = [];
  const at =
    (level: string): Logger['info'] =>
    (fields, message) => {
      lines.push({ level, fields: { ...fields }, message });
    };
  const logger: Logger = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  /** Including errors and their causes. */
  const text = () =>
    JSON.stringify(lines, (_key, value: unknown) =>
      value instanceof Error
        ? { ...value, name: value.name, message: value.message, stack: value.stack, cause: value.cause }
        : value,
    );
  return { lines, logger, text };
}

describe('the log', () => {
  it('of a whole session contains no payload and no token, and every line has an event name', async () => {
    const CANARY = 'canary-7f3a9c';
    const log = createLog();
    const { server, url, port } = await peers.serve({
      logger: log.logger,
      timers: { closingTimeoutMs: 200 },
      limits: { sessionsPerPrincipal: 2, maxMessageSize: 100_000 },
      features: [scan((message) => ({ safe: !message.text.includes('blocked') }))],
      authenticate: async ({ token }) => {
        if (token?.includes('throw')) throw new Error(`bad token ${token}`);
        return token?.includes(CANARY) ? { principal: 'u1', expiresAt: Date.now() + 2_000 } : null;
      },
      async onSession(session) {
        for await (const message of session) await session.send(message.text);
      },
      async *onRequest(request) {
        if (request.text.includes('undecodable')) request.json();
        if (request.text.includes('unparsable')) JSON.parse(request.text);
        yield request.text;
      },
    });
    const proxy = peers.use(await createCuttingProxy(port));
    const clientLog = createLog();
    let asked = 0;
    const session = await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, {
      token: () => `token-${CANARY}-${asked++}`,
      agentId: 'agent',
      logger: clientLog.logger,
      reconnect: { minDelayMs: 1, maxDelayMs: 5 },
    });
    // Everything that travels, fails or is refused.
    for (const algorithm of ['M2M', 'TOKEN_NATIVE', 'BROTLI', 'NONE'] as const) {
      const content = { model: 'gpt-4o', messages: [{ role: 'user', content: `${CANARY} in ${algorithm}` }] };
      await session.send(content, { algorithm });
    }
    await session.request(CANARY, { metadata: { secret: CANARY } });
    for (const fault of ['undecodable', 'unparsable']) await failure(session.request(`${CANARY} ${fault}`));
    proxy.cut();
    await session.request(CANARY);
    await expect.poll(() => log.lines.some(({ fields }) => fields['event'] === 'auth.renewed')).toBe(true);
    for (const token of [`${'throw'}-${CANARY}`, 'wrong', undefined])
      await failure(peers.dial(url, { token }));
    const greeted = [await greet(url, { auth: { token: CANARY } })];
    expect((await failure(peers.dial(url, { token: CANARY }))).code).toBe('rejected');
    for (const token of [`throw-${CANARY}`, 'wrong']) {
      const raw = greeted.pop() ?? (await greet(url, { auth: { token: CANARY } }));
      raw.send(encodeControl({ type: 'AUTH', sessionId: raw.sessionId, timestamp: 1, payload: { token } }));
      await raw.closed;
    }
    for (const frame of [
      new TextEncoder().encode(CANARY),
      Uint8Array.of(0x10, 0, 0, ...new TextEncoder().encode(CANARY)),
      new TextEncoder().encode(`#BR|${CANARY}`),
      encodeControl({ type: CANARY, sessionId: null, timestamp: 1, payload: {} } as never),
    ]) {
      const peer = await greet(url, { auth: { token: CANARY }, extensions: {} });
      peer.send(frame);
      peer.send(new Uint8Array(0));
      await peer.closed;
    }
    await failure(session.request(`blocked ${CANARY}`));
    const drained = server.drain({ timeoutMs: 100 });
    await drained;
    await server.close();

    expect(log.lines.length).toBeGreaterThan(20);
    expect(log.text()).not.toContain(CANARY);
    expect(clientLog.text()).not.toContain(CANARY);
    const events = new Set(log.lines.map(({ fields }) => fields['event']));
    expect(events).toEqual(expect.toSatisfy((names: Set<unknown>) => !names.has(undefined)));
    const ends = log.lines.map(({ fields }) => fields).filter(({ event }) => event === 'session.ended');
    expect(ends).toContainEqual(expect.objectContaining({ reason: 'bad_frame', why: 'the frame is empty' }));
    for (const event of [
      'server.listening',
      'session.accepted',
      'session.resumed',
      'session.refused',
      'session.ended',
      'request.failed',
      'auth.failed',
      'auth.refused',
      'auth.renewed',
      'scan.blocked',
      'server.draining',
      'server.drained',
      'server.closed',
    ])
      expect(events).toContain(event);
  });
});

describe('a trace', () => {
  const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

  it('of the caller reaches the handler in the metadata, unless the caller gives another one', async () => {
    const { url } = await peers.serve({ onRequest: (_request, { metadata }) => JSON.stringify(metadata) });
    const session = await peers.dial(url, { traceparent: () => TRACEPARENT });
    const seen = async (metadata?: Record<string, string>) =>
      JSON.parse((await session.request('x', metadata && { metadata })).text) as unknown;
    expect(await seen()).toEqual({ traceparent: TRACEPARENT });
    expect(await seen({ a: 'b' })).toEqual({ a: 'b', traceparent: TRACEPARENT });
    expect(await seen({ traceparent: 'mine' })).toEqual({ traceparent: 'mine' });
    const untraced = await peers.dial(url, { traceparent: () => undefined });
    expect((await untraced.request('x')).text).toBe('{}');
  });
});
