import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { encodeRecord } from '../../replies/record.js';
import { redis } from '../redis.js';
import { BOUNDS, batchOf, endOf, headOf, LIVE_MS, readAll, recordOf, text } from '../suite/log-values.js';
import { patient } from '../suite/world.js';
import { repliesOf } from '../testing/engines.js';
import { redisMissing, startRedis } from '../testing/redis-server.js';

/** Kept replies in Redis, beyond the tests of every engine. */

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'kept replies in Redis', () => {
  it('take little room once they have ended, and leave nothing behind', async () => {
    await using server = await startRedis();
    const replies = patient(repliesOf(redis({ url: server.url })));
    const head = headOf({ ttlMs: 400 });
    await replies.open(head, BOUNDS, LIVE_MS);
    const records: Uint8Array[] = [];
    for (let i = 0; i < 200; i++) {
      const more = Array.from({ length: 10 }, (_, n) => Uint8Array.from([3, (i * 10 + n) & 0xff, n]));
      await replies.append(batchOf(head, records, more), BOUNDS, LIVE_MS);
      records.push(...more);
    }
    await replies.end(endOf(head, 2_000), BOUNDS);
    let bytes = 0;
    for (const key of await server.client.keys('*'))
      bytes += Number(await server.client.call('MEMORY', 'USAGE', key));
    // 2,000 tokens, their index, their head, and what is kept of their owner.
    expect(bytes).toBeLessThan(13_000);
    expect(await readAll(replies, head.id, 1_990)).toEqual(records.slice(1_990));
    await expect.poll(async () => (await server.client.keys('*:r:*')).length).toBe(0);
    for (const key of await server.client.keys('*')) expect(await server.client.pttl(key)).toBeGreaterThan(0);
    await replies.close();
  });

  it('are written with one call for each batch', async () => {
    await using server = await startRedis();
    const replies = patient(repliesOf(redis({ url: server.url })));
    const head = headOf();
    await replies.open(head, BOUNDS, LIVE_MS);
    const record = encodeRecord(
      { codec: 0, bytes: text('x'), originalLength: 1, secret: false } as never,
      undefined,
    );
    await replies.append(batchOf(head, [], [record]), BOUNDS, LIVE_MS);
    await server.client.config('RESETSTAT');
    await replies.append(batchOf(head, [record], [record, record]), BOUNDS, LIVE_MS);
    const stats = await server.client.info('commandstats');
    expect(stats).toMatch(/cmdstat_evalsha:calls=1,/);
    expect(stats).not.toMatch(/cmdstat_eval:/);
    await replies.close();
  });

  it('need the commands that the guide names, and no others', async () => {
    await using server = await startRedis();
    const guide = await readFile(new URL('../../../../../docs/operate/redis.md', import.meta.url), 'utf8');
    const [section = ''] = /A user with `~parlance[\s\S]*?## A client of your own/.exec(guide) ?? [];
    const commands = [...section.matchAll(/`([A-Z]+)`/g)].map(([, name = '']) => `+${name}`);
    const rights = ['on', '>password', '~parlance:*', '&parlance:*', ...commands];
    await server.client.call('ACL', 'SETUSER', 'app', ...rights);
    const url = server.url.replace('//', '//app:password@');
    const replies = patient(repliesOf(redis({ url })));
    const head = headOf({ name: 'n', share: '1' });
    await replies.open(head, BOUNDS, LIVE_MS);
    let told = 0;
    const stop = replies.watch(head.id, () => told++);
    await expect.poll(() => told).toBeGreaterThan(0);
    const batch = batchOf(head, [], [recordOf('1')], [[1, text('m')]]);
    expect(await replies.append(batch, BOUNDS, LIVE_MS)).toBe('done');
    await expect.poll(() => told).toBeGreaterThan(1);
    expect(await replies.keep(head, LIVE_MS)).toMatchObject({ outcome: 'done' });
    expect(await replies.follow(head.id)).toMatchObject({ parts: 1 });
    expect(await replies.read(head.id, 0)).toMatchObject({ records: [recordOf('1')] });
    expect(await replies.shared()).toEqual([head.id]);
    expect((await replies.list(head.owner)).entries).toHaveLength(1);
    expect(await replies.named(head.owner, 'n')).toMatchObject({ id: head.id });
    const end = { ...endOf(head, 1), end: { at: 1, failure: text('f'), metadata: text('m') } };
    expect(await replies.end(end, BOUNDS)).toBe('done');
    await replies.vouch('sess_1', 'session:x', ['h'], LIVE_MS);
    expect(await replies.prove('sess_1', 'h')).toBe('session:x');
    await replies.drop(head);
    await replies.open(headOf({ ttlMs: 1 }), BOUNDS, 1);
    await expect.poll(async () => (await replies.list(head.owner)).entries).toEqual([]);
    stop();
    await replies.close();
  });
});
