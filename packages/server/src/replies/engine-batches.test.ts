import { newReplyId } from '@parlance/protocol/internal';
import { describe, expect, it } from 'vitest';
import { redis } from '../engine/redis.js';
import { repliesOf } from '../engine/testing/engines.js';
import { redisMissing, startRedis } from '../engine/testing/redis-server.js';
import { BATCH_MS } from './engine-writer.js';
import { ReplyLog } from './log.js';

/** The calls that a stream of parts makes to a real Redis. */

const BOUNDS = { maxReplies: 100, maxReplyBytes: 4 << 20, maxOwnerBytes: 32 << 20, maxBytes: 256 << 20 };
const PARTS = 300;
const PACE_MS = 3;

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'a kept reply in Redis', () => {
  it('takes one command for all parts of 50 ms, however many they are', async () => {
    await using server = await startRedis();
    const log = new ReplyLog({
      engine: repliesOf(redis({ url: server.url })),
      bounds: BOUNDS,
      incarnation: 'aaaaaa',
      logger: { debug() {}, info() {}, warn() {}, error() {} },
      now: Date.now,
      isAlive: async () => true,
    });
    const scripts = async () => {
      const stats = await server.client.info('commandstats');
      const calls = [...stats.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm)].map(([, count]) =>
        Number(count),
      );
      return calls.reduce((sum, count) => sum + count, 0);
    };
    const begin = async () => {
      const id = newReplyId('aaaaaa');
      const texts = { owner: 'o', principal: 'o', name: undefined, share: undefined, encoding: undefined };
      await log.open({ id, ...texts, ttlMs: 60_000, startedAt: Date.now() });
      return id;
    };
    const write = async (id: string) => {
      for (let i = 0; i < PARTS; i++) {
        await log.append(id, Uint8Array.of(0, i % 256));
        await new Promise((resolve) => setTimeout(resolve, PACE_MS));
      }
      await log.end(id, { at: Date.now(), failure: undefined, metadata: undefined });
    };
    // Scripts are loaded with the first reply.
    await write(await begin());
    const ids = [await begin(), await begin()];
    const [before, from] = [await scripts(), performance.now()];
    await Promise.all(ids.map(write));
    // The first parts go at once, the last ones with the end, which is a command of its own.
    const most = ids.length * (Math.ceil((performance.now() - from) / BATCH_MS) + 3);
    expect((await scripts()) - before).toBeLessThanOrEqual(most);
    for (const id of ids) expect((await log.find({ id }))?.parts).toBe(PARTS);
    await log.close();
  });
});
