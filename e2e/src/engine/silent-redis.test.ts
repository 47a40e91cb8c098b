import { setTimeout as pause } from 'node:timers/promises';
import { connect } from '@parlance/client';
import { cluster, createServer, durable, type Server } from '@parlance/server';
import { redis } from '@parlance/server/redis';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { redisMissing, startRedis } from '../../../packages/server/src/engine/testing/redis-server.js';
import { createSilentProxy } from '../../../packages/server/src/engine/testing/silent-proxy.js';
import { freePort } from '../kit/cli-process.js';

/** Nodes whose connections to Redis fall silent, while those that are opened later work. */

/** How long clients may wait, in milliseconds; it costs a node a third of that to notice. */
const MAX_WAIT_MS = 3_000;
const SECRET = 'a secret of the cluster in tests';

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

interface Said {
  readonly event: string;
  readonly why: string;
}

function createNode(port: number) {
  const said: Said[] = [];
  const log = (fields: Readonly<Record<string, unknown>>) => {
    said.push({ event: String(fields['event']), why: String((fields['err'] as Error | undefined)?.message) });
  };
  const server = createServer({
    engine: redis({ url: `redis://127.0.0.1:${port}` }),
    features: [
      cluster({ secret: SECRET }),
      durable(({ principal }) => principal !== 'plain', { allowVolatileEngine: true }),
    ],
    logger: { debug: log, info: log, warn: log, error: log },
    authenticate: ({ token }) => (token === undefined ? null : { principal: token }),
    async onSession(session) {
      for await (const { text } of session) await session.send(text);
    },
  });
  servers.push(server);
  return { server, saidOf: (event: string) => said.filter((each) => each.event === event) };
}

const statusOf = async (port: number) => (await fetch(`http://127.0.0.1:${port}/readyz`)).status;

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'a node whose Redis falls silent', () => {
  it('answers its durable sessions again within 3 s, each message once', async () => {
    await using engine = await startRedis();
    await using proxy = await createSilentProxy(Number(new URL(engine.url).port));
    const { server, saidOf } = createNode(proxy.port);
    const { port } = await server.listen();
    await expect.poll(() => statusOf(port)).toBe(200);
    let isOver = false;
    const talk = async (token: string) => {
      const session = await connect(`ws://127.0.0.1:${port}/session`, { WebSocket, token });
      const answers = session[Symbol.asyncIterator]();
      let worst = 0;
      for (let i = 0; !isOver; i++) {
        const start = performance.now();
        await session.send(String(i));
        expect((await answers.next()).value?.text).toBe(String(i));
        worst = Math.max(worst, performance.now() - start);
        await pause(20);
      }
      await session.close();
      return worst;
    };
    const talks = ['ann', 'bob', 'cid', 'plain'].map(talk);
    await pause(500);
    proxy.silence('all');
    await pause(4_000);
    isOver = true;
    for (const worst of await Promise.all(talks)) expect(worst).toBeLessThan(MAX_WAIT_MS);
    expect(saidOf('record.gone')).toEqual([]);
    expect(saidOf('session.fenced')).toEqual([]);
    await expect.poll(() => statusOf(port)).toBe(200);
  });

  it('as it starts is not ready, says why once, and is ready soon after Redis answers', async () => {
    await using engine = await startRedis();
    await using proxy = await createSilentProxy(Number(new URL(engine.url).port));
    proxy.arrivals = 'silent';
    const port = Number(await freePort());
    const { server, saidOf } = createNode(proxy.port);
    const listening = server.listen({ port });
    // It says so from the beginning, and not only when its first attempts are over.
    await expect.poll(() => statusOf(port).catch(() => 0)).toBe(503);
    await listening;
    await pause(4_000);
    expect(await statusOf(port)).toBe(503);
    expect(saidOf('engine.stalled')).toEqual([
      { event: 'engine.stalled', why: expect.stringContaining('Redis did not answer within') },
    ]);
    expect(saidOf('agents.stalled').length).toBeLessThanOrEqual(1);
    // Those that were accepted are not used any more.
    proxy.arrivals = 'work';
    await expect.poll(() => statusOf(port)).toBe(200);
    const session = await connect(`ws://127.0.0.1:${port}/session`, { WebSocket, token: 'ann' });
    await session.send('one');
    expect((await session[Symbol.asyncIterator]().next()).value?.text).toBe('one');
    await session.close();
  });

  it('as it starts can be closed', async () => {
    await using engine = await startRedis();
    await using proxy = await createSilentProxy(Number(new URL(engine.url).port));
    proxy.arrivals = 'silent';
    const { server } = createNode(proxy.port);
    await server.listen();
    await server.close();
    await expect.poll(() => proxy.open).toBe(0);
    const { opened } = proxy;
    await pause(2_000);
    expect(proxy.opened).toBe(opened);
  });
});
