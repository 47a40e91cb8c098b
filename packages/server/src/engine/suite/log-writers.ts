import { like, meanwhile, ok, same } from './asserts.js';
import { BOUNDS, batchOf, endOf, headOf, LIVE_MS, readAll, recordOf, sizeOf, text } from './log-values.js';
import { type Tests, watching } from './world.js';

export const logWriterTests: Tests = {
  async 'another writer continues after the recorded parts, and the one before is refused'({
    connectLogs: connect,
    eventually,
  }) {
    const [a, b] = [connect(), connect()];
    const source = { session: 'sess one', stream: 5 };
    const head = { ...headOf({ name: 'chat' }), by: 'aaaaaa', epoch: 1, source };
    await a.open(head, BOUNDS, LIVE_MS);
    const said = ['one', 'two', 'three'].map(recordOf);
    const first = { ...batchOf(head, [], said), epoch: 1 };
    same(await a.append(first, BOUNDS, LIVE_MS), 'done');
    like(await b.find(head.id), { by: 'aaaaaa', epoch: 1, source });
    like(await b.follow(head.id), { by: 'aaaaaa', epoch: 1, source });
    const { news, stop } = await watching(a, head.id, eventually);
    const key = { id: head.id, owner: head.owner, epoch: 3 };
    const claimed = { outcome: 'done', parts: 3, offset: sizeOf(said) };
    same(await b.claim(key, 'bbbbbb', LIVE_MS), claimed);
    // Its answer was lost.
    same(await b.claim(key, 'bbbbbb', LIVE_MS), claimed);
    like(await b.find(head.id), { by: 'bbbbbb', epoch: 3, source, parts: 3 });
    // Of a writer that stood still, by each call; and of one that comes late.
    same(await a.append(first, BOUNDS, LIVE_MS), 'ended');
    const late = { ...batchOf(head, said, [recordOf('zombie')]), epoch: 1 };
    same(await a.append(late, BOUNDS, LIVE_MS), 'ended');
    same(await a.keep({ ...key, epoch: 1 }, LIVE_MS), { outcome: 'ended' });
    same(await a.end({ ...endOf(head, 3), epoch: 1 }, BOUNDS), 'ended');
    same(await a.claim({ ...key, epoch: 2 }, 'cccccc', LIVE_MS), { outcome: 'ended' });
    same(await a.claim(key, 'cccccc', LIVE_MS), { outcome: 'ended' });
    const more = { ...batchOf(head, said, [recordOf('four')]), epoch: 3 };
    same(await b.append(more, BOUNDS, LIVE_MS), 'done');
    await eventually(
      () => news.filter((each) => each !== 'unknown'),
      (parts) => same(parts.at(-1), { from: 3, records: more.records }),
    );
    stop();
    like(await b.keep(key, LIVE_MS), { outcome: 'done' });
    same(await b.end({ ...endOf(head, 4, 'bbbbbb'), epoch: 3 }, BOUNDS), 'done');
    same(await readAll(a, head.id), [...said, ...more.records]);
    const named = await a.named(head.owner, 'chat');
    same([named?.id, named?.end?.failure], [head.id, undefined]);
    same(await a.claim({ ...key, epoch: 4 }, 'aaaaaa', LIVE_MS), { outcome: 'over' });
    same(await a.claim({ ...key, id: headOf().id }, 'aaaaaa', LIVE_MS), { outcome: 'gone' });
  },

  async 'a reply that was ended for a writer that seemed to be gone continues, and no other'({
    connectLogs: connect,
  }) {
    const logs = connect();
    for (const [why, outcome] of [
      ['orphaned', 'done'],
      ['given_up', 'given_up'],
      [undefined, 'over'],
    ] as const) {
      const head = headOf();
      await logs.open(head, BOUNDS, LIVE_MS);
      await logs.append(batchOf(head, [], [recordOf('a')]), BOUNDS, LIVE_MS);
      const failure = Uint8Array.of(1);
      same(await logs.end({ ...endOf(head, undefined, 'cccccc', failure), why }, BOUNDS), 'done');
      like(await logs.claim({ ...head, epoch: 1 }, 'bbbbbb', LIVE_MS), { outcome });
      const end = (await logs.read(head.id, 1))?.end;
      same(end?.failure, outcome === 'done' ? undefined : failure);
      // An end that comes late is that of a writer before.
      if (outcome === 'done') same(await logs.end(endOf(head, undefined), BOUNDS), 'ended');
    }
  },

  async 'one of several nodes claims a reply in one epoch'({ connectLogs: connect }) {
    const nodes = [connect(), connect(), connect()];
    const head = headOf();
    await nodes[0]?.open(head, BOUNDS, LIVE_MS);
    const key = { id: head.id, owner: head.owner, epoch: 1 };
    const claims = await Promise.all(nodes.map((node, i) => node.claim(key, `node ${i}`, LIVE_MS)));
    same(claims.map(({ outcome }) => outcome).toSorted(), ['done', 'ended', 'ended']);
    const winner = claims.findIndex(({ outcome }) => outcome === 'done');
    like(await nodes[0]?.find(head.id), { by: `node ${winner}`, epoch: 1 });
  },

  async 'each call is taken twice, and none out of order'({ connectLogs: connect }) {
    const [a, b] = [connect(), connect()];
    const head = headOf();
    const [first, second, third] = [[recordOf('1'), recordOf('2')], [recordOf('3')], [recordOf('4')]];
    same(await a.append(batchOf(head, [], first), BOUNDS, LIVE_MS), 'gone');
    same(await a.end(endOf(head, 0), BOUNDS), 'gone');
    same(await a.keep(head, LIVE_MS), { outcome: 'gone' });
    for (let twice = 0; twice < 2; twice++) same(await a.open(head, BOUNDS, LIVE_MS), 'done');
    same(await a.append(batchOf(head, first, second), BOUNDS, LIVE_MS), 'behind');
    for (let twice = 0; twice < 2; twice++)
      same(await a.append(batchOf(head, [], first), BOUNDS, LIVE_MS), 'done');
    same(await a.append(batchOf(head, [...first, ...second], third), BOUNDS, LIVE_MS), 'behind');
    for (let twice = 0; twice < 2; twice++)
      same(await a.append(batchOf(head, first, second), BOUNDS, LIVE_MS), 'done');
    same(await a.append(batchOf(head, [], first), BOUNDS, LIVE_MS), 'behind');
    same(await a.end(endOf(head, 2), BOUNDS), 'behind');
    for (let twice = 0; twice < 2; twice++) same(await a.end(endOf(head, 3), BOUNDS), 'done');
    same(await a.append(batchOf(head, [...first, ...second], third), BOUNDS, LIVE_MS), 'ended');
    same(await a.keep(head, LIVE_MS), { outcome: 'ended' });
    same(await b.end(endOf(head, undefined, 'bbbbbb', text('late')), BOUNDS), 'ended');
    same((await b.read(head.id, 3))?.end?.failure, undefined);
    same(await readAll(b, head.id), [...first, ...second]);
  },

  async 'one node ends a reply if several try, and its writer learns of it'({ connectLogs: connect }) {
    const nodes = [connect(), connect(), connect()] as const;
    const [a] = nodes;
    const head = headOf();
    await a.open(head, BOUNDS, LIVE_MS);
    await a.append(batchOf(head, [], [recordOf('1')]), BOUNDS, LIVE_MS);
    const outcomes = await Promise.all([
      a.append(batchOf(head, [recordOf('1')], [recordOf('2')]), BOUNDS, LIVE_MS),
      ...nodes.slice(1).map((node, i) => node.end(endOf(head, undefined, `node ${i}`, text('gone')), BOUNDS)),
    ]);
    same(outcomes.slice(1).toSorted(), ['done', 'ended']);
    const kept = await readAll(a, head.id);
    // A call that was not answered in time and is repeated after the end returns `ended`.
    ok(kept.length === 2 || outcomes[0] === 'ended', `${kept.length} parts after ${outcomes[0]}`);
    same(await a.end(endOf(head, kept.length), BOUNDS), 'ended');
  },

  async 'a writer is told that another node has stopped its reply, also by each of its calls'({
    connectLogs: connect,
    eventually,
  }) {
    const [a, b] = [connect(), connect()];
    const told: (string | undefined)[] = [];
    const stop = a.listen('aaaaaa', (id) => told.push(id));
    await eventually(
      () => told,
      ([first, ...rest]) => same([told.length > 0, first, rest], [true, undefined, []]),
    );
    const [head, own] = [
      { ...headOf(), by: 'aaaaaa' },
      { ...headOf(), by: 'aaaaaa' },
    ];
    const records = [recordOf('1')];
    for (const each of [head, own]) {
      await a.open(each, BOUNDS, LIVE_MS);
      await a.append(batchOf(each, [], records), BOUNDS, LIVE_MS);
    }
    same(await a.end(endOf(own, 1), BOUNDS), 'done');
    const stopped = { ...endOf(head, undefined, 'bbbbbb', text('no')), why: 'stopped' as const };
    for (let twice = 0; twice < 2; twice++) same(await b.end(stopped, BOUNDS), 'done');
    await eventually(
      () => told,
      () => same(told, [undefined, head.id]),
    );
    same(await a.append(batchOf(head, records, [recordOf('2')]), BOUNDS, LIVE_MS), 'stopped');
    same(await a.keep(head, LIVE_MS), { outcome: 'stopped' });
    same(await a.end(endOf(head, 1), BOUNDS), 'stopped');
    // No other node continues it.
    same(await b.claim({ ...head, epoch: 1 }, 'bbbbbb', LIVE_MS), { outcome: 'over' });
    const read = await b.read(head.id, 0);
    same([read?.records, read?.end?.failure], [records, text('no')]);
    stop();
  },

  async 'a reader sees no batch in its middle'({ connectLogs: connect }) {
    const [writer, reader] = [connect(), connect()];
    const head = headOf();
    await writer.open(head, BOUNDS, LIVE_MS);
    let isOver = false;
    const read = async () => {
      for (let reads = 0; !isOver || reads < 3; reads++) {
        const parts = (await reader.read(head.id, 0))?.records.length ?? 0;
        ok(parts % 5 === 0, `${parts} parts are recorded`);
      }
    };
    const write = async () => {
      const records: Uint8Array[] = [];
      for (let batch = 0; batch < 20; batch++) {
        const more = Array.from({ length: 5 }, (_, i) => recordOf(`${batch}.${i}`));
        same(await writer.append(batchOf(head, records, more), BOUNDS, LIVE_MS), 'done');
        records.push(...more);
      }
    };
    await meanwhile(read(), write, () => {
      isOver = true;
    });
  },

  async 'batches that are lost and repeated are recorded once and in order'({ connectLogs: connect }) {
    const [a, b] = [connect(), connect()];
    const random = numbers(1);
    for (let history = 0; history < 8; history++) {
      const head = headOf();
      await a.open(head, BOUNDS, LIVE_MS);
      const all: Uint8Array[] = [];
      for (let steps = random(8); steps > 0; steps--) {
        const records = Array.from({ length: 1 + random(70) }, () =>
          Uint8Array.from([0, ...Array.from({ length: random(40) }, () => random(256))]),
        );
        // A batch that never came lets nothing after it in.
        if (random(2) === 0)
          same(await a.append(batchOf(head, [...all, ...records], records), BOUNDS, LIVE_MS), 'behind');
        const batch = batchOf(head, all, records);
        const repeats = Array.from({ length: 1 + random(3) }, () => a.append(batch, BOUNDS, LIVE_MS));
        same([...new Set(await Promise.all(repeats))], ['done']);
        all.push(...records);
        const after = random(all.length + 1);
        same(await readAll(b, head.id, after), all.slice(after));
      }
      if (random(2) === 0) same(await a.end(endOf(head, all.length), BOUNDS), 'done');
      same(await readAll(b, head.id), all);
      await a.drop(head);
    }
  },
};

/** The same numbers for each seed, from 0 up to a bound. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}
