import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { redis } from './redis.js';
import { ID, TTL_MS, textsOf, writeOf } from './suite/record-values.js';
import { engineTests } from './suite/tests.js';
import { patient } from './suite/world.js';
import { type RedisCluster, startRedisCluster } from './testing/redis-cluster.js';
import { redisMissing } from './testing/redis-server.js';

/** Redis Cluster with six processes: everything that an engine does, and a master that dies. */

const KEPT = ['--appendonly', 'yes', '--appendfsync', 'always'];

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'Redis Cluster', () => {
  let cluster: RedisCluster;
  let spaces = 0;
  beforeAll(async () => {
    cluster = await startRedisCluster(...KEPT);
  });
  afterAll(async () => await cluster?.[Symbol.asyncDispose]());

  describe('by a client of ioredis', () => {
    engineTests({
      test: it,
      after: afterAll,
      start: async () => {
        const client = cluster.connect();
        return {
          create: () => redis({ client, prefix: `test${spaces++}` }),
          close: async () => client.disconnect(),
          faults: {
            async silence() {
              for (const server of cluster.servers) server.pause();
              // Longer than that, and nodes would take each other for failed.
              return () => {
                for (const server of cluster.servers) server.go();
              };
            },
            async loseData() {
              for (const { client: each } of cluster.servers) await each.flushall().catch(() => {});
            },
          },
        };
      },
    });
  });

  it('gives all keys of a session to one node, and different sessions to all of them', async () => {
    const link = patient(redis({ client: cluster.connect(), prefix: 'spread' }).connect());
    const ids = Array.from({ length: 60 }, (_, i) => `sess_${i}`);
    await Promise.all(ids.map((id) => link.writeSession(id, writeOf(1, { begin: id }))));
    const counts = await Promise.all(
      cluster.servers.slice(0, 3).map(async ({ client }) => (await client.keys('spread:*')).length),
    );
    expect(Math.min(...counts)).toBeGreaterThan(0);
    expect(counts.reduce((sum, count) => sum + count)).toBe(60);
    await link.close();
  });

  it('refuses to confirm by a replica, as it could not know which one to ask', async () => {
    const link = patient(redis({ client: cluster.connect(), prefix: 'confirm' }).connect());
    const write = writeOf(1, { begin: 'b' }, { isReplicated: true });
    await expect(link.writeSession(ID, write)).rejects.toMatchObject({ code: 'unsupported' });
    expect(await link.findSession(ID)).toBeUndefined();
    await link.close();
  });

  it('answers again after a master has died, with all that its replica had', async () => {
    const link = redis({ client: cluster.connect(), prefix: 'failover' }).connect();
    const master = await cluster.masterOf(`failover:{${ID}}`);
    const write = (number: number) =>
      link.writeSession(ID, { ...writeOf(number, { [`m${number}`]: `${number}` }), after: number - 1 });
    let number = 0;
    while (number < 20) expect(await write(++number)).toBe('written');
    // Its replica has confirmed all of that.
    await expect
      .poll(async () => {
        const info = await master.client.info('replication');
        return /offset=(\d+)/.exec(info)?.[1] === /master_repl_offset:(\d+)/.exec(info)?.[1];
      })
      .toBe(true);
    await master.kill();
    for (number++; ; await pause(50)) {
      const outcome = await write(number).catch(({ code }: { code: unknown }) => code);
      if (outcome === 'written') break;
      expect(['timeout', 'connection_failed']).toContain(outcome);
    }
    const names = Array.from({ length: number }, (_, i) => `m${i + 1}`);
    const found = textsOf((await link.readSession(ID, names))?.fields);
    expect(Object.keys(found)).toHaveLength(number);
    expect(await link.renew('aaaaaa', '', TTL_MS)).toMatchObject({ nodes: [{ incarnation: 'aaaaaa' }] });
    await link.close();
  });
});
