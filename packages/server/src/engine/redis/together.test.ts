import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EngineConnection, SessionWrite } from '../engine.js';
import { redis } from '../redis.js';
import { patient } from '../suite/world.js';
import { type RedisServer, redisMissing, startRedis } from '../testing/redis-server.js';

const writeOf = (number: number): SessionWrite => ({
  ...{ owner: 'aaaaaa', epoch: 0, number, isFirst: number === 1, ttlMs: 60_000, remove: [] },
  set: new Map([[`m${number}`, Buffer.from('hello')]]),
});
const sessions = (count: number) => Array.from({ length: count }, (_, i) => `sess_${i}`);

describe.skipIf(redisMissing)('calls of one tick of the event loop', () => {
  let server: RedisServer;
  let prefixes = 0;
  const links: EngineConnection[] = [];
  const connect = (url = server.url, prefix = `t${prefixes++}`) => {
    const link = redis({ url, prefix }).connect();
    links.push(link);
    return patient(link);
  };
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(async () => {
    for (const link of links) await link.close();
    await server[Symbol.asyncDispose]();
  });

  async function scriptsOf(run: () => Promise<unknown>): Promise<number> {
    await server.client.config('RESETSTAT');
    await run();
    const stats = await server.client.info('commandstats');
    return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
  }

  it('go together, whichever sessions they are about', async () => {
    const link = connect();
    const ids = sessions(100);
    const capacity = { bytes: 16_384, maxBytes: 1e9, ttlMs: 60_000 };
    const write = (number: number) => Promise.all(ids.map((id) => link.writeSession(id, writeOf(number))));
    expect(new Set(await write(1))).toEqual(new Set(['written']));
    expect(await scriptsOf(() => write(2))).toBe(13);
    const reserve = () => Promise.all(ids.map((id, i) => link.reserveCapacity(`p${i % 7}`, id, capacity)));
    expect(new Set(await reserve())).toEqual(new Set([16_384]));
    expect(await scriptsOf(reserve)).toBe(13);
    const keep = () => link.keepSessions('aaaaaa', new Map(ids.map((id) => [id, 0])), 60_000);
    expect(await scriptsOf(keep)).toBe(2);
    expect([...((await link.readSession('sess_99', ['m1', 'm2']))?.fields.keys() ?? [])]).toEqual([
      'm1',
      'm2',
    ]);
  });

  it('take effect before those about a session that are made after them', async () => {
    const link = connect();
    const written = link.writeSession('sess_one', writeOf(1));
    const released = link.releaseSession('sess_one', 'aaaaaa', 0);
    expect(await written).toBe('written');
    await released;
    expect(await link.findSession('sess_one')).toBeUndefined();
  });

  it('are sent before the connection is closed', async () => {
    const [link, other] = [connect(server.url, 'closed'), connect(server.url, 'closed')];
    await link.findSession('sess_one');
    link.writeSession('sess_one', writeOf(1)).catch(() => {});
    await link.close();
    await expect.poll(() => other.findSession('sess_one')).toEqual({ owner: 'aaaaaa', epoch: 0 });
  });

  it('succeed beside one that Redis refuses', async () => {
    const link = connect(server.url, 'wrong');
    await server.client.set('wrong:{sess_1}', 'not a session');
    const outcomes = await Promise.allSettled(sessions(3).map((id) => link.writeSession(id, writeOf(1))));
    expect(outcomes).toMatchObject([
      { value: 'written' },
      { reason: { code: 'connection_failed', message: expect.stringContaining('WRONGTYPE') } },
      { value: 'written' },
    ]);
  });

  it('go one by one to a server that wants the keys of a command in one slot', async () => {
    await using cluster = await startRedis('--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf');
    await cluster.client.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
    await expect.poll(async () => cluster.client.call('CLUSTER', 'INFO')).toContain('cluster_state:ok');
    const link = connect(cluster.url);
    const ids = sessions(20);
    const write = (number: number) => Promise.all(ids.map((id) => link.writeSession(id, writeOf(number))));
    expect(new Set(await write(1))).toEqual(new Set(['written']));
    expect(new Set(await write(2))).toEqual(new Set(['written']));
    const epochs = new Map([...ids.map((id): [string, number] => [id, 0]), ['sess_0', 1]]);
    expect(await link.keepSessions('aaaaaa', epochs, 60_000)).toEqual(['sess_0']);
  });
});
