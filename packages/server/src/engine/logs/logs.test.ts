import { readFile } from 'node:fs/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeRecord } from '../../replies/record.js';
import { redis } from '../redis.js';
import { describeEngines, repliesOf } from '../testing/engines.js';
import { redisMissing, startRedis } from '../testing/redis-server.js';
import {
  batchCharge,
  type EngineBounds,
  framedLength,
  headCharge,
  type ReplyBatch,
  type ReplyLogs,
  type ReplyNews,
  UNKNOWN,
} from './logs.js';
import type { ReplyHead } from './reply.js';

/** Kept replies in each engine of a cluster. */

const LIVE_MS = 60_000;
const BOUNDS: EngineBounds = { maxReplies: 1_000, maxReplyBytes: 4 << 20, maxOwnerBytes: 32 << 20 };

let ids = 0;
const headOf = (rest: Partial<ReplyHead> = {}): ReplyHead => ({
  id: `reply_${String(ids++).padStart(22, '0')}`,
  owner: 'principal:ada',
  principal: 'ada',
  name: undefined,
  share: undefined,
  encoding: undefined,
  ttlMs: LIVE_MS,
  startedAt: Date.now(),
  ...rest,
});
const text = (value: string) => new TextEncoder().encode(value);
const recordOf = (value: string) => Uint8Array.from([0, ...text(value)]);
const sizeOf = (records: readonly Uint8Array[]) =>
  records.reduce((sum, record) => sum + framedLength(record), 0);

/** Parts of one reply after those before. */
function batchOf(
  { id, owner }: ReplyHead,
  before: readonly Uint8Array[],
  records: readonly Uint8Array[],
  metadata: ReplyBatch['metadata'] = [],
): ReplyBatch {
  return { id, owner, from: before.length, offset: sizeOf(before), records, metadata };
}

const endOf = (
  { id, owner, ttlMs }: ReplyHead,
  parts: number | undefined,
  by = 'aaaaaa',
  failure?: Uint8Array,
) => ({
  id,
  owner,
  parts,
  by,
  ttlMs,
  end: { at: 1_700_000_000_000, failure, metadata: undefined },
});

async function readAll(engine: ReplyLogs, id: string, after = 0): Promise<Uint8Array[]> {
  const records: Uint8Array[] = [];
  for (;;) {
    const pieces = await engine.read(id, after + records.length);
    if (pieces === undefined || pieces.records.length === 0) return records;
    records.push(...pieces.records);
  }
}

describeEngines('kept replies in', (test) => {
  test('are read as they were written, from every part on, at every node', async ({
    connectLogs: connect,
  }) => {
    const [a, b] = [connect(), connect()];
    const head = headOf({ name: 'chat', share: '{"with":"bob"}', encoding: 'CL100K_BASE' });
    expect(await b.find(head.id)).toBeUndefined();
    expect(await b.read(head.id, 0)).toBeUndefined();
    expect(await a.open(head, BOUNDS, LIVE_MS)).toBe('done');
    expect(await b.read(head.id, 0)).toEqual({ records: [], metadata: undefined, end: undefined });
    const records: Uint8Array[] = [];
    for (let i = 0; i < 40; i++) {
      const more = Array.from({ length: i % 13 }, (_, n) => recordOf(`${i}.${n} Grüße \u{1f600}`));
      if (more.length === 0) continue;
      expect(await a.append(batchOf(head, records, more), BOUNDS, LIVE_MS)).toBe('done');
      records.push(...more);
    }
    expect(await b.find(head.id)).toMatchObject({ ...head, parts: records.length, end: undefined });
    const failure = Uint8Array.from({ length: 256 }, (_, i) => i);
    expect(await a.end(endOf(head, records.length, 'aaaaaa', failure), BOUNDS)).toBe('done');
    for (let after = 0; after <= records.length; after += 7)
      expect(await readAll(b, head.id, after)).toEqual(records.slice(after));
    const last = await b.read(head.id, records.length + 9);
    expect(last).toEqual({
      records: [],
      metadata: undefined,
      end: { at: 1_700_000_000_000, failure, metadata: undefined },
    });
    expect(await b.named(head.owner, 'chat')).toMatchObject({ id: head.id, end: { at: 1_700_000_000_000 } });
  });

  test('go on with another writer after what is on record, and the one before is refused', async ({
    connectLogs: connect,
  }) => {
    const [a, b] = [connect(), connect()];
    const source = { session: 'sess one', stream: 5 };
    const head = { ...headOf({ name: 'chat' }), by: 'aaaaaa', epoch: 1, source };
    await a.open(head, BOUNDS, LIVE_MS);
    const said = ['one', 'two', 'three'].map(recordOf);
    const first = { ...batchOf(head, [], said), epoch: 1 };
    expect(await a.append(first, BOUNDS, LIVE_MS)).toBe('done');
    expect(await b.find(head.id)).toMatchObject({ by: 'aaaaaa', epoch: 1, source });
    expect(await b.follow(head.id)).toMatchObject({ by: 'aaaaaa', epoch: 1, source });
    const news: ReplyNews[] = [];
    const stop = a.watch(head.id, (each) => news.push(each));
    const key = { id: head.id, owner: head.owner, epoch: 3 };
    const claimed = { outcome: 'done', parts: 3, offset: sizeOf(said) };
    expect(await b.claim(key, 'bbbbbb', LIVE_MS)).toEqual(claimed);
    // Its answer was lost.
    expect(await b.claim(key, 'bbbbbb', LIVE_MS)).toEqual(claimed);
    expect(await b.find(head.id)).toMatchObject({ by: 'bbbbbb', epoch: 3, source, parts: 3 });
    // Of a writer that stood still, whatever it says; and of one that comes late.
    expect(await a.append(first, BOUNDS, LIVE_MS)).toBe('ended');
    const late = { ...batchOf(head, said, [recordOf('zombie')]), epoch: 1 };
    expect(await a.append(late, BOUNDS, LIVE_MS)).toBe('ended');
    expect(await a.keep({ ...key, epoch: 1 }, LIVE_MS)).toEqual({ outcome: 'ended' });
    expect(await a.end({ ...endOf(head, 3), epoch: 1 }, BOUNDS)).toBe('ended');
    expect(await a.claim({ ...key, epoch: 2 }, 'cccccc', LIVE_MS)).toEqual({ outcome: 'ended' });
    expect(await a.claim(key, 'cccccc', LIVE_MS)).toEqual({ outcome: 'ended' });
    const more = { ...batchOf(head, said, [recordOf('four')]), epoch: 3 };
    expect(await b.append(more, BOUNDS, LIVE_MS)).toBe('done');
    await expect.poll(() => news).toContainEqual({ from: 3, records: more.records });
    stop();
    expect(await b.keep(key, LIVE_MS)).toMatchObject({ outcome: 'done' });
    expect(await b.end({ ...endOf(head, 4, 'bbbbbb'), epoch: 3 }, BOUNDS)).toBe('done');
    expect(await readAll(a, head.id)).toEqual([...said, ...more.records]);
    expect(await a.named(head.owner, 'chat')).toMatchObject({ id: head.id, end: { failure: undefined } });
    expect(await a.claim({ ...key, epoch: 4 }, 'aaaaaa', LIVE_MS)).toEqual({ outcome: 'over' });
    expect(await a.claim({ ...key, id: headOf().id }, 'aaaaaa', LIVE_MS)).toEqual({ outcome: 'gone' });
  });

  test('that were ended for a writer that seemed to be gone go on, and no others', async ({
    connectLogs: connect,
  }) => {
    const engine = connect();
    for (const [why, outcome] of [
      ['orphaned', 'done'],
      ['given_up', 'given_up'],
      [undefined, 'over'],
    ] as const) {
      const head = headOf();
      await engine.open(head, BOUNDS, LIVE_MS);
      await engine.append(batchOf(head, [], [recordOf('a')]), BOUNDS, LIVE_MS);
      const failure = Uint8Array.of(1);
      expect(await engine.end({ ...endOf(head, undefined, 'cccccc', failure), why }, BOUNDS)).toBe('done');
      const claimed = await engine.claim({ ...head, epoch: 1 }, 'bbbbbb', LIVE_MS);
      expect(claimed).toMatchObject({ outcome });
      const end = (await engine.read(head.id, 1))?.end;
      expect(end?.failure).toEqual(outcome === 'done' ? undefined : failure);
      // An end that comes late is that of a writer before.
      if (outcome === 'done') expect(await engine.end(endOf(head, undefined), BOUNDS)).toBe('ended');
    }
  });

  test('are read in pieces that are neither endless nor too small', async ({ connectLogs: connect }) => {
    const replies = connect();
    const head = headOf();
    await replies.open(head, BOUNDS, LIVE_MS);
    const records = [
      ...Array.from({ length: 700 }, (_, i) => recordOf(`${i}`)),
      ...Array.from({ length: 30 }, (_, i) => recordOf(`${i}`.repeat(2_000))),
      recordOf('x'.repeat(100_000)),
      recordOf(''),
    ];
    for (let i = 0; i < records.length; i += 50)
      await replies.append(batchOf(head, records.slice(0, i), records.slice(i, i + 50)), BOUNDS, LIVE_MS);
    const isSame = (a: readonly Uint8Array[], b: readonly Uint8Array[]) =>
      a.length === b.length && a.every((each, i) => Buffer.compare(each, b[i] as Uint8Array) === 0);
    for (let after = 0; after < records.length; after += after < 690 ? 7 : 1) {
      const { records: read = [] } = (await replies.read(head.id, after)) ?? {};
      expect(isSame(read, records.slice(after, after + read.length))).toBe(true);
      expect(read.length).toBeGreaterThan(0);
      expect(read.length).toBeLessThanOrEqual(256);
      expect(sizeOf(read.slice(0, -1))).toBeLessThan(32 * 1024);
      if (after < 400) expect(read.length).toBe(256);
    }
  });

  test('tell what metadata there was before a part', async ({ connectLogs: connect }) => {
    const replies = connect();
    const head = headOf();
    await replies.open(head, BOUNDS, LIVE_MS);
    const records = [recordOf('a'), recordOf('b'), recordOf('c')];
    const metadata = [
      [1, Uint8Array.from([0xff, 0x3a, 0])],
      [3, text('two')],
    ] as const;
    await replies.append(batchOf(head, [], records, metadata), BOUNDS, LIVE_MS);
    const at = async (after: number) => (await replies.read(head.id, after))?.metadata;
    expect(await at(0)).toBeUndefined();
    expect(await at(1)).toEqual(metadata[0][1]);
    expect(await at(2)).toEqual(metadata[0][1]);
    expect(await at(3)).toEqual(text('two'));
  });

  test('take each call twice, and none out of order', async ({ connectLogs: connect }) => {
    const [a, b] = [connect(), connect()];
    const head = headOf();
    const [first, second, third] = [[recordOf('1'), recordOf('2')], [recordOf('3')], [recordOf('4')]];
    expect(await a.append(batchOf(head, [], first), BOUNDS, LIVE_MS)).toBe('gone');
    expect(await a.end(endOf(head, 0), BOUNDS)).toBe('gone');
    expect(await a.keep(head, LIVE_MS)).toEqual({ outcome: 'gone' });
    for (let twice = 0; twice < 2; twice++) expect(await a.open(head, BOUNDS, LIVE_MS)).toBe('done');
    expect(await a.append(batchOf(head, first, second), BOUNDS, LIVE_MS)).toBe('behind');
    for (let twice = 0; twice < 2; twice++)
      expect(await a.append(batchOf(head, [], first), BOUNDS, LIVE_MS)).toBe('done');
    expect(await a.append(batchOf(head, [...first, ...second], third), BOUNDS, LIVE_MS)).toBe('behind');
    for (let twice = 0; twice < 2; twice++)
      expect(await a.append(batchOf(head, first, second), BOUNDS, LIVE_MS)).toBe('done');
    expect(await a.append(batchOf(head, [], first), BOUNDS, LIVE_MS)).toBe('behind');
    expect(await a.end(endOf(head, 2), BOUNDS)).toBe('behind');
    for (let twice = 0; twice < 2; twice++) expect(await a.end(endOf(head, 3), BOUNDS)).toBe('done');
    expect(await a.append(batchOf(head, [...first, ...second], third), BOUNDS, LIVE_MS)).toBe('ended');
    expect(await a.keep(head, LIVE_MS)).toEqual({ outcome: 'ended' });
    expect(await b.end(endOf(head, undefined, 'bbbbbb', text('late')), BOUNDS)).toBe('ended');
    expect((await b.read(head.id, 3))?.end?.failure).toBeUndefined();
    expect(await readAll(b, head.id)).toEqual([...first, ...second]);
  });

  test('are ended by one node if several try, and a writer learns of it', async ({
    connectLogs: connect,
  }) => {
    const nodes = [connect(), connect(), connect()];
    const [a] = nodes as [ReplyLogs];
    const head = headOf();
    await a.open(head, BOUNDS, LIVE_MS);
    await a.append(batchOf(head, [], [recordOf('1')]), BOUNDS, LIVE_MS);
    const outcomes = await Promise.all([
      a.append(batchOf(head, [recordOf('1')], [recordOf('2')]), BOUNDS, LIVE_MS),
      ...nodes.slice(1).map((node, i) => node.end(endOf(head, undefined, `node ${i}`, text('gone')), BOUNDS)),
    ]);
    expect(outcomes.slice(1).toSorted()).toEqual(['done', 'ended']);
    const kept = await readAll(a, head.id);
    expect(kept).toHaveLength(outcomes[0] === 'done' ? 2 : 1);
    expect(await a.end(endOf(head, kept.length), BOUNDS)).toBe('ended');
  });

  test('are stopped by another node, which their writer is told, also by each of its calls', async ({
    connectLogs: connect,
  }) => {
    const [a, b] = [connect(), connect()];
    const told: (string | undefined)[] = [];
    const stop = a.listen('aaaaaa', (id) => told.push(id));
    await expect.poll(() => told).toEqual([undefined]);
    const [head, own] = [
      { ...headOf(), by: 'aaaaaa' },
      { ...headOf(), by: 'aaaaaa' },
    ];
    const records = [recordOf('1')];
    for (const each of [head, own]) {
      await a.open(each, BOUNDS, LIVE_MS);
      await a.append(batchOf(each, [], records), BOUNDS, LIVE_MS);
    }
    expect(await a.end(endOf(own, 1), BOUNDS)).toBe('done');
    const stopped = { ...endOf(head, undefined, 'bbbbbb', text('no')), why: 'stopped' as const };
    for (let twice = 0; twice < 2; twice++) expect(await b.end(stopped, BOUNDS)).toBe('done');
    await expect.poll(() => told).toEqual([undefined, head.id]);
    expect(await a.append(batchOf(head, records, [recordOf('2')]), BOUNDS, LIVE_MS)).toBe('stopped');
    expect(await a.keep(head, LIVE_MS)).toEqual({ outcome: 'stopped' });
    expect(await a.end(endOf(head, 1), BOUNDS)).toBe('stopped');
    // Nobody goes on with it.
    expect(await b.claim({ ...head, epoch: 1 }, 'bbbbbb', LIVE_MS)).toEqual({ outcome: 'over' });
    expect(await b.read(head.id, 0)).toMatchObject({ records, end: { failure: text('no') } });
    stop();
  });

  test('are forgotten when their time is over, with their names and what they were charged', async ({
    connectLogs: connect,
  }) => {
    const replies = connect();
    const bounds = { ...BOUNDS, maxReplies: 2 };
    const [old, unkept, other] = [headOf({ name: 'n', ttlMs: 300 }), headOf(), headOf({ name: 'n' })];
    await replies.open(old, bounds, LIVE_MS);
    await replies.open(unkept, bounds, 300);
    await replies.append(batchOf(old, [], [recordOf('1')]), bounds, LIVE_MS);
    expect(await replies.open(other, bounds, LIVE_MS)).toBe('too_many_replies');
    expect(await replies.end(endOf(old, 1), bounds)).toBe('done');
    await expect.poll(() => replies.find(unkept.id)).toBeUndefined();
    await expect.poll(() => replies.find(old.id)).toBeUndefined();
    expect(await replies.named(old.owner, 'n')).toBeUndefined();
    expect((await replies.list(old.owner)).entries).toEqual([]);
    expect(await replies.open(other, { ...bounds, maxOwnerBytes: headCharge(other) }, LIVE_MS)).toBe('done');
    expect(await replies.named(old.owner, 'n')).toMatchObject({ id: other.id });
    await replies.drop(other);
    expect(await replies.find(other.id)).toBeUndefined();
    expect(await replies.named(old.owner, 'n')).toBeUndefined();
    const again = headOf();
    expect(await replies.open(again, { ...bounds, maxOwnerBytes: headCharge(again) }, LIVE_MS)).toBe('done');
  });

  test('are kept for as long as their writer says so', async ({ connectLogs: connect }) => {
    const replies = connect();
    const head = headOf();
    await replies.open(head, BOUNDS, 400);
    await replies.append(batchOf(head, [], [recordOf('1')]), BOUNDS, 400);
    expect(await replies.keep(head, LIVE_MS)).toEqual({ outcome: 'done', followedMs: Infinity });
    const until = Date.now() + 700;
    await expect.poll(() => Date.now(), { timeout: 30_000 }).toBeGreaterThan(until);
    expect(await replies.read(head.id, 0)).toMatchObject({ records: [recordOf('1')] });
    expect(await replies.follow(head.id)).toMatchObject({ parts: 1, hasEnded: false });
    const kept = await replies.keep(head, LIVE_MS);
    expect(kept).toMatchObject({ outcome: 'done', followedMs: expect.any(Number) });
    expect(kept.outcome === 'done' && kept.followedMs).toBeLessThan(LIVE_MS);
    await replies.end(endOf(head, 1), BOUNDS);
    expect(await replies.follow(head.id)).toMatchObject({ parts: 1, hasEnded: true });
  });

  test('have bounds that are exact, of a reply and of its owner', async ({ connectLogs: connect }) => {
    const replies = connect();
    const [one, two] = [headOf(), headOf()];
    const batch = batchOf(one, [], [recordOf('12345'), recordOf('')], [[1, text('m')]]);
    const full = headCharge(one) + batchCharge(batch);
    await replies.open(one, { ...BOUNDS, maxOwnerBytes: headCharge(one) }, LIVE_MS);
    expect(await replies.append(batch, { ...BOUNDS, maxReplyBytes: full - 1 }, LIVE_MS)).toBe(
      'reply_too_large',
    );
    expect(await replies.append(batch, { ...BOUNDS, maxOwnerBytes: full - 1 }, LIVE_MS)).toBe('over_budget');
    expect(await readAll(replies, one.id)).toEqual([]);
    const exact = { ...BOUNDS, maxReplyBytes: full, maxOwnerBytes: full };
    expect(await replies.append(batch, exact, LIVE_MS)).toBe('done');
    expect(await replies.open(two, exact, LIVE_MS)).toBe('over_budget');
    const owned = { ...BOUNDS, maxOwnerBytes: full + headCharge(two) };
    expect(await replies.open(two, owned, LIVE_MS)).toBe('done');
    // A small end has room, a large one has to fit.
    const large = { ...endOf(one, 2), end: { at: 1, failure: new Uint8Array(513), metadata: undefined } };
    expect(await replies.end(large, exact)).toBe('reply_too_large');
    const small = { ...large, end: { at: 1, failure: new Uint8Array(512), metadata: undefined } };
    expect(await replies.end(small, exact)).toBe('done');
    // Other owners have their own.
    expect(await replies.open(headOf({ owner: 'principal:bob' }), exact, LIVE_MS)).toBe('done');
  });

  test('are listed newest first, page by page, and those that are shared besides', async ({
    connectLogs: connect,
  }) => {
    const replies = connect();
    const heads = Array.from({ length: 230 }, (_, i) =>
      headOf(i % 50 === 0 ? { share: '1', startedAt: 1_000 + i } : {}),
    );
    for (const head of heads) await replies.open(head, BOUNDS, LIVE_MS);
    await replies.open(headOf({ owner: 'principal:bob' }), BOUNDS, LIVE_MS);
    const listed: string[] = [];
    let before: number | undefined;
    do {
      const page = await replies.list('principal:ada', before);
      listed.push(...page.entries.map(({ id }) => id));
      ({ before } = page);
    } while (before !== undefined);
    expect(listed).toEqual(heads.map(({ id }) => id).toReversed());
    const shared = heads.filter(({ share }) => share !== undefined).map(({ id }) => id);
    expect(await replies.shared()).toEqual(shared.toReversed());
  });

  test('are kept apart, with any owners and names', async ({ connectLogs: connect }) => {
    const replies = connect();
    const odd = ['a', 'a:b', 'a}:r:x', '{a}', 'a%', 'a%003a', '', ':', 'ä', '\u{1f600}', 'a\nb', '=a'];
    const heads = odd.flatMap((owner) => odd.map((name) => headOf({ owner, name: name || 'n' })));
    for (const head of heads) expect(await replies.open(head, BOUNDS, LIVE_MS)).toBe('done');
    for (const head of heads) {
      const newest = heads.findLast(({ owner, name }) => owner === head.owner && name === head.name);
      const name = head.name ?? '';
      expect(await replies.named(head.owner, name)).toMatchObject({
        id: newest?.id,
        owner: head.owner,
        name,
      });
      expect(await replies.find(head.id)).toMatchObject(head);
    }
  });

  test('prove by a token whom a session acts for', async ({ connectLogs: connect }) => {
    const [a, b] = [connect(), connect()];
    await a.vouch('sess_1', 'session:x', ['h1', 'h2'], LIVE_MS);
    expect(await b.prove('sess_1', 'h1')).toBe('session:x');
    expect(await b.prove('sess_1', 'h2')).toBe('session:x');
    expect(await b.prove('sess_1', 'h3')).toBeUndefined();
    expect(await b.prove('sess_2', 'h1')).toBeUndefined();
    await a.vouch('sess_1', 'session:y', ['h3'], 300);
    expect(await b.prove('sess_1', 'h1')).toBeUndefined();
    await expect.poll(() => b.prove('sess_1', 'h3')).toBeUndefined();
  });

  test('tell their watchers of every part, in order', async ({ connectLogs: connect }) => {
    const [a, b] = [connect(), connect()];
    const head = headOf();
    await a.open(head, BOUNDS, LIVE_MS);
    const news: ReplyNews[] = [];
    let unknown = 0;
    const stop = b.watch(head.id, (each) => {
      if (each === UNKNOWN) unknown++;
      else news.push(each);
    });
    await expect.poll(() => unknown).toBeGreaterThan(0);
    // It may say so more than once.
    await new Promise((resolve) => void setTimeout(resolve, 100));
    const before = unknown;
    const records = Array.from({ length: 20 }, (_, i) => Uint8Array.from([0, i, 0xff, 0x80]));
    for (const [i, record] of records.entries())
      await a.append(batchOf(head, records.slice(0, i), [record]), BOUNDS, LIVE_MS);
    // A second call for the same parts is not told.
    await a.append(batchOf(head, records.slice(0, 19), records.slice(19)), BOUNDS, LIVE_MS);
    await a.end(endOf(head, 20), BOUNDS);
    const told = records.map((record, from) => ({ from, records: [record] }));
    await expect.poll(() => unknown).toBe(before + 1);
    // An engine may tell several at once.
    const each = news.flatMap((some) =>
      some === UNKNOWN ? [] : some.records.map((record, i) => ({ from: some.from + i, records: [record] })),
    );
    expect(each).toEqual(told);
    const heard = news.length;
    stop();
    const other = headOf();
    await a.open(other, BOUNDS, LIVE_MS);
    await a.drop(other);
    expect([news.length, unknown]).toEqual([heard, before + 1]);
  });

  test('hold what was added once, in order, with calls that are lost and repeated, from any part on', async ({
    connectLogs: connect,
  }) => {
    const [a, b] = [connect(), connect()];
    const part = fc.uint8Array({ maxLength: 40 });
    const step = fc.record({
      records: fc.array(part, { minLength: 1, maxLength: 70 }),
      repeats: fc.integer({ min: 1, max: 3 }),
      isLost: fc.boolean(),
      readFrom: fc.nat(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 12 }), fc.boolean(), async (steps, isEnded) => {
        const head = headOf();
        await a.open(head, BOUNDS, LIVE_MS);
        const all: Uint8Array[] = [];
        for (const { records: bodies, repeats, isLost, readFrom } of steps) {
          const records = bodies.map((body) => Uint8Array.from([0, ...body]));
          const batch = batchOf(head, all, records);
          // A batch that never came lets nothing after it in.
          if (isLost)
            expect(await a.append(batchOf(head, [...all, ...records], records), BOUNDS, LIVE_MS)).toBe(
              'behind',
            );
          const outcomes = await Promise.all(
            Array.from({ length: repeats }, () => a.append(batch, BOUNDS, LIVE_MS)),
          );
          expect(new Set(outcomes)).toEqual(new Set(['done']));
          all.push(...records);
          const after = readFrom % (all.length + 1);
          expect(await readAll(b, head.id, after)).toEqual(all.slice(after));
        }
        if (isEnded) expect(await a.end(endOf(head, all.length), BOUNDS)).toBe('done');
        expect(await readAll(b, head.id)).toEqual(all);
        await a.drop(head);
      }),
      { numRuns: 25 },
    );
  });
});

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'kept replies in Redis', () => {
  it('take little room once they have ended, and leave nothing behind', async () => {
    await using server = await startRedis();
    const replies = repliesOf(redis({ url: server.url }));
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
    const replies = repliesOf(redis({ url: server.url }));
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
    const guide = await readFile(new URL('../../../../../docs/CLUSTER.md', import.meta.url), 'utf8');
    const [section = ''] = /A user with `~parlance[\s\S]*?With `redis\(\{ client/.exec(guide) ?? [];
    const commands = [...section.matchAll(/`([A-Z]+)`/g)].map(([, name = '']) => `+${name}`);
    const rights = ['on', '>password', '~parlance:*', '&parlance:*', ...commands];
    await server.client.call('ACL', 'SETUSER', 'app', ...rights);
    const url = server.url.replace('//', '//app:password@');
    const replies = repliesOf(redis({ url }));
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
