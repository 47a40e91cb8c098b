import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import type { EngineConnection } from './engine.js';
import { type EngineBounds, type ReplyChanges, type ReplyLogs, UNKNOWN } from './logs/logs.js';
import type { ReplyHead } from './logs/reply.js';
import { redis } from './redis.js';
import { repliesOf } from './testing/engines.js';
import { type RedisServer, redisMissing, startRedis } from './testing/redis-server.js';
import { createSilentProxy } from './testing/silent-proxy.js';

/** A Redis that does not answer, over connections that are still open. */

const TTL_MS = 60_000;
const BOUNDS: EngineBounds = { maxReplies: 10, maxReplyBytes: 1 << 20, maxOwnerBytes: 1 << 20 };
const codeOf = (call: Promise<unknown>) =>
  call.then(
    () => 'answered',
    (error: { readonly code: string }) => error.code,
  );

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});
const proxyOf = ({ url }: RedisServer) => createSilentProxy(Number(new URL(url).port));
function opened<Each extends { close(): Promise<void> }>(each: Each): Each {
  open.push(each);
  return each;
}
const at = (port: number): EngineConnection => opened(redis({ url: `redis://127.0.0.1:${port}` }).connect());
const repliesAt = (port: number): ReplyLogs => opened(repliesOf(redis({ url: `redis://127.0.0.1:${port}` })));

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'a connection to Redis', () => {
  it('that dies without a word costs one deadline, and is replaced', async () => {
    await using server = await startRedis();
    await using proxy = await proxyOf(server);
    const link = at(proxy.port);
    await link.renew('aaaaaa', 'old', TTL_MS);
    proxy.silence('all');
    // All that are under way end with the first.
    const calls = [link.renew('aaaaaa', 'new', TTL_MS), link.find('bbbbbb'), link.findSession('sess_one')];
    expect(await Promise.all(calls.map(codeOf))).toEqual(['timeout', 'timeout', 'timeout']);
    expect((await link.renew('aaaaaa', 'new', TTL_MS)).nodes).toMatchObject([{ record: 'new' }]);
    expect(await link.find('bbbbbb')).toBeUndefined();
    expect(proxy.opened).toBe(2);
    await expect.poll(() => proxy.open).toBe(1);
  });

  it('that is accepted and never spoken on is given up, until one works', async () => {
    await using server = await startRedis();
    await using proxy = await proxyOf(server);
    proxy.arrivals = 'silent';
    const link = at(proxy.port);
    expect(await codeOf(link.renew('aaaaaa', '', TTL_MS))).toBe('timeout');
    // Each attempt is given up before the next one begins.
    await expect.poll(async () => [await codeOf(link.isVolatile()), proxy.opened]).toEqual(['timeout', 2]);
    await expect.poll(() => proxy.open).toBeLessThanOrEqual(1);
    proxy.arrivals = 'work';
    await expect.poll(() => codeOf(link.renew('aaaaaa', '', TTL_MS))).toBe('answered');
    await expect.poll(() => proxy.open).toBe(1);
  });

  it('that is being opened does not hold up closing', async () => {
    await using server = await startRedis();
    await using proxy = await proxyOf(server);
    proxy.arrivals = 'silent';
    const link = redis({ url: `redis://127.0.0.1:${proxy.port}` }).connect();
    const code = codeOf(link.renew('aaaaaa', '', TTL_MS));
    await expect.poll(() => proxy.open).toBe(1);
    await link.close();
    expect(await code).toBe('connection_failed');
    await expect.poll(() => proxy.open).toBe(0);
    expect(await codeOf(link.renew('aaaaaa', '', TTL_MS))).toBe('connection_failed');
    expect(proxy.opened).toBe(1);
  });

  it('to one that pauses for 2 s is replaced once', async () => {
    await using server = await startRedis();
    await using proxy = await proxyOf(server);
    const link = at(proxy.port);
    await link.find('absent');
    server.pause();
    const asking = Array.from({ length: 40 }, async (_, i) => {
      await pause(50 * i);
      return await codeOf(link.findSession(`sess_${i}`));
    });
    await pause(2_000);
    server.go();
    const codes = new Set(await Promise.all(asking));
    codes.delete('answered');
    expect([...codes]).toEqual(['timeout']);
    await expect.poll(() => codeOf(link.find('absent'))).toBe('answered');
    expect(proxy.opened).toBe(2);
    await expect.poll(() => proxy.open).toBe(1);
  });

  it('that waits for changes of agents is replaced', async () => {
    await using server = await startRedis();
    await using proxy = await proxyOf(server);
    const [link, other] = [at(proxy.port), at(Number(new URL(server.url).port))];
    await other.table('agents').put('k', { holder: 's', record: '' }, null);
    expect(await link.table('agents').changes(0)).toHaveLength(1);
    const changes = codeOf(link.table('agents').changes(1));
    await pause(50);
    proxy.silence('all');
    expect(await changes).toBe('timeout');
    await other.table('agents').put('k', undefined);
    await expect
      .poll(() =>
        link
          .table('agents')
          .changes(1)
          .catch(() => []),
      )
      .toMatchObject([{ position: 2 }]);
  });

  it('that listens is asked whether it lives, and replaced, so that news come again', async () => {
    await using server = await startRedis();
    await using proxy = await proxyOf(server);
    const [reader, writer] = [repliesAt(proxy.port), repliesAt(Number(new URL(server.url).port))];
    const head: ReplyHead = {
      ...{ id: 'reply_one', owner: 'principal:ada', principal: 'ada', name: undefined, share: undefined },
      ...{ encoding: undefined, ttlMs: TTL_MS, startedAt: 1_700_000_000_000 },
    };
    await writer.open(head, BOUNDS, TTL_MS);
    let parts = 0;
    const append = async () => {
      const batch = { id: head.id, owner: head.owner, from: parts, offset: 4 * parts, metadata: [] };
      expect(await writer.append({ ...batch, records: [Uint8Array.of(0, 1, 2)] }, BOUNDS, TTL_MS)).toBe(
        'done',
      );
      parts++;
    };
    const news: ReplyChanges[] = [];
    const stop = reader.watch(head.id, (each) => news.push(each));
    await expect.poll(() => news).toEqual([UNKNOWN]);
    await append();
    await expect.poll(() => news).toMatchObject([UNKNOWN, { from: 0 }]);
    proxy.silence('all');
    await append();
    // It says that some may have been missed.
    await expect.poll(() => news).toMatchObject([UNKNOWN, { from: 0 }, UNKNOWN]);
    await append();
    await expect.poll(() => news.slice(3)).toMatchObject([{ from: 2 }]);
    stop();
  });
});
