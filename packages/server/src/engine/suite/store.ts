import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { copyEngine } from '../copy.js';
import type { EngineItem, EngineStore } from '../store.js';
import { codeOf, like, ok, same } from './asserts.js';
import { BOUNDS, batchOf, endOf, headOf, LIVE_MS, readAll, recordOf, text } from './log-values.js';
import { claimedFields, ID, moveTo, TTL_MS, textsOf, writeOf } from './record-values.js';
import type { Tests, World } from './world.js';

/** Time enough for a call on a machine with other work. */
const SHORT_MS = 1_500;

async function itemsOf<Kind extends EngineItem['kind']>(
  store: EngineStore,
  kind: Kind,
): Promise<Extract<EngineItem, { readonly kind: Kind }>[]> {
  const items: EngineItem[] = [];
  for await (const item of store.exports()) items.push(item);
  return items.filter((item): item is Extract<EngineItem, { readonly kind: Kind }> => item.kind === kind);
}

/** Why a copy is refused. */
const refusalOf = (copy: Promise<unknown>): Promise<string> =>
  copy.then(
    () => 'copied',
    (error: { readonly why?: unknown; readonly side?: unknown }) => `${error.side}: ${error.why}`,
  );

/** Everything that a copy has to have, in names and values of any kind. */
async function fill({ connect, connectLogs }: World) {
  const link = connect();
  const all = String.fromCharCode(...Array.from({ length: 256 }, (_, i) => i));
  await link.writeSession(ID, writeOf(1, { begin: all, [all]: '' }));
  await link.writeSession(ID, writeOf(2, { m1: 'one' }));
  const claimed = `${ID}}:x`;
  await link.writeSession(claimed, writeOf(1, { begin: 'c' }));
  await link.claimSession(claimed, moveTo('bbbbbb'));
  const released = `${ID}2`;
  await link.writeSession(released, writeOf(1, { begin: 'r' }));
  await link.releaseSession(released, 'aaaaaa', 0);
  await link.keepSessions('aaaaaa', new Map([[`${ID}3`, 1]]), TTL_MS);
  for (const [session, bytes] of [
    [ID, 40],
    [claimed, 2],
  ] as const)
    await link.reserveCapacity('ac:{count}', session, { bytes, maxBytes: 100, ttlMs: TTL_MS });
  await link.table('words').put('a key: \u00fc', { holder: 'aaaaaa', record: 'one two' }, null);
  await link.table('words').put('gone', { holder: 'aaaaaa', record: '' }, null);
  await link.table('words').put('gone', undefined);
  const key = await link.table('words').shareKey('a key of all nodes');

  const logs = connectLogs();
  const owner = 'principal:\u00fc:{x}';
  const records = Array.from({ length: 40 }, (_, i) => recordOf(`${i}${'x'.repeat(i === 20 ? 20_000 : i)}`));
  const long = headOf({
    owner,
    name: 'a name',
    share: '{"a":1}',
    encoding: 'O200K_BASE',
    principal: undefined,
  });
  const source = { session: ID, stream: 7 };
  await logs.open({ ...long, by: 'aaaaaa', source }, BOUNDS, LIVE_MS);
  const parts = [records.slice(0, 10), records.slice(10, 30), records.slice(30)] as const;
  const noted = (part: number) => [[part, text(`{"part":${part}}`)]] as const;
  await logs.append(batchOf(long, [], parts[0], noted(1)), BOUNDS, LIVE_MS);
  await logs.claim({ id: long.id, owner, epoch: 3 }, 'bbbbbb', LIVE_MS);
  await logs.append({ ...batchOf(long, parts[0], parts[1], noted(15)), epoch: 3 }, BOUNDS, LIVE_MS);
  await logs.claim({ id: long.id, owner, epoch: 4 }, 'cccccc', LIVE_MS);
  await logs.append({ ...batchOf(long, records.slice(0, 30), parts[2]), epoch: 4 }, BOUNDS, LIVE_MS);
  const failed = headOf({ owner });
  await logs.open(failed, BOUNDS, LIVE_MS);
  await logs.end({ ...endOf(failed, 0, 'dddddd', text('failure')), why: 'orphaned' }, BOUNDS);
  // The second one has the name, and the third one had it.
  const names = [
    headOf({ owner, name: 'first' }),
    headOf({ owner, name: 'first' }),
    headOf({ owner, name: 'last' }),
  ];
  for (const head of [...names, headOf({ owner, name: 'last' })]) {
    await logs.open(head, BOUNDS, LIVE_MS);
    if (head === names[2]) continue;
    if (!names.includes(head)) await logs.drop(head);
  }
  await logs.vouch(ID, 'anyone', ['h1', 'h2'], TTL_MS);
  return { owner, records, long, source, failed, names, claimed, released, key };
}

export const storeTests: Tests = {
  async 'nodes are told whose leases are not over'({ connect, connectStore, eventually }) {
    const [link, store] = [connect(), connectStore()];
    same(await store.living(), []);
    await link.renew('aaaaaa', '', TTL_MS);
    await link.renew('bbbbbb', '', SHORT_MS);
    same((await store.living()).toSorted(), ['aaaaaa', 'bbbbbb']);
    await pause(SHORT_MS);
    await eventually(
      () => store.living(),
      (nodes) => same(nodes, ['aaaaaa']),
    );
    await link.withdraw('aaaaaa');
    same(await store.living(), []);
  },

  async 'bytes are told, which grow with what is kept'({ connect, connectStore, eventually }) {
    const [link, store] = [connect(), connectStore()];
    const before = await store.size();
    ok(Number.isInteger(before) && before >= 0);
    await link.writeSession(ID, writeOf(1, { begin: randomBytes(300_000).toString('latin1') }));
    await eventually(
      () => store.size(),
      (size) => ok(size >= before + 200_000, `${size} bytes, ${before} before`),
    );
  },

  async 'what is over is not exported, nor what does not outlive nodes'({
    connect,
    connectLogs,
    connectStore,
    eventually,
  }) {
    const [link, logs, store] = [connect(), connectLogs(), connectStore()];
    await link.renew('aaaaaa', 'record', TTL_MS);
    await link.writeSession(ID, writeOf(1, { begin: 'b' }, { ttlMs: SHORT_MS }));
    await link.reserveCapacity('account', ID, { bytes: 1, maxBytes: 1, ttlMs: SHORT_MS });
    await logs.open(headOf(), BOUNDS, SHORT_MS);
    await logs.vouch(ID, 'owner', ['h1'], SHORT_MS);
    await pause(SHORT_MS);
    await eventually(
      async () => {
        const kinds: string[] = [];
        for await (const { kind } of store.exports()) kinds.push(kind);
        return kinds;
      },
      (kinds) => same(kinds, []),
    );
  },

  async 'hundreds of sessions are exported, each once'({ connect, connectStore }) {
    const [link, store] = [connect(), connectStore()];
    const ids = Array.from({ length: 603 }, (_, i) => `${ID}${i}`);
    for (let from = 0; from < ids.length; from += 100)
      await Promise.all(
        ids.slice(from, from + 100).map((id) => link.writeSession(id, writeOf(1, { begin: id }))),
      );
    const sessions = await itemsOf(store, 'session');
    same(sessions.map(({ id }) => id).toSorted(), ids.toSorted());
    for (const { id, fields } of sessions) same(textsOf(fields), { begin: id });
  },

  async 'a copy has all that outlives nodes, as it was'(world) {
    world.connectStore();
    const { owner, records, long, source, failed, names, claimed, released, key } = await fill(world);
    const other = world.elsewhere();
    const counts = await copyEngine(world.engine, other.engine);
    like(counts, { sessions: 2, replies: 5, parts: 40 });
    const [link, logs] = [other.connect(), other.connectLogs()];
    for (const id of [ID, claimed, released])
      same(await link.findSession(id), await world.connect().findSession(id));
    // The next write of its node is the third one, and no other is taken.
    same(await link.writeSession(ID, writeOf(2, { m1: 'again' })), 'written');
    const all = String.fromCharCode(...Array.from({ length: 256 }, (_, i) => i));
    same(await claimedFields(link), { begin: all, [all]: '', m1: 'one' });
    same(await link.writeSession(claimed, writeOf(2, {})), 'fenced');
    const capacity = { bytes: 59, maxBytes: 100, ttlMs: TTL_MS };
    same(await link.reserveCapacity('ac:{count}', 'sess_new', capacity), undefined);
    same(await link.reserveCapacity('ac:{count}', 'sess_new', { ...capacity, bytes: 58 }), 58);
    same(
      (await link.table('words').read()).entries,
      new Map([['a key: \u00fc', { holder: 'aaaaaa', record: 'one two' }]]),
    );
    same(await link.table('words').shareKey('another one'), key);

    like(await logs.find(long.id), { ...long, parts: 40, end: undefined, by: 'cccccc', epoch: 4, source });
    same(await readAll(logs, long.id), records);
    same((await logs.read(long.id, 14))?.metadata, text('{"part":1}'));
    same((await logs.read(long.id, 15))?.metadata, text('{"part":15}'));
    // A reply that was ended because its writer seemed to be gone continues.
    same((await logs.read(failed.id, 0))?.end, endOf(failed, 0, 'dddddd', text('failure')).end);
    like(await logs.claim({ id: failed.id, owner, epoch: 1 }, 'eeeeee', LIVE_MS), {
      outcome: 'done',
      parts: 0,
    });
    same((await logs.named(owner, 'a name'))?.id, long.id);
    same((await logs.named(owner, 'first'))?.id, names[1]?.id);
    same(await logs.named(owner, 'last'), undefined);
    const listed = (await logs.list(owner)).entries.map(({ id }) => id);
    same(
      listed,
      [...names.toReversed(), failed, long].map((head) => head?.id),
    );
    same(await logs.shared(), [long.id]);
    same(await logs.prove(ID, 'h2'), 'anyone');
    same(await logs.prove(ID, 'h3'), undefined);
    // Its bytes are charged as before.
    const full = { ...BOUNDS, maxReplies: 5 };
    same(await logs.open(headOf({ owner }), full, LIVE_MS), 'too_many_replies');
    for await (const item of other.connectStore().exports())
      ok(item.kind !== 'entry' || item.table !== 'copy');
  },

  async 'a copy is refused from and to an engine that nodes use, and to one that is not empty'(world) {
    const other = world.elsewhere();
    const [from, to] = [world.connect(), other.connect()];
    const copy = () => refusalOf(copyEngine(world.engine, other.engine));
    world.connectStore();
    await from.writeSession(ID, writeOf(1, { begin: 'b' }));
    await from.renew('aaaaaa', '', TTL_MS);
    same(await copy(), 'from: alive');
    await from.withdraw('aaaaaa');
    await to.renew('aaaaaa', '', TTL_MS);
    same(await copy(), 'to: alive');
    await to.withdraw('aaaaaa');
    await to.writeSession(`${ID}2`, writeOf(1, { begin: 'b' }));
    same(await copy(), 'to: not_empty');
    await to.releaseSession(`${ID}2`, 'aaaaaa', 0);
    same(await copy(), 'copied');
    same(await copy(), 'to: not_empty');
  },

  async 'a copy that was interrupted is none, and known as such'(world) {
    const other = world.elsewhere();
    const link = world.connect();
    world.connectStore();
    for (const id of [ID, `${ID}2`]) await link.writeSession(id, writeOf(1, { begin: 'b' }));
    const broken = copyEngine(world.engine, other.engine, () => {
      throw Object.assign(new Error('interrupted'), { code: 'interrupted' });
    });
    same(await codeOf(broken), 'interrupted');
    same(await refusalOf(copyEngine(world.engine, other.engine)), 'to: incomplete');
    same(await refusalOf(copyEngine(other.engine, world.elsewhere().engine)), 'from: incomplete');
  },
};
