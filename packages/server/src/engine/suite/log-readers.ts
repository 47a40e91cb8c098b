import { UNKNOWN } from '../logs/logs.js';
import { READ_PARTS } from '../logs/reply.js';
import { like, ok, same } from './asserts.js';
import { BOUNDS, batchOf, endOf, headOf, LIVE_MS, readAll, recordOf, sizeOf, text } from './log-values.js';
import { type Tests, watching } from './world.js';

export const logReaderTests: Tests = {
  async 'a reply is read as it was written, from every part on, at every node'({ connectLogs: connect }) {
    const [a, b] = [connect(), connect()];
    const head = headOf({ name: 'chat', share: '{"with":"bob"}', encoding: 'CL100K_BASE' });
    same(await b.find(head.id), undefined);
    same(await b.read(head.id, 0), undefined);
    same(await b.follow(head.id), undefined);
    same(await a.open(head, BOUNDS, LIVE_MS), 'done');
    same(await b.read(head.id, 0), { records: [], metadata: undefined, end: undefined });
    const records: Uint8Array[] = [];
    for (let i = 0; i < 40; i++) {
      const more = Array.from({ length: i % 13 }, (_, n) => recordOf(`${i}.${n} Gr\u00fc\u00dfe \u{1f600}`));
      if (more.length === 0) continue;
      same(await a.append(batchOf(head, records, more), BOUNDS, LIVE_MS), 'done');
      records.push(...more);
    }
    like(await b.find(head.id), { ...head, parts: records.length, end: undefined });
    const failure = Uint8Array.from({ length: 256 }, (_, i) => i);
    same(await a.end(endOf(head, records.length, 'aaaaaa', failure), BOUNDS), 'done');
    for (let after = 0; after <= records.length; after += 7)
      same(await readAll(b, head.id, after), records.slice(after));
    const end = { at: 1_700_000_000_000, failure, metadata: undefined };
    same(await b.read(head.id, records.length + 9), { records: [], metadata: undefined, end });
    const named = await b.named(head.owner, 'chat');
    same([named?.id, named?.end?.at], [head.id, end.at]);
  },

  async 'pieces that are read are neither endless nor too small'({ connectLogs: connect }) {
    const logs = connect();
    const head = headOf();
    await logs.open(head, BOUNDS, LIVE_MS);
    const records = [
      ...Array.from({ length: 700 }, (_, i) => recordOf(`${i}`)),
      ...Array.from({ length: 30 }, (_, i) => recordOf(`${i}`.repeat(2_000))),
      recordOf('x'.repeat(100_000)),
      recordOf(''),
    ];
    for (let i = 0; i < records.length; i += 50)
      await logs.append(batchOf(head, records.slice(0, i), records.slice(i, i + 50)), BOUNDS, LIVE_MS);
    for (let after = 0; after < records.length; after += after < 690 ? 7 : 1) {
      const { records: read = [] } = (await logs.read(head.id, after)) ?? {};
      const isSame = read.every((each, i) => Buffer.compare(each, records[after + i] as Uint8Array) === 0);
      ok(isSame, `what is read after part ${after} is not what was written`);
      ok(read.length > 0 && read.length <= READ_PARTS, `${read.length} parts were read after part ${after}`);
      ok(sizeOf(read.slice(0, -1)) < 32 * 1024);
      if (after < 400) same(read.length, READ_PARTS);
    }
  },

  async 'the metadata before a part is told'({ connectLogs: connect }) {
    const logs = connect();
    const head = headOf();
    await logs.open(head, BOUNDS, LIVE_MS);
    const records = [recordOf('a'), recordOf('b'), recordOf('c')];
    const metadata = [
      [1, Uint8Array.from([0xff, 0x3a, 0])],
      [3, text('two')],
    ] as const;
    await logs.append(batchOf(head, [], records, metadata), BOUNDS, LIVE_MS);
    const at = async (after: number) => (await logs.read(head.id, after))?.metadata;
    same(await at(0), undefined);
    same(await at(1), metadata[0][1]);
    same(await at(2), metadata[0][1]);
    same(await at(3), text('two'));
    const end = { at: 1, failure: undefined, metadata: text('last') };
    same(await logs.end({ ...endOf(head, 3), end }, BOUNDS), 'done');
    same((await logs.read(head.id, 3))?.end, end);
  },

  async 'watchers are told of every part, in order'({ connectLogs: connect, eventually }) {
    const [a, b] = [connect(), connect()];
    const head = headOf();
    await a.open(head, BOUNDS, LIVE_MS);
    const { news, stop } = await watching(b, head.id, eventually);
    const unknown = () => news.filter((each) => each === UNKNOWN).length;
    const records = Array.from({ length: 20 }, (_, i) => Uint8Array.from([0, i, 0xff, 0x80]));
    for (const [i, record] of records.entries())
      await a.append(batchOf(head, records.slice(0, i), [record]), BOUNDS, LIVE_MS);
    // A second call for the same parts is not told.
    await a.append(batchOf(head, records.slice(0, 19), records.slice(19)), BOUNDS, LIVE_MS);
    await a.end(endOf(head, 20), BOUNDS);
    await eventually(unknown, (times) => same(times, 1));
    // An engine may tell several at once.
    const heard = news.flatMap((each) =>
      each === UNKNOWN ? [] : each.records.map((record, i) => ({ from: each.from + i, record })),
    );
    same(
      heard,
      records.map((record, from) => ({ from, record })),
    );
    const times = news.length;
    stop();
    const other = headOf();
    await a.open(other, BOUNDS, LIVE_MS);
    await a.drop(other);
    same(news.length, times);
  },

  async 'watchers are told that a reply is dropped'({ connectLogs: connect, eventually }) {
    const [a, b] = [connect(), connect()];
    const head = headOf();
    await a.open(head, BOUNDS, LIVE_MS);
    const { news, stop } = await watching(b, head.id, eventually);
    await a.drop(head);
    await eventually(
      () => news.length,
      (times) => ok(times > 0, 'a watcher is not told of a drop'),
    );
    same(await b.find(head.id), undefined);
    stop();
  },

  async 'all of an owner are listed newest first, page by page, and those that are shared besides'({
    connectLogs: connect,
  }) {
    const logs = connect();
    const heads = Array.from({ length: 230 }, (_, i) =>
      headOf(i % 50 === 0 ? { share: '1', startedAt: 1_000 + i } : {}),
    );
    for (const head of heads) await logs.open(head, BOUNDS, LIVE_MS);
    await logs.open(headOf({ owner: 'principal:bob' }), BOUNDS, LIVE_MS);
    const listed: string[] = [];
    let before: number | undefined;
    let pages = 0;
    do {
      const page = await logs.list('principal:ada', before);
      listed.push(...page.entries.map(({ id }) => id));
      ({ before } = page);
      // The page after the last one may be empty.
    } while (before !== undefined && ++pages < 9);
    same(before, undefined);
    same(listed, heads.map(({ id }) => id).toReversed());
    const shared = heads.filter(({ share }) => share !== undefined).map(({ id }) => id);
    same(await logs.shared(), shared.toReversed());
  },

  async 'any owners and names are kept apart'({ connectLogs: connect }) {
    const logs = connect();
    const odd = ['a', 'a:b', 'a}:r:x', '{a}', 'a%', 'a%003a', '', ':', '\u00e4', '\u{1f600}', 'a\nb', '=a'];
    const heads = odd.flatMap((owner) => odd.map((name) => headOf({ owner, name: name || 'n' })));
    for (const head of heads) same(await logs.open(head, BOUNDS, LIVE_MS), 'done');
    for (const head of heads) {
      const { owner, name = '' } = head;
      const newest = heads.findLast((each) => each.owner === owner && each.name === name);
      like(await logs.named(owner, name), { id: newest?.id, owner, name });
      like(await logs.find(head.id), head);
    }
  },

  async 'a token proves whom a session acts for'({ connectLogs: connect, eventually }) {
    const [a, b] = [connect(), connect()];
    await a.vouch('sess_1', 'session:x', ['h1', 'h2'], LIVE_MS);
    same(await b.prove('sess_1', 'h1'), 'session:x');
    same(await b.prove('sess_1', 'h2'), 'session:x');
    same(await b.prove('sess_1', 'h3'), undefined);
    same(await b.prove('sess_2', 'h1'), undefined);
    await a.vouch('sess_1', 'session:y', ['h3'], 300);
    same(await b.prove('sess_1', 'h1'), undefined);
    await eventually(
      () => b.prove('sess_1', 'h3'),
      (owner) => same(owner, undefined),
    );
  },
};
