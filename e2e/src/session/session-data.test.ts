import { connect } from '@parlance/client';
import { createServer, cluster as joinNodes, memoryCluster, type ServerOptions } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { createCuttingProxy } from '../kit/cutting-proxy.js';

/** The server's data of a session: the result of `authenticate`, and the address of its client. */

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

async function listen<Data>(options: ServerOptions<Data>) {
  const server = createServer(options);
  open.push(server);
  return { server, ...(await server.listen()) };
}

async function enter(url: string, options: Parameters<typeof connect>[1] = {}) {
  const session = await connect(url, { WebSocket, reconnect: { minDelayMs: 5, maxDelayMs: 50 }, ...options });
  open.push(session);
  return session;
}

/** A WebSocket class that sends these headers. */
function withHeaders(headers: Record<string, string>): typeof WebSocket {
  return class extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols, { headers });
    }
  } as typeof WebSocket;
}

describe('the data that authenticate returns', () => {
  it('is that of the session for onSession, handlers and server.sessions, with its type', async () => {
    const seen: string[] = [];
    const { server, url } = await listen({
      authenticate: async ({ token = '' }) => ({ principal: token, data: { name: token, visits: [1] } }),
      onSession: (session) => {
        seen.push(session.data.name);
      },
      onRequest: (_request, { session }) => {
        session.data = { ...session.data, visits: [...session.data.visits, 2] };
        return { json: session.data };
      },
    });
    const session = await enter(url, { token: 'ann' });
    expect((await session.request('')).json()).toEqual({ name: 'ann', visits: [1, 2] });
    expect(seen).toEqual(['ann']);
    expect([...server.sessions.values()].map(({ data }) => data.visits.length)).toEqual([2]);
  });

  it('stays as the application has left it when the client comes back, which is authenticated again', async () => {
    let calls = 0;
    const { server, port } = await listen({
      authenticate: () => ({ principal: 'ann', data: { call: ++calls } }),
      onRequest: (_request, { session }) => ({ json: session.data }),
    });
    const proxy = await createCuttingProxy(port);
    open.push(proxy);
    const session = await enter(`ws://127.0.0.1:${proxy.port}/session`);
    const { id } = session;
    const [served] = server.sessions.values();
    if (served === undefined) throw new Error('the server has no session');
    served.data = { call: 10 };
    proxy.cut();
    expect((await session.request('')).json()).toEqual({ call: 10 });
    expect([session.id, calls]).toEqual([id, 2]);
  });

  it.each([
    ['an unknown member', { principal: 'ann', user: 'Ann' }, 'the member "user"'],
    ['data that are not JSON', { principal: 'ann', data: 1n }, 'JSON'],
    ['data of 64 KiB and one byte', { principal: 'ann', data: 'x'.repeat(65_535) }, '65537 bytes'],
  ])('is an error of the server if it has %s', async (_what, identity, message) => {
    const errors: unknown[] = [];
    const { url } = await listen({
      authenticate: () => identity as never,
      onError: (error) => errors.push(error),
    });
    const refused = await enter(url).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: 'rejected', reject: { code: 'UNKNOWN' }, closeCode: 4500 });
    expect(errors).toEqual([expect.objectContaining({ message: expect.stringContaining(message) })]);
  });

  it('may have 64 KiB', async () => {
    const data = 'x'.repeat(65_534);
    const { server, url } = await listen({ authenticate: () => ({ principal: 'ann', data }) });
    await enter(url);
    expect([...server.sessions.values()][0]?.data).toBe(data);
  });
});

describe('the server knows of its client', () => {
  it('its address behind a trusted proxy, its user agent and since when it is there', async () => {
    const before = Date.now();
    const { server, url } = await listen({
      trustedProxies: ['127.0.0.1'],
      authenticate: () => ({ principal: 'ann' }),
    });
    const headers = { 'X-Forwarded-For': '203.0.113.9', 'User-Agent': `parrot ${'x'.repeat(600)}` };
    await enter(url, { WebSocket: withHeaders(headers) });
    const [session] = server.sessions.values();
    expect(session?.remoteAddress).toBe('203.0.113.9');
    expect(session?.userAgent).toBe(headers['User-Agent'].slice(0, 512));
    expect(session?.startedAt).toBeGreaterThanOrEqual(before);
    expect(session?.startedAt).toBeLessThanOrEqual(Date.now());
  });

  it('its own address and not a stated one without a trusted proxy', async () => {
    const { server, url } = await listen({ authenticate: () => ({ principal: 'ann' }) });
    await enter(url, { WebSocket: withHeaders({ 'X-Forwarded-For': '203.0.113.9' }) });
    const [session] = server.sessions.values();
    expect([session?.remoteAddress, session?.userAgent]).toEqual(['127.0.0.1', undefined]);
  });

  it('data of its newest connection, and since when its session is there', async () => {
    const { server, port } = await listen({
      trustedProxies: ['127.0.0.1'],
      authenticate: () => ({ principal: 'ann' }),
      onRequest: () => 'here',
    });
    const proxy = await createCuttingProxy(port);
    open.push(proxy);
    let connections = 0;
    const Moving = class extends WebSocket {
      constructor(url: string, protocols: string[]) {
        const headers = {
          'X-Forwarded-For': `203.0.113.${++connections}`,
          'User-Agent': `net ${connections}`,
        };
        super(url, protocols, { headers });
      }
    } as typeof WebSocket;
    const client = await enter(`ws://127.0.0.1:${proxy.port}/session`, { WebSocket: Moving });
    const [session] = server.sessions.values();
    const since = session?.startedAt;
    expect([session?.remoteAddress, session?.userAgent]).toEqual(['203.0.113.1', 'net 1']);
    proxy.cut();
    await client.request('');
    expect([session?.remoteAddress, session?.userAgent]).toEqual(['203.0.113.2', 'net 2']);
    expect(session?.startedAt).toBe(since);
  });

  it.each([
    ['whose connection it has', false, 'net 2', '203.0.113.2'],
    ['that comes without a connection', true, 'net 1', '203.0.113.1'],
  ])('and the same at another node, for a session %s', async (_what, isAway, userAgent, remoteAddress) => {
    const options = {
      engine: memoryCluster(),
      features: [joinNodes()],
      trustedProxies: ['127.0.0.1'],
      authenticate: () => ({ principal: 'ann', data: { name: 'Ann' } }),
    };
    const nodes = [await listen(options), await listen(options)] as const;
    let target = 0;
    const proxy = await createCuttingProxy(() => nodes[target]?.port ?? 0);
    open.push(proxy);
    let connections = 0;
    const Moving = class extends WebSocket {
      constructor(url: string, protocols: string[]) {
        const headers = {
          'X-Forwarded-For': `203.0.113.${++connections}`,
          'User-Agent': `net ${connections}`,
        };
        super(url, protocols, { headers });
      }
    } as typeof WebSocket;
    const client = await enter(`ws://127.0.0.1:${proxy.port}/session`, { WebSocket: Moving });
    const [before] = nodes[0].server.sessions.values();
    target = 1;
    proxy.refuse(isAway);
    proxy.cut();
    if (isAway) await expect.poll(() => before?.state).toBe('suspended');
    else await expect.poll(() => [before?.userAgent, client.state]).toEqual([userAgent, 'established']);
    expect(await nodes[0].server.drain({ timeoutMs: 5_000 })).toMatchObject({ moved: 1 });
    const [after] = nodes[1].server.sessions.values();
    expect(after).toMatchObject({ isMoved: true, userAgent, remoteAddress, data: { name: 'Ann' } });
    expect(after?.startedAt).toBe(before?.startedAt);
    proxy.refuse(false);
  });
});
