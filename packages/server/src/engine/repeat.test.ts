import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { describe, expect, it } from 'vitest';
import type { EngineConnection, SessionWrite } from './engine.js';
import type { EngineBounds, ReplyLogs } from './logs/logs.js';
import type { ReplyHead } from './logs/reply.js';
import { type RedisOptions, redis } from './redis.js';
import { repliesOf } from './testing/engines.js';
import { redisMissing, startRedis } from './testing/redis-server.js';
import { createSilentProxy } from './testing/silent-proxy.js';

/** Each write is made, its answer is lost, and it is made again: that is as if it had been made once. */

const TTL_MS = 60_000;
/** Cases that run at the same time. */
const BESIDE = 6;
const ID = 'sess_aaaaaa0123456789abcd';
const BOUNDS: EngineBounds = { maxReplies: 10, maxReplyBytes: 1 << 20, maxOwnerBytes: 1 << 20 };
const HEAD: ReplyHead = {
  ...{ id: 'reply_one', owner: 'principal:ada', principal: 'ada', name: 'chat', share: '{}' },
  ...{ encoding: undefined, ttlMs: TTL_MS, startedAt: 1_700_000_000_000 },
};
const RECORD = Uint8Array.of(0, 1, 2);
const BATCH = { id: HEAD.id, owner: HEAD.owner, records: [RECORD], metadata: [] };
const END = {
  ...{ id: HEAD.id, owner: HEAD.owner, parts: 0, by: 'aaaaaa', ttlMs: TTL_MS },
  end: { at: 1_700_000_000_000, failure: undefined, metadata: undefined },
};

interface Node {
  readonly link: EngineConnection;
  readonly replies: ReplyLogs;
}

interface Case {
  readonly before?: (node: Node) => Promise<unknown>;
  /** The call, of which the result is compared. */
  readonly write: (node: Node) => Promise<unknown>;
  /** What is there afterwards. */
  readonly state: (node: Node) => Promise<unknown>;
  /** Answers that are not lost: of the commands before the last one. @default 0 */
  readonly answered?: number;
}

const writeOf = (number: number, more: Partial<SessionWrite> = {}): SessionWrite => ({
  ...{ owner: 'aaaaaa', epoch: 0, number, isFirst: number === 1, after: number - 1, ttlMs: TTL_MS },
  ...{ set: new Map([[`m${number}`, Buffer.from(`turn ${number}`)]]), remove: [] },
  ...more,
});
const move = { from: 'aaaaaa', epoch: 0, to: 'bbbbbb', ttlMs: TTL_MS };
const room = { bytes: 60, maxBytes: 100, ttlMs: TTL_MS };
const entry = { holder: ID, record: 'one' };

const sessionOf = async ({ link }: Node) => [
  await link.findSession(ID),
  (await link.readSession(ID, ['m1', 'm2', 'm3']))?.fields,
];
const namesOf = async ({ link }: Node) =>
  (await link.renew('reader', '', TTL_MS)).nodes.map(({ record }) => record).toSorted();
const agentsOf = async ({ link }: Node) => (await link.table('agents').read()).entries;
/** Bytes that another session may still reserve. */
const roomOf = async ({ link }: Node) => {
  for (let bytes = 100; bytes > 0; bytes -= 20)
    if ((await link.reserveRoom('ada', 'two', { ...room, bytes })) === bytes) return bytes;
  return 0;
};
const replyOf = async ({ replies }: Node) => {
  const { idleMs: _, ...found } = (await replies.find(HEAD.id)) ?? { idleMs: 0 };
  const { entries } = await replies.list(HEAD.owner);
  const named = (await replies.named(HEAD.owner, 'chat'))?.id;
  return [found, await replies.read(HEAD.id, 0), entries.length, named, await replies.shared()];
};
const opened = ({ replies }: Node) => replies.open(HEAD, BOUNDS, TTL_MS);
const append = ({ replies }: Node, from = 0) =>
  replies.append({ ...BATCH, from, offset: 4 * from }, BOUNDS, TTL_MS);

const cases: Readonly<Record<string, Case>> = {
  renew: {
    write: async ({ link }) => (await link.renew('aaaaaa', 'here', TTL_MS)).nodes.map(({ record }) => record),
    state: namesOf,
  },
  withdraw: {
    before: ({ link }) => link.renew('aaaaaa', 'here', TTL_MS),
    write: ({ link }) => link.withdraw('aaaaaa'),
    state: namesOf,
  },
  'put, if there is none': {
    write: async ({ link }) => (await link.table('agents').put('k', entry, null)).isDone,
    state: agentsOf,
  },
  'put, in place of any': {
    before: ({ link }) => link.table('agents').put('k', { holder: 'other', record: '' }, null),
    write: ({ link }) => link.table('agents').put('k', entry, undefined),
    state: ({ link }) => link.table('agents').read(),
  },
  'put, in place of one': {
    before: ({ link }) => link.table('agents').put('k', { holder: 'other', record: '' }, null),
    write: ({ link }) => link.table('agents').put('k', entry, 'other'),
    state: ({ link }) => link.table('agents').read(),
  },
  'put, to remove it': {
    before: ({ link }) => link.table('agents').put('k', entry, null),
    write: ({ link }) => link.table('agents').put('k', undefined, ID),
    state: ({ link }) => link.table('agents').read(),
  },
  'moveSession, if nothing is written': { write: ({ link }) => link.moveSession(ID, move), state: sessionOf },
  moveSession: {
    before: ({ link }) => link.writeSession(ID, writeOf(1)),
    write: ({ link }) => link.moveSession(ID, move),
    state: sessionOf,
  },
  keepSessions: {
    write: ({ link }) => link.keepSessions('aaaaaa', new Map([[ID, 1]]), TTL_MS),
    state: sessionOf,
  },
  'writeSession, the first': { write: ({ link }) => link.writeSession(ID, writeOf(1)), state: sessionOf },
  writeSession: {
    before: ({ link }) => link.writeSession(ID, writeOf(1)),
    write: ({ link }) => link.writeSession(ID, writeOf(2, { remove: ['m1'] })),
    state: sessionOf,
  },
  'writeSession, in place of all': {
    before: ({ link }) => link.writeSession(ID, writeOf(1)),
    write: ({ link }) => link.writeSession(ID, writeOf(3, { after: 2, replaces: true })),
    state: sessionOf,
  },
  'writeSession, beyond its room': {
    write: ({ link }) => link.writeSession(ID, writeOf(1, { maxBytes: 1 })),
    state: sessionOf,
  },
  reserveRoom: { write: ({ link }) => link.reserveRoom('ada', 'one', room), state: roomOf },
  releaseRoom: {
    before: ({ link }) => link.reserveRoom('ada', 'one', room),
    write: ({ link }) => link.releaseRoom('ada', 'one'),
    state: roomOf,
  },
  claimSession: {
    before: ({ link }) => link.writeSession(ID, writeOf(1)),
    write: ({ link }) => link.claimSession(ID, move),
    state: async (node) => [
      await sessionOf(node),
      await node.link.writeSession(ID, writeOf(1, { owner: 'bbbbbb', epoch: 1, isFirst: false })),
    ],
  },
  releaseSession: {
    before: ({ link }) => link.writeSession(ID, writeOf(1)),
    write: ({ link }) => link.releaseSession(ID, 'aaaaaa', 0),
    state: sessionOf,
  },
  'releaseSession, after it was claimed': {
    async before({ link }) {
      await link.writeSession(ID, writeOf(1));
      await link.claimSession(ID, move);
    },
    write: ({ link }) => link.releaseSession(ID, 'bbbbbb', 1),
    state: async (node) => [await sessionOf(node), await node.link.writeSession(ID, writeOf(2))],
  },
  shareKey: {
    write: ({ link }) => link.table('agents').shareKey('one'),
    state: ({ link }) => link.table('agents').shareKey('two'),
  },
  'open a reply, before it is there': { write: opened, state: replyOf },
  'open a reply': { write: opened, state: replyOf, answered: 1 },
  'open a reply, and share it': { write: opened, state: replyOf, answered: 2 },
  append: {
    async before(node) {
      await opened(node);
      await append(node);
    },
    write: (node) => append(node, 1),
    state: replyOf,
  },
  'end a reply': { before: opened, write: ({ replies }) => replies.end(END, BOUNDS), state: replyOf },
  'end a reply, and keep it': {
    before: opened,
    write: ({ replies }) => replies.end(END, BOUNDS),
    state: replyOf,
    answered: 1,
  },
  'keep a reply': { before: opened, write: ({ replies }) => replies.keep(HEAD, TTL_MS), state: replyOf },
  'drop a reply': { before: opened, write: ({ replies }) => replies.drop(HEAD), state: replyOf },
  'drop a reply, and its owner': {
    before: opened,
    write: ({ replies }) => replies.drop(HEAD),
    state: replyOf,
    answered: 1,
  },
  vouch: {
    write: ({ replies }) => replies.vouch(ID, 'ada', ['hash'], TTL_MS),
    state: async ({ replies }) => [await replies.prove(ID, 'hash'), await replies.prove(ID, 'other')],
  },
};

const kinds: Readonly<Record<string, (url: string) => RedisOptions>> = {
  'opened by URL': (url) => ({ url }),
  'duplicated from a client of ioredis': (url) => ({ client: new Redis(url, { lazyConnect: true }) }),
  'duplicated from a client of node-redis': (url) => ({ client: createClient({ url }) }),
};

const join = (options: RedisOptions): Node & AsyncDisposable => {
  const cluster = redis(options);
  const [link, replies] = [cluster.connect(), repliesOf(cluster)];
  return {
    ...{ link, replies },
    async [Symbol.asyncDispose]() {
      await link.close();
      await replies.close();
    },
  };
};

/** What a case results in, in a cluster of its own. @param isLost whether it is made twice, as its answer is lost. */
async function outcomeOf(
  { before, write, state, answered = 0 }: Case,
  port: number,
  kind: (url: string) => RedisOptions,
  isLost: boolean,
) {
  const prefix = `test${prefixes++}`;
  await using proxy = await createSilentProxy(port);
  await using node = join({ ...kind(`redis://127.0.0.1:${proxy.port}`), prefix });
  await using reader = join({ url: `redis://127.0.0.1:${port}`, prefix });
  await patiently(async () => await before?.(reader));
  // From now on connections are open, and the engine is known.
  await patiently(() => node.link.find('absent'));
  await patiently(() => node.replies.find('none'));
  const { opened } = proxy;
  let error: unknown;
  if (isLost) {
    proxy.silence('answers', answered);
    error = await write(node).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
  }
  const result = await patiently(() => write(node));
  return { outcome: [result, await patiently(() => state(reader))], error, replaced: proxy.opened - opened };
}

/** A machine may be so busy that Redis takes longer than it may. */
async function patiently<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if ((error as { readonly code?: unknown }).code !== 'timeout') throw error;
    }
  }
}
let prefixes = 0;

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'a write whose answer is lost', () => {
  it.each(Object.entries(kinds))('over a connection %s can be made again', async (_, kind) => {
    await using server = await startRedis();
    const port = Number(new URL(server.url).port);
    const run = async ([name, each]: (typeof all)[number]) => {
      // First, so that Redis has the script.
      const once = await outcomeOf(each, port, kind, false);
      const twice = await outcomeOf(each, port, kind, true);
      expect(twice.error, name).toMatchObject({ code: 'timeout' });
      expect(twice.outcome, name).toEqual(once.outcome);
      expect(twice.replaced, name).toBeGreaterThan(0);
    };
    const all = Object.entries(cases);
    // Most of the time is waiting, but a busy machine must not take longer than Redis may.
    const inTurn = async (first: number) => {
      for (let i = first; i < all.length; i += BESIDE) await run(all[i] as (typeof all)[number]);
    };
    await Promise.all(Array.from({ length: BESIDE }, (_, i) => inTurn(i)));
  });
});
