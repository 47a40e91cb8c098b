import { again } from '../again.js';
import type { EngineConnection, SessionWrite } from '../engine.js';
import type { ReplyLogs } from '../logs/logs.js';
import type { ReplyHead } from '../logs/reply.js';
import { codeOf, ok, same } from './asserts.js';
import { namedIn } from './leases.js';
import type { Tests, World } from './world.js';

/** Each write is made, its answer is lost, and it is made again: that is as if it had been made once. */

const TTL_MS = 60_000;
/** Cases that run at the same time. */
const BESIDE = 10;
const ID = 'sess_aaaaaa0123456789abcd';
const BOUNDS = { maxReplies: 10, maxReplyBytes: 1 << 20, maxOwnerBytes: 1 << 20 };
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
  readonly logs: ReplyLogs;
}

interface Case {
  readonly before?: (node: Node) => Promise<unknown>;
  /** The call, of which the result is compared. */
  readonly write: (node: Node) => Promise<unknown>;
  /** Reads the state afterwards. */
  readonly state: (node: Node) => Promise<unknown>;
}

const writeOf = (number: number, more: Partial<SessionWrite> = {}): SessionWrite => ({
  ...{ owner: 'aaaaaa', epoch: 0, number, isFirst: number === 1, after: number - 1, ttlMs: TTL_MS },
  ...{ set: new Map([[`m${number}`, Buffer.from(`commit ${number}`)]]), remove: [] },
  ...more,
});
const move = { from: 'aaaaaa', epoch: 0, to: 'bbbbbb', ttlMs: TTL_MS };
const capacity = { bytes: 60, maxBytes: 100, ttlMs: TTL_MS };
const entry = { holder: ID, record: 'one' };

const sessionOf = async ({ link }: Node) => [
  await link.findSession(ID),
  (await link.readSession(ID, ['m1', 'm2', 'm3']))?.fields,
];
const namesOf = async ({ link }: Node) =>
  namedIn(await link.renew('reader', '', TTL_MS))
    .map(({ record }) => record)
    .toSorted();
const tableOf = ({ link }: Node) => link.table('names').read();
/** Bytes that another session may still reserve. */
const capacityOf = async ({ link }: Node) => {
  for (let bytes = 100; bytes > 0; bytes -= 20)
    if ((await link.reserveCapacity('ada', 'two', { ...capacity, bytes })) === bytes) return bytes;
  return 0;
};
const replyOf = async ({ logs }: Node) => {
  const { idleMs: _, ...found } = (await logs.find(HEAD.id)) ?? { idleMs: 0 };
  const { entries } = await logs.list(HEAD.owner);
  const named = (await logs.named(HEAD.owner, 'chat'))?.id;
  return [found, await logs.read(HEAD.id, 0), entries.length, named, await logs.shared()];
};
const opened = ({ logs }: Node) => logs.open(HEAD, BOUNDS, TTL_MS);
const append = ({ logs }: Node, from = 0) =>
  logs.append({ ...BATCH, from, offset: 4 * from }, BOUNDS, TTL_MS);
const putOther = ({ link }: Node) => link.table('names').put('k', { holder: 'other', record: '' }, null);
const putOwn = ({ link }: Node) => link.table('names').put('k', entry, null);
const writeFirst = ({ link }: Node) => link.writeSession(ID, writeOf(1));
const claim = async (node: Node) => {
  await writeFirst(node);
  await node.link.claimSession(ID, move);
};

const CASES: Readonly<Record<string, Case>> = {
  renew: {
    write: async ({ link }) =>
      namedIn(await link.renew('aaaaaa', 'here', TTL_MS)).map(({ record }) => record),
    state: namesOf,
  },
  withdraw: {
    before: ({ link }) => link.renew('aaaaaa', 'here', TTL_MS),
    write: ({ link }) => link.withdraw('aaaaaa'),
    state: namesOf,
  },
  'put, if there is none': { write: async (node) => (await putOwn(node)).isDone, state: tableOf },
  'put, in place of any': {
    before: putOther,
    write: ({ link }) => link.table('names').put('k', entry),
    state: tableOf,
  },
  'put, in place of one': {
    before: putOther,
    write: ({ link }) => link.table('names').put('k', entry, 'other'),
    state: tableOf,
  },
  'put, to remove it': {
    before: putOwn,
    write: ({ link }) => link.table('names').put('k', undefined, ID),
    state: tableOf,
  },
  shareKey: {
    write: ({ link }) => link.table('names').shareKey('one'),
    state: ({ link }) => link.table('names').shareKey('two'),
  },
  'moveSession, if nothing is written': { write: ({ link }) => link.moveSession(ID, move), state: sessionOf },
  moveSession: { before: writeFirst, write: ({ link }) => link.moveSession(ID, move), state: sessionOf },
  keepSessions: {
    write: ({ link }) => link.keepSessions('aaaaaa', new Map([[ID, 1]]), TTL_MS),
    state: sessionOf,
  },
  'writeSession, the first': { write: writeFirst, state: sessionOf },
  writeSession: {
    before: writeFirst,
    write: ({ link }) => link.writeSession(ID, writeOf(2, { remove: ['m1'] })),
    state: sessionOf,
  },
  'writeSession, in place of all': {
    before: writeFirst,
    write: ({ link }) => link.writeSession(ID, writeOf(3, { after: 2, replaces: true })),
    state: sessionOf,
  },
  'writeSession, beyond its capacity': {
    write: ({ link }) => link.writeSession(ID, writeOf(1, { maxBytes: 1 })),
    state: sessionOf,
  },
  claimSession: {
    before: writeFirst,
    write: ({ link }) => link.claimSession(ID, move),
    state: async (node) => [
      await sessionOf(node),
      await node.link.writeSession(ID, writeOf(1, { owner: 'bbbbbb', epoch: 1, isFirst: false })),
    ],
  },
  releaseSession: {
    before: writeFirst,
    write: ({ link }) => link.releaseSession(ID, 'aaaaaa', 0),
    state: sessionOf,
  },
  'releaseSession, after it was claimed': {
    before: claim,
    write: ({ link }) => link.releaseSession(ID, 'bbbbbb', 1),
    state: async (node) => [await sessionOf(node), await node.link.writeSession(ID, writeOf(2))],
  },
  reserveCapacity: { write: ({ link }) => link.reserveCapacity('ada', 'one', capacity), state: capacityOf },
  releaseCapacity: {
    before: ({ link }) => link.reserveCapacity('ada', 'one', capacity),
    write: ({ link }) => link.releaseCapacity('ada', 'one'),
    state: capacityOf,
  },
};

const LOG_CASES: Readonly<Record<string, Case>> = {
  open: { write: opened, state: replyOf },
  append: {
    before: async (node) => [await opened(node), await append(node)],
    write: (node) => append(node, 1),
    state: replyOf,
  },
  claim: {
    before: async (node) => [await opened(node), await append(node)],
    write: ({ logs }) => logs.claim({ ...HEAD, epoch: 1 }, 'bbbbbb', TTL_MS),
    state: replyOf,
  },
  end: { before: opened, write: ({ logs }) => logs.end(END, BOUNDS), state: replyOf },
  keep: { before: opened, write: ({ logs }) => logs.keep(HEAD, TTL_MS), state: replyOf },
  drop: { before: opened, write: ({ logs }) => logs.drop(HEAD), state: replyOf },
  vouch: {
    write: ({ logs }) => logs.vouch(ID, 'ada', ['hash'], TTL_MS),
    state: async ({ logs }) => [await logs.prove(ID, 'hash'), await logs.prove(ID, 'other')],
  },
};

/** Stands for the logs of cases without any. */
const NO_LOGS = {} as ReplyLogs;
/** How a call is made before its result counts. */
type Rehearsal = (calls: readonly (() => Promise<unknown>)[]) => Promise<void>;

async function repeated(
  world: World,
  all: Readonly<Record<string, Case>>,
  rehearse: Rehearsal,
): Promise<void> {
  const join = (space: World): Node & AsyncDisposable => {
    const link = space.connect();
    const logs = all === LOG_CASES ? space.connectLogs() : NO_LOGS;
    const close = async () => {
      await link.close();
      if (logs !== NO_LOGS) await logs.close();
    };
    return { link, logs, [Symbol.asyncDispose]: close };
  };
  const prepared = async (each: Case) => {
    const space = world.elsewhere();
    await using first = join(space);
    await again(async () => await each.before?.(first));
    const node = join(space);
    // From now on connections are open.
    await again(() => node.link.find('absent'));
    if (all === LOG_CASES) await again(() => node.logs.find('none'));
    return { space, node, each };
  };
  const outcomeOf = async ({ space, node, each }: Awaited<ReturnType<typeof prepared>>) => {
    const result = await again(() => each.write(node));
    await node[Symbol.asyncDispose]();
    await using reader = join(space);
    return [result, await again(() => each.state(reader))];
  };
  const names = Object.keys(all);
  for (let i = 0; i < names.length; i += BESIDE) {
    const some = names.slice(i, i + BESIDE);
    const cases = some.map((name) => all[name] as Case);
    const once = await Promise.all(cases.map(async (each) => await outcomeOf(await prepared(each))));
    const others = await Promise.all(cases.map(prepared));
    await rehearse(
      others.map(
        ({ node, each }) =>
          () =>
            each.write(node),
      ),
    );
    const twice = await Promise.all(others.map(outcomeOf));
    for (const [at, name] of some.entries()) same(twice[at], once[at], name);
  }
}

const twice: Rehearsal = async (calls) => {
  await Promise.all(calls.map(again));
};

/** @param answers that are not lost, for calls that an engine makes in several steps. */
const losing =
  (world: World, answers: number): Rehearsal =>
  async (calls) => {
    await world.fault('loseAnswers')(answers);
    const codes = await Promise.all(calls.map((call) => codeOf(call())));
    const allowed = ['timeout', 'connection_failed', ...(answers > 0 ? ['answered'] : [])];
    ok(
      codes.every((code) => allowed.includes(code)),
      `calls without an answer ended with ${codes.join(', ')}`,
    );
  };

export const repeatTests: Tests = {
  'a call that is made twice is as one': (world) => repeated(world, CASES, twice),
  'a call of logs that is made twice is as one': (world) => repeated(world, LOG_CASES, twice),
  'a call whose answer was lost is made again': (world) => repeated(world, CASES, losing(world, 0)),
  ...Object.fromEntries(
    [0, 1, 2].map((answers) => [
      `a call of logs whose answer was lost, after ${answers} others, is made again`,
      (world: World) => repeated(world, LOG_CASES, losing(world, answers)),
    ]),
  ),
};
