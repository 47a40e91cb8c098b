import { randomBytes } from 'node:crypto';
import { isProtocolError } from '@parlance/protocol';
import { decodeFailure, encodeFailure, newReplyId } from '@parlance/protocol/internal';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { framedLength, type ReplyLogs } from '../engine/logs/logs.js';
import { sealedReplies } from '../engine/logs/sealed.js';
import { redis } from '../engine/redis.js';
import { Seal } from '../engine/seal/keys.js';
import { repliesOf } from '../engine/testing/engines.js';
import { type RedisServer, redisMissing, startRedis } from '../engine/testing/redis-server.js';
import { Changes } from './changes.js';
import { ReplyLog } from './log.js';

/** Readers of a reply that was changed in Redis: they get an end or an error, and do not wait. */

const BOUNDS = { maxReplies: 1_000, maxReplyBytes: 4 << 20, maxOwnerBytes: 256 << 20, maxBytes: 256 << 20 };
const LOGGER = { debug() {}, info() {}, warn() {}, error() {} };
/** Readers wait 10 s for an engine that does not answer, and then some for this machine. */
const DEADLINE_MS = 40_000;
const PARTS = 100;
const recordOf = (i: number) => Uint8Array.from([0, ...new TextEncoder().encode(`part ${i} `)]);

type Client = RedisServer['client'];
interface Keys {
  readonly r: string;
  readonly d: string;
  readonly i: string;
  readonly m: string;
}
type Change = (client: Client, keys: Keys) => Promise<unknown>;

const FIELDS = ['h', 'n', 's', 'c', 't', 'o', 'g', 'r', 'e', 'w', 'z', 'x', 'y'] as const;
const changes = new Map<string, Change>();
for (const field of FIELDS) {
  changes.set(`without ${field}`, (client, { r }) => client.hdel(r, field));
  for (const value of ['', 'x', '-1', '7', '99999999999999'])
    changes.set(`${field} is "${value}"`, (client, { r }) => client.hset(r, field, value));
}
for (const key of ['r', 'd', 'i', 'm'] as const) {
  changes.set(`no key ${key}`, (client, keys) => client.del(keys[key]));
  changes.set(`key ${key} is a list`, async (client, keys) => {
    await client.del(keys[key]);
    await client.rpush(keys[key], '0');
  });
}
changes.set('parts are cut off', async (client, { d }) => {
  const whole = (await client.getBuffer(d)) as Buffer;
  await client.set(d, whole.subarray(0, whole.length / 2));
});
for (const at of [0, 1, 300, 500, 700])
  changes.set(`byte ${at} of the parts`, async (client, { d }) => {
    const whole = (await client.getBuffer(d)) as Buffer;
    await client.set(d, Buffer.from(whole.with(at, whole[at]! ^ 0x41)));
  });
changes.set('a part swallows the rest', (client, { d }) => client.setrange(d, 0, Buffer.from([0xff, 0x07])));
changes.set('a place is wrong', (client, { i }) => client.zadd(i, 0, '0:3'));
changes.set('a place is no place', (client, { i }) => client.zadd(i, 40, 'here'));
changes.set('a place is after the end', (client, { i }) => client.zadd(i, 33, '33:999999'));
changes.set('a place is missing', (client, { i }) => client.zremrangebyscore(i, 32, 32));

/** Follows as the server does. @returns how many parts there were, and how it ended. */
async function follow(log: ReplyLog, id: string, after: number): Promise<string> {
  const news = new Changes((onChange) => log.watch(id, onChange), new AbortController().signal);
  let next = after;
  try {
    for (let isOn = false; ; isOn = true) {
      const pieces = await log.read(id, next, isOn);
      if (pieces === undefined) return 'gone';
      next += pieces.records.length;
      const { failure } = pieces.end ?? {};
      if (pieces.end !== undefined)
        return failure === undefined ? `${next} parts` : decodeFailure(failure, 8).code;
      if (pieces.records.length === 0) await news.next();
    }
  } catch (error) {
    return isProtocolError(error) ? error.code : String(error);
  } finally {
    news.stop();
  }
}

describe.skipIf(redisMissing !== undefined).each([
  ['', undefined],
  [', sealed', new Seal(randomBytes(32))],
])(redisMissing ?? 'a reply that was changed in Redis%s', (_, seal) => {
  let server: RedisServer;
  const open: ReplyLog[] = [];
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(async () => {
    await Promise.all(open.map((log) => log.close()));
    await server[Symbol.asyncDispose]();
  });

  const connect = (): ReplyLogs => {
    const engine = repliesOf(redis({ url: server.url }));
    return seal === undefined ? engine : sealedReplies(engine, seal);
  };

  /** A reply of a node that has died, and where it is. */
  async function written(engine: ReplyLogs, isOver: boolean): Promise<{ id: string; keys: Keys }> {
    const known = new Set(await server.client.keys('*'));
    const head = {
      ...{
        id: newReplyId('aaaaaa'),
        owner: 'principal:ada',
        principal: 'ada',
        name: undefined,
        share: undefined,
      },
      ...{ encoding: undefined, ttlMs: 600_000, startedAt: Date.now(), by: 'aaaaaa', epoch: 0 },
    };
    await engine.open(head, BOUNDS, 600_000);
    const records = Array.from({ length: PARTS }, (_each, i) => recordOf(i));
    for (let from = 0, offset = 0; from < PARTS; from += 20) {
      const some = records.slice(from, from + 20);
      const metadata = [[from + 1, Uint8Array.of(0x80)] as const];
      await engine.append({ ...head, from, offset, records: some, metadata }, BOUNDS, 600_000);
      offset += some.reduce((sum, each) => sum + framedLength(each), 0);
    }
    const end = { at: Date.now(), failure: encodeFailure(new Error('why')), metadata: undefined };
    if (isOver) await engine.end({ ...head, parts: PARTS, by: 'aaaaaa', end }, BOUNDS);
    const own = (await server.client.keys('*')).filter((key) => !known.has(key));
    const of = (kind: string) => own.find((key) => key.includes(`:${kind}:`)) as string;
    return { id: head.id, keys: { r: of('r'), d: of('d'), i: of('i'), m: of('m') } };
  }

  it.each([
    ['that has ended', true, 0],
    ['that has ended, from its middle', true, 40],
    ['whose node has died', false, 0],
  ])(
    'leaves no reader waiting: one %s',
    async (_what, isOver, after) => {
      const log = new ReplyLog({
        ...{ engine: connect(), bounds: BOUNDS, incarnation: 'bbbbbb', logger: LOGGER, now: Date.now },
        isAlive: async (name) => name === 'bbbbbb',
        retryMs: 100,
      });
      open.push(log);
      const writer = connect();
      const all: { readonly name: string; readonly id: string }[] = [];
      for (const [name, change] of changes) {
        const { id, keys } = await written(writer, isOver);
        await change(server.client, keys);
        all.push({ name, id });
      }
      await writer.close();
      const late = new Promise<string>((resolve) => void setTimeout(resolve, DEADLINE_MS, 'waits').unref());
      const outcomes = await Promise.all(
        all.map(async ({ name, id }) => [name, await Promise.race([follow(log, id, after), late])] as const),
      );
      expect(outcomes.filter(([, outcome]) => outcome === 'waits')).toEqual([]);
      // Fields that tell the reader where the parts are never pass for an end.
      const ended = new Map(outcomes);
      for (const name of ['a part swallows the rest', 'no key d', 'key d is a list', 'parts are cut off'])
        if (after === 0) expect(ended.get(name), name).not.toBe(`${PARTS} parts`);
    },
    2 * DEADLINE_MS,
  );
});
