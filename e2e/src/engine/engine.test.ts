import { setTimeout as pause } from 'node:timers/promises';
import type { Session } from '@parlance/client';
import { redis } from '@parlance/server/redis';
import { describe, expect, it } from 'vitest';
import {
  type RedisServer,
  redisMissing,
  startRedis,
  startSentinel,
} from '../../../packages/server/src/engine/testing/redis-server.js';
import { createHostileProxy } from '../chaos/hostile-proxy.js';
import { type Pair, startNode, startPair } from '../cluster/pair.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { failure } from '../kit/peers.js';
import { createRewritingProxy } from '../kit/rewriting-proxy.js';

/** Plain sessions while the engine of the cluster is unfit, slow, full, gone, empty or another one. */

const portOf = (server: RedisServer) => Number(new URL(server.url).port);
const at = (port: number) => redis({ url: `redis://127.0.0.1:${port}` });

/** The session answers, and so it does over another node. */
async function expectAlive(pair: Pair, session: Session): Promise<void> {
  expect((await session.request('here')).text).toBe('here');
  await pair.swap(session);
  expect((await session.request('there')).text).toBe('there');
}

/** Each node has said once more that the engine has failed, or is back, and has forgotten no other node. */
function expectSaid(pair: Pair, times: number): void {
  expect(pair.count('engine.stalled')).toBe(2 * times);
  expect(pair.count('engine.back')).toBe(2 * times);
  expect(pair.count('node.left')).toBe(0);
  expect(pair.count('server.failed')).toBe(0);
}

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'an unfit engine', () => {
  it('that evicts keys is refused with what to set', async () => {
    await using server = await startRedis('--maxmemory', '100mb', '--maxmemory-policy', 'volatile-lru');
    expect(await failure(startNode(at(portOf(server))))).toMatchObject({
      code: 'unsupported',
      message: 'Redis must not evict keys: set maxmemory-policy to noeviction (it is volatile-lru)',
    });
  });

  it('that is too old is refused with its version', async () => {
    await using server = await startRedis();
    const stated = /redis_version:(\S+)/.exec(await server.client.info())?.[1] ?? '';
    const old = `6.1.${'9'.repeat(stated.length - 4)}`;
    await using proxy = await createRewritingProxy(
      portOf(server),
      `redis_version:${stated}`,
      `redis_version:${old}`,
    );
    expect(await failure(startNode(at(proxy.port)))).toMatchObject({
      code: 'unsupported',
      message: `this server needs Redis 6.2 or newer, or Valkey; this is ${old}`,
    });
  });

  it('that runs no scripts is refused, whether it has no such command or may not run it', async () => {
    await using without = await startRedis('--rename-command', 'EVAL', '');
    const refused = { code: 'unsupported', message: expect.stringContaining('runs no scripts (EVAL)') };
    expect(await failure(startNode(at(portOf(without))))).toMatchObject(refused);
    await using server = await startRedis();
    await server.client.call('ACL', 'SETUSER', 'app', 'on', '>password', '~*', '+@all', '-@scripting');
    const url = server.url.replace('//', '//app:password@');
    expect(await failure(startNode(redis({ url })))).toMatchObject(refused);
  });
});

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'an engine that fails', () => {
  it('and is slow, but not too slow, is not noticed', async () => {
    await using server = await startRedis();
    await using proxy = await createHostileProxy(portOf(server));
    await using pair = await startPair(() => at(proxy.port));
    const session = await pair.lead();
    for (const connection of proxy.connections) connection.delay(200);
    // Longer than a lease, which is renewed all the same.
    for (let i = 0; i < 3; i++) {
      await pause(2_000);
      await expectAlive(pair, session);
    }
    expectSaid(pair, 0);
  });

  it('by being too slow holds no session back, and is said once', async () => {
    await using server = await startRedis();
    await using proxy = await createHostileProxy(portOf(server));
    await using pair = await startPair(() => at(proxy.port));
    const session = await pair.lead();
    const slow = [...proxy.connections];
    for (const connection of slow) connection.delay(1_500);
    await expect.poll(() => pair.count('engine.stalled')).toBe(2);
    // Longer than a lease.
    for (let i = 0; i < 3; i++) {
      await pause(2_000);
      await expectAlive(pair, session);
    }
    for (const connection of slow) connection.delay(0);
    await expect.poll(() => pair.count('engine.back')).toBe(2);
    await expectAlive(pair, session);
    expectSaid(pair, 1);
  });

  it('by being full keeps out new nodes and nothing else', async () => {
    await using server = await startRedis();
    await using pair = await startPair(() => at(portOf(server)));
    const session = await pair.lead();
    await server.client.config('SET', 'maxmemory', '1mb');
    await server.client.config('SET', 'maxmemory', '1');
    await expect.poll(() => pair.count('engine.stalled')).toBe(2);
    await expectAlive(pair, session);
    const late = await startNode(at(portOf(server)));
    try {
      expect(late.events).toContain('engine.stalled');
      expect(late.events).not.toContain('node.member');
      await server.client.config('SET', 'maxmemory', '0');
      await expect.poll(() => late.events).toContain('node.member');
      await expect.poll(() => pair.count('engine.back')).toBe(2);
      await expect.poll(() => pair.count('node.joined')).toBe(4);
    } finally {
      await late.server.close();
    }
    await expectAlive(pair, session);
    expect(pair.count('engine.stalled')).toBe(2);
  });

  it('by being gone for longer than a lease keeps out new nodes and nothing else', async () => {
    await using server = await startRedis();
    await using pair = await startPair(() => at(portOf(server)));
    const session = await pair.lead();
    await server.kill();
    await expect.poll(() => pair.count('engine.stalled')).toBe(2);
    await pause(5_500);
    await expectAlive(pair, session);
    const late = await startNode(at(portOf(server)));
    try {
      expect(late.events).not.toContain('node.member');
      await server.restart();
      await expect.poll(() => late.events).toContain('node.member');
      await expect.poll(() => pair.count('engine.back')).toBe(2);
    } finally {
      await late.server.close();
    }
    await expectAlive(pair, session);
    expect(pair.count('engine.stalled')).toBe(2);
  });

  it('by forgetting everything, again and again, is told everything again', async () => {
    await using server = await startRedis();
    await using pair = await startPair(() => at(portOf(server)));
    const session = await pair.lead();
    for (const times of [1, 2, 3]) {
      await server.client.flushall();
      await expectAlive(pair, session);
      // Redis has a node again before that has the answer that says so.
      await expect.poll(() => pair.count('node.forgotten')).toBe(2 * times);
    }
    await server.kill();
    await server.restart();
    await expect.poll(() => server.client.hlen('parlance:nodes')).toBe(3);
    await expectAlive(pair, session);
    expect(pair.count('node.left')).toBe(0);
  });

  it('by forgetting where a session has moved is told that again', async () => {
    await using server = await startRedis();
    await using pair = await startPair(() => at(portOf(server)));
    const session = await pair.lead();
    const [old] = pair.nodes;
    expect(await old.server.drain({ timeoutMs: 20_000, returnWithinMs: 0 })).toMatchObject({ moved: 1 });
    await old.server.close();
    const late = await startNode(at(portOf(server)));
    try {
      await expect.poll(() => late.events).toContain('node.joined');
      for (const forget of ['flushall', 'restart'] as const) {
        if (forget === 'flushall') await server.client.flushall();
        else {
          await server.kill();
          await server.restart();
        }
        // The node that its ID names is gone, and the one where it arrives has never had anything to do with it.
        pair.front.redirect(late.port);
        await pair.reconnect(session);
        expect((await session.request('found')).text).toBe('found');
      }
    } finally {
      await late.server.close();
    }
  });

  it('over to a replica, behind an address that is pointed there, loses no session', async () => {
    await using primary = await startRedis();
    await using replica = await startRedis('--replicaof', '127.0.0.1', String(portOf(primary)));
    await using proxy = await createCuttingProxy(portOf(primary));
    await using pair = await startPair(() => at(proxy.port));
    const session = await pair.lead();
    await expect.poll(() => replica.client.hlen('parlance:nodes')).toBe(3);
    await primary.kill();
    await expect.poll(() => pair.count('engine.stalled')).toBe(2);
    await expectAlive(pair, session);
    // A replica answers before it is promoted, and refuses to write.
    proxy.redirect(portOf(replica));
    await expectAlive(pair, session);
    await replica.client.replicaof('NO', 'ONE');
    await expect.poll(() => pair.count('engine.back')).toBe(2);
    await expectAlive(pair, session);
    expectSaid(pair, 1);
  });

  it('over to a replica that has never heard of the nodes, loses no session', async () => {
    await using primary = await startRedis();
    await using stranger = await startRedis();
    await using proxy = await createCuttingProxy(portOf(primary));
    await using pair = await startPair(() => at(proxy.port));
    const session = await pair.lead();
    proxy.redirect(portOf(stranger));
    await primary.kill();
    await expect.poll(() => stranger.client.hlen('parlance:nodes')).toBe(3);
    await expectAlive(pair, session);
    expect(pair.count('node.left')).toBe(0);
  });

  it('over to a replica, as Sentinel decides, loses no session', async () => {
    await using primary = await startRedis();
    await using replica = await startRedis('--replicaof', '127.0.0.1', String(portOf(primary)));
    await using sentinel = await startSentinel('parlance', portOf(primary));
    await using pair = await startPair(() => redis({ client: sentinel.connect() }));
    const session = await pair.lead();
    await expect.poll(() => replica.client.hlen('parlance:nodes')).toBe(3);
    await expect.poll(() => sentinel.replicas()).toBe(1);
    await primary.kill();
    await expectAlive(pair, session);
    await expect.poll(() => replica.client.info('replication')).toContain('role:master');
    await expectAlive(pair, session);
    // All leases that the replica has copied are over then.
    await pause(5_500);
    expect(await replica.client.hlen('parlance:nodes')).toBe(3);
    await expectAlive(pair, session);
    // It may be too quick to be noticed.
    expect(pair.count('engine.back')).toBe(pair.count('engine.stalled'));
    expect(pair.count('node.left')).toBe(0);
  });
});
