import { request as httpRequest } from 'node:http';
import { networkInterfaces } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { admin, createServer, metrics, type Server, type ServerOptions } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import {
  type AdminEvent,
  type AdminHistory,
  type AdminSessions,
  type AdminState,
  figuresOf,
  type SessionTimeline,
} from '../../../packages/server/src/operate/admin/figures.js';
import { collect, freePort, run, start, startServing } from '../kit/cli-process.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { createPeers, failure } from '../kit/peers.js';
import { merged } from '../kit/server-options.js';

/** The port of a server's operator. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

const TOKEN = 'an-operator-of-this-server';

interface Asked {
  readonly status: number | undefined;
  readonly headers: Record<string, unknown>;
  readonly text: string;
}

interface Ask {
  readonly method?: string;
  readonly token?: string | undefined;
  readonly headers?: Record<string, string>;
  readonly body?: string;
  readonly host?: string;
}

function ask(port: number, path: string, given: Ask = {}): Promise<Asked> {
  const { method = 'GET', body, host = '127.0.0.1' } = given;
  const token = 'token' in given ? given.token : TOKEN;
  const headers = { ...(token !== undefined && { authorization: `Bearer ${token}` }), ...given.headers };
  return new Promise((resolve, reject) => {
    const asked = httpRequest({ host, port, path, method, headers, agent: false }, (response) => {
      let text = '';
      response.on('data', (chunk) => {
        text += chunk;
      });
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, text }));
    });
    asked.on('error', reject);
    asked.end(body);
  });
}

async function serve(options: ServerOptions = {}, mode: 'read' | 'operate' = 'read') {
  const base = { onRequest: () => 'ok', features: [admin({ token: TOKEN, mode })] };
  const served = await peers.serve(merged(base, options));
  return { ...served, admin: portOf(served.server) };
}

function portOf({ admin }: Server): number {
  if (admin === undefined) throw new Error('the server has no admin port');
  return admin.port;
}

const json = <T>({ status, text }: Asked): T => {
  expect([status, text]).toEqual([200, expect.any(String)]);
  return JSON.parse(text) as T;
};

describe('the admin port', () => {
  it('is closed unless the options open it, and only with a token that is not a guess', async () => {
    expect(peers.use(createServer()).admin).toBeUndefined();
    for (const token of ['', 'short', 'with a space in the middle', 'Gr\u00fc\u00dfe-und-mehr-als-16', 1]) {
      const error = await failure(
        Promise.resolve().then(() => createServer({ features: [admin({ token } as never)] })),
      );
      expect(error.code).toBe('invalid_option');
      if (token !== '' && typeof token === 'string') expect(error.message).not.toContain(token);
    }
  });

  it('answers nothing of the server without its token, also at a public address', async () => {
    const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
    const own = addresses.find(({ internal, family }) => !internal && family === 'IPv4')?.address;
    for (const host of ['127.0.0.1', ...(own === undefined ? [] : [own])]) {
      const { server } = await serve({ features: [admin({ token: TOKEN, mode: 'operate', host })] });
      const port = portOf(server);
      const paths = [
        'state',
        'sessions',
        'events',
        'drain',
        'drain/finish',
        'sessions/x/close',
        '',
        '../state',
      ];
      for (const token of [undefined, '', 'wrong', `${TOKEN}x`, TOKEN.slice(1)])
        for (const method of ['GET', 'POST'])
          for (const path of paths) {
            const answer = await ask(port, `/admin/${path}`, { host, token, method });
            expect([host, path, token, answer.status]).toEqual([host, path, token, 401]);
            expect(JSON.parse(answer.text)).toEqual({
              error: { code: 'unauthenticated', message: expect.any(String) },
            });
          }
      // Neither in the address, nor as a cookie, nor as another scheme: no page can make a browser add those by itself.
      for (const headers of [{ cookie: `token=${TOKEN}` }, { authorization: `Basic ${TOKEN}` }] as Record<
        string,
        string
      >[])
        expect(
          (await ask(port, `/admin/state?token=${TOKEN}`, { host, token: undefined, headers })).status,
        ).toBe(401);
      expect((await ask(port, '/admin/state', { host })).status).toBe(200);
      expect(server.sessions.size).toBe(0);
    }
  });

  it('writes no text of a stranger to the log', async () => {
    const lines: unknown[] = [];
    const log = (fields: unknown, message: unknown) => void lines.push(fields, message);
    const { admin } = await serve({ logger: { debug: log, info: log, warn: log, error: log } });
    for (const path of [
      '/admin/canary',
      '/admin/canary?canary=canary',
      '/admin/sessions/canary/close',
      '/canary',
    ])
      await ask(admin, path, {
        token: 'canary-canary-canary',
        method: 'POST',
        headers: { origin: 'http://canary' },
      });
    await ask(admin, '/admin/canary', { token: undefined });
    expect(lines).toContainEqual({ event: 'admin.refused', ip: '127.0.0.1' });
    expect(JSON.stringify(lines)).not.toContain('canary');
  });

  it('answers no page of another origin, and none that has re-pointed its name here', async () => {
    const { admin } = await serve({}, 'operate');
    for (const path of ['/admin/state', '/admin/drain', '/', '/assets/x.js']) {
      for (const origin of [
        'http://evil.example',
        'null',
        `http://localhost:${admin}`,
        `http://127.0.0.1:${admin + 1}`,
      ]) {
        const answer = await ask(admin, path, {
          headers: { origin },
          method: path === '/admin/drain' ? 'POST' : 'GET',
        });
        expect([origin, answer.status]).toEqual([origin, 403]);
        expect(answer.headers['access-control-allow-origin']).toBeUndefined();
      }
      expect((await ask(admin, path, { headers: { host: 'evil.example' } })).status).toBe(403);
    }
    const own = { origin: `http://127.0.0.1:${admin}` };
    expect((await ask(admin, '/admin/state', { headers: own })).status).toBe(200);
    // A browser asks before it sends a header that is not simple.
    const preflight = await ask(admin, '/admin/state', {
      method: 'OPTIONS',
      headers: { origin: 'http://evil.example' },
    });
    expect(preflight.status).toBe(403);
  });

  it('shows nothing of itself on the port of the sessions', async () => {
    const { port } = await serve();
    for (const path of ['/admin/state', '/admin/sessions', '/admin.html'])
      expect([path, (await ask(port, path)).status]).toEqual([path, 426]);
  });

  it('reads the state and the sessions, sorted, filtered and bounded', async () => {
    const { url, admin, port } = await serve({
      authenticate: ({ token }) => ({
        principal: token ?? 'none',
        agentId: token === 'planner' ? 'planner' : undefined,
      }),
    });
    const proxy = peers.use(await createCuttingProxy(port));
    const busy = await peers.dial(url, { token: 'busy' });
    for (let i = 0; i < 20; i++) await busy.request(`question ${i}`);
    await peers.dial(url, { token: 'planner', extensions: { agents: true } });
    await peers.dial(url.replace(String(port), String(proxy.port)), { token: 'away' });
    const state = json<AdminState>(await ask(admin, '/admin/state'));
    expect(state).toMatchObject({ mode: 'read', node: null, draining: null, version: expect.any(String) });
    const answered = state.metrics['requests_total']?.find(({ labels }) => labels['outcome'] === 'answered');
    expect(answered?.value).toBe(20);
    expect(state.metrics['nodejs_eventloop_lag_p99_seconds']).toHaveLength(1);

    const list = async (query: string) => json<AdminSessions>(await ask(admin, `/admin/sessions?${query}`));
    const byWire = await list('');
    expect(byWire.total).toBe(3);
    expect(byWire.sessions[0]).toMatchObject({
      principal: 'busy',
      address: '127.0.0.1',
      state: 'established',
      suspendedUntil: null,
      waits: null,
      algorithms: expect.arrayContaining(['TOKEN_NATIVE']),
    });
    // With the headers of frames, of which an answer of the server has two bytes or more.
    const { received } = busy.stats();
    expect(byWire.sessions[0]?.sent).toBeGreaterThanOrEqual(received.wireBytes + 2 * 20);
    expect(byWire.sessions[0]?.received).toBeGreaterThan(0);
    expect((await list('sort=age')).sessions.map(({ principal }) => principal)).toEqual([
      'busy',
      'planner',
      'away',
    ]);
    expect((await list('limit=1')).sessions).toHaveLength(1);
    expect((await list('find=PLAN')).sessions.map(({ labels }) => labels['agent'])).toEqual(['planner']);
    expect((await list('show=agent')).found).toBe(1);
    proxy.refuse(true);
    proxy.cut();
    await expect.poll(async () => (await list('show=suspended')).found).toBe(1);
    const [away] = (await list('show=suspended')).sessions;
    expect(away?.suspendedUntil).toBeGreaterThan(Date.now());
    expect((await list('limit=1000')).found).toBe(3);
    for (const query of [
      'limit=1001',
      'limit=-1',
      'limit=x',
      'sort=constructor',
      'sort=name',
      'show=toString',
      'show=agents',
    ])
      expect([query, (await ask(admin, `/admin/sessions?${query}`)).status]).toEqual([query, 400]);
    for (const path of ['/admin/', '/admin/other', '/admin/state/'])
      expect([path, (await ask(admin, path)).status]).toEqual([path, 404]);
  });

  it('closes and drains only if the options say so', async () => {
    const reading = await serve();
    await peers.dial(reading.url);
    const [readId] = reading.server.sessions.keys();
    for (const path of [`sessions/${readId}/close`, 'drain', 'drain/finish']) {
      const answer = await ask(reading.admin, `/admin/${path}`, { method: 'POST' });
      expect([answer.status, JSON.parse(answer.text).error.code]).toEqual([403, 'read_only']);
    }
    expect(reading.server.sessions.size).toBe(1);

    const { server, url, admin } = await serve({}, 'operate');
    const first = await peers.dial(url, { reconnect: false });
    await peers.dial(url, { reconnect: false });
    expect((await ask(admin, '/admin/sessions/sess_none/close', { method: 'POST' })).status).toBe(404);
    expect((await ask(admin, `/admin/sessions/${first.id}/close`, { method: 'POST' })).status).toBe(202);
    expect(await first.closed).toMatchObject({ reason: 'closed by the operator of the server' });
    await expect.poll(() => server.sessions.size).toBe(1);
    for (const body of [
      '[]',
      'null',
      '{',
      '"x"',
      `{"timeoutMs":${' '.repeat(5_000)}1}`,
      '{"timeoutMs":-1}',
      '{"soon":1}',
    ])
      expect([
        body.slice(0, 20),
        (await ask(admin, '/admin/drain', { method: 'POST', body })).status,
      ]).toEqual([body.slice(0, 20), 400]);
    expect((await ask(admin, '/admin/state', { method: 'PUT' })).status).toBe(405);
    const drain = await ask(admin, '/admin/drain', { method: 'POST', body: '{"timeoutMs":5000}' });
    expect([drain.status, JSON.parse(drain.text).draining.total]).toEqual([202, 1]);
    await expect
      .poll(async () => json<AdminState>(await ask(admin, '/admin/state')).draining?.remaining)
      .toBe(0);
    expect(json<AdminState>(await ask(admin, '/admin/state')).metrics['draining']?.[0]?.value).toBe(1);
  });

  it('finishes a drain at once if the operator says so', async () => {
    const { server, url, admin } = await serve(
      {
        async *onRequest(_request, { signal }) {
          yield 'begun';
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
        },
      },
      'operate',
    );
    const order = (path: string) => ask(admin, `/admin/${path}`, { method: 'POST' });
    const early = await order('drain/finish');
    expect([early.status, JSON.parse(early.text).error.code]).toEqual([409, 'not_draining']);
    expect((await ask(admin, '/admin/drain/finish')).status).toBe(404);

    const session = await peers.dial(url, { reconnect: false });
    const reply = session.stream('stay')[Symbol.asyncIterator]();
    expect((await reply.next()).value?.text).toBe('begun');
    const started = await ask(admin, '/admin/drain', { method: 'POST', body: '{"timeoutMs":2000000000}' });
    expect([started.status, JSON.parse(started.text).draining.remaining]).toEqual([202, 1]);
    // It is one drain.
    const drained = server.drain();
    for (const _twice of [1, 2]) {
      const finished = await order('drain/finish');
      expect(finished.status).toBe(202);
      expect(JSON.parse(finished.text).draining.deadline).toBeLessThanOrEqual(Date.now());
    }
    expect(await drained).toEqual({ ended: 0, interrupted: 1, lost: 0 });
    expect(await failure(reply.next())).toMatchObject({ code: 'session_lost' });
    const { draining } = json<AdminState>(await ask(admin, '/admin/state'));
    expect(draining).toMatchObject({ total: 1, remaining: 0 });
  });

  it('tells events as they happen, without contents and tokens, to a bounded number of readers', async () => {
    const { url, admin } = await serve({
      authenticate: ({ token }) => (token === 'canary-secret' ? { principal: 'p' } : null),
      onRequest: (request) => {
        throw new Error(`canary ${request.text}`);
      },
      features: [metrics()],
    });
    const session = await peers.dial(url, { token: 'canary-secret' });
    await failure(session.request('canary-question'));
    await failure(peers.dial(url, { token: 'canary-wrong' }));
    const events: AdminEvent[] = [];
    const reader = await readEvents(admin, (event) => events.push(event));
    await expect.poll(() => events.map(({ event }) => event)).toContain('session.refused');
    expect(events.map(({ event }) => event)).toEqual(
      expect.arrayContaining(['session.accepted', 'request.failed']),
    );
    await session.close();
    await expect.poll(() => events.at(-1)?.event).toBe('session.ended');
    expect(JSON.stringify(events)).not.toContain('canary');
    const more = await Promise.all(Array.from({ length: 15 }, () => readEvents(admin, () => {})));
    expect((await ask(admin, '/admin/events')).status).toBe(429);
    for (const close of [reader, ...more]) close();
    await expect
      .poll(async () => {
        const close = await readEvents(admin, () => {}).catch(() => undefined);
        close?.();
        return close !== undefined;
      })
      .toBe(true);
  });

  it('says which sessions are carried over HTTP, while they are', async () => {
    const { url, admin, port } = await serve();
    const proxy = peers.use(await createCuttingProxy(port));
    await peers.dial(url);
    const address = url.replace(String(port), String(proxy.port));
    await peers.dial(address, { transports: ['http'] });
    const list = async (query: string) => json<AdminSessions>(await ask(admin, `/admin/sessions?${query}`));
    const carried = async () => (await list('sort=age')).sessions.map(({ labels }) => labels['transport']);
    expect(await carried()).toEqual([undefined, 'http']);
    expect((await list('show=transport')).found).toBe(1);
    const { metrics } = json<AdminState>(await ask(admin, '/admin/state'));
    expect(metrics['http_streams']).toEqual([{ labels: {}, value: 1 }]);
    proxy.refuse(true);
    proxy.cut();
    await expect.poll(carried).toEqual([undefined, undefined]);
  });

  it('remembers what has happened to a session and what the server did, and tells closed pages from lost ones', async () => {
    const { url, port, admin } = await serve({
      timers: { resumeWindowMs: 1_000 },
      authenticate: ({ token }) => ({ principal: token ?? 'none' }),
    });
    const proxy = peers.use(await createCuttingProxy(port));
    const session = await peers.dial(url.replace(String(port), String(proxy.port)), { token: 'user-1' });
    for (let i = 0; i < 30; i++) await session.request(`question ${i}`);
    proxy.cut();
    const read = async () => json<SessionTimeline>(await ask(admin, `/admin/sessions/${session.id}`));
    await expect.poll(async () => (await read()).marks.at(-1)?.what).toBe('back');
    const timeline = await read();
    expect(timeline.session).toMatchObject({ principal: 'user-1', awaySince: null, silentMs: null });
    // How it began stays; of the others, the newest ones.
    expect(timeline.marks).toHaveLength(24);
    expect(timeline.marks[0]?.what).toBe('opened');
    expect(timeline.marks.at(-1)).toMatchObject({ what: 'back', awayMs: expect.any(Number) });
    expect(timeline.dropped).toBe(32 - 24);
    expect((await ask(admin, '/admin/sessions/sess_none')).status).toBe(404);

    const { points } = json<AdminHistory>(await ask(admin, '/admin/history'));
    expect(points[0]).toMatchObject({ connected: 0, requests: 0 });
    expect((await ask(admin, '/admin/history?rangeMs=x')).status).toBe(400);
    expect(json<AdminHistory>(await ask(admin, '/admin/history?rangeMs=0')).points).toEqual([]);

    const events: AdminEvent[] = [];
    const close = await readEvents(admin, (event) => events.push(event));
    await expect
      .poll(() => events.find(({ event }) => event === 'session.resumed')?.fields)
      .toMatchObject({ principal: 'user-1', awayMs: expect.any(Number) });
    expect(events.find(({ event }) => event === 'session.accepted')?.fields['principal']).toBe('user-1');
    expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);

    // A browser closes the WebSocket of a page that goes with 1001; a network that goes says nothing.
    let socket: WebSocket | undefined;
    class Page extends WebSocket {
      constructor(address: string, protocols: string[]) {
        super(address, protocols);
        socket = this;
      }
    }
    await peers.dial(url, { token: 'page', reconnect: false, WebSocket: Page });
    socket?.close(1001);
    proxy.refuse(true);
    proxy.cut();
    const figures = async () => figuresOf(json<AdminState>(await ask(admin, '/admin/state')), undefined);
    await expect.poll(figures, { timeout: 10_000 }).toMatchObject({ left: 1, lost: 1, suspended: 0 });
    await expect
      .poll(() =>
        events
          .filter(({ event }) => event === 'session.ended')
          .map(({ fields }) => [fields['principal'], fields['reason']]),
      )
      .toEqual(
        expect.arrayContaining([
          ['page', 'page_left'],
          ['user-1', 'session_lost'],
        ]),
      );
    close();
  });

  it('is read by parlance top, which stays while the server is killed and started again', async () => {
    const ports = ['--port', await freePort(), '--admin-port', await freePort()];
    const begin = () => startServing(ports, { PARLANCE_ADMIN_TOKEN: TOKEN });
    const first = await begin();
    const top = start(['top', '--json', '--interval', '200', `127.0.0.1:${ports[3]}`], {
      PARLANCE_ADMIN_TOKEN: TOKEN,
    });
    const said = collect(top.stdout);
    const looks = () =>
      said()
        .split('\n')
        .slice(0, -1)
        .map(
          (line) => JSON.parse(line) as { awayMs?: number; startedAt?: number; health?: { level: string }[] },
        );
    await expect.poll(() => looks().at(-1)?.health?.[0]?.level, { timeout: 20_000 }).toBe('well');
    const { startedAt } = looks().at(-1) ?? {};
    await first.stop('SIGKILL');
    await expect.poll(() => looks().at(-1)?.awayMs, { timeout: 20_000 }).toBeGreaterThan(500);
    const second = await begin();
    await expect.poll(() => looks().at(-1)?.startedAt, { timeout: 20_000 }).toBeGreaterThan(startedAt ?? 0);
    expect(top.exitCode).toBeNull();
    top.kill();
    await second.stop();
  });

  it('is what parlance top reads', async () => {
    const { url, admin } = await serve();
    await peers.dial(url);
    const top = (token: string, address = `127.0.0.1:${admin}`) =>
      run(['top', '--once', address], { env: { PARLANCE_ADMIN_TOKEN: token } });
    const seen = await top(TOKEN);
    expect([seen.code, seen.stderr]).toEqual([0, '']);
    expect(seen.stdout).toContain('1 connected, 0 suspended');
    expect(seen.stdout).toContain('session ');
    const refused = await top('a-token-of-someone-else');
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toContain('does not accept this token');
    const none = await top(TOKEN, 'http://127.0.0.1:9');
    expect(none.stderr).toContain('does not answer');
    expect((await top(TOKEN, 'http://')).code).toBe(2);
  });

  it('is reported as taken if another process has the port, and closes with its server', async () => {
    const { server, admin: port } = await serve();
    const other = createServer({ features: [admin({ token: TOKEN, port })], onError() {} });
    expect(await failure(other.listen())).toMatchObject({ code: 'connection_failed' });
    await other.close();
    await server.close();
    await pause(0);
    expect(await failure(ask(port, '/admin/state'))).toMatchObject({ code: 'ECONNREFUSED' });
  });
});

/** @returns a function that ends it. */
function readEvents(port: number, onEvent: (event: AdminEvent) => void): Promise<() => void> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${TOKEN}` };
    const asked = httpRequest({ port, path: '/admin/events', headers, agent: false }, (response) => {
      if (response.statusCode !== 200) return reject(new Error(`status ${response.statusCode}`));
      expect(response.headers['content-type']).toBe('text/event-stream');
      let text = '';
      response.on('data', (chunk) => {
        text += chunk;
        const lines = text.split('\n\n');
        text = lines.pop() ?? '';
        for (const line of lines)
          if (line.startsWith('data: ')) onEvent(JSON.parse(line.slice(6)) as AdminEvent);
      });
      response.on('error', () => {});
      resolve(() => asked.destroy());
    });
    asked.on('error', reject);
    asked.end();
  });
}
