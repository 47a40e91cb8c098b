import { type EngineTable, MAX_CHANGES, type TableChange } from '../engine.js';
import { ok, same } from './asserts.js';
import type { Tests } from './world.js';

const entry = (holder: string, record = '{"a": "b c \u{1f600}"}') => ({ holder, record });

/** All changes from the first one on. */
async function changesOf(table: EngineTable, count: number): Promise<readonly TableChange[]> {
  const all: TableChange[] = [];
  while (all.length < count) {
    const more = (await table.changes(all.length)) ?? [];
    ok(more.length > 0, `change ${all.length + 1} of ${count} is not told`);
    all.push(...more);
  }
  return all;
}

export const tableTests: Tests = {
  async 'an entry is written for whom it is expected of, and for no other'({ connect }) {
    const table = connect().table('names');
    same(await table.put('k', entry('s1'), null), { isDone: true, position: 1 });
    same(await table.put('k', entry('s2'), null), { isDone: false, position: 1 });
    same(await table.put('k', entry('s2'), 's'), { isDone: false, position: 1 });
    same(await table.put('k', undefined, 's2'), { isDone: false, position: 1 });
    same((await table.read()).entries, new Map([['k', entry('s1')]]));
    same(await table.put('k', entry('s1', ''), 's1'), { isDone: true, position: 2 });
    same(await table.put('k', entry('s3')), { isDone: true, position: 3 });
    same(await table.put('k', undefined, 's3'), { isDone: true, position: 4 });
    same(await table.read(), { entries: new Map(), position: 4 });
  },

  async 'nothing changes if an entry is as it is to be'({ connect }) {
    const table = connect().table('names');
    for (let twice = 0; twice < 2; twice++) {
      same(await table.put('k', entry('s1'), null), { isDone: true, position: 1 });
      same(await table.put('k', entry('s1')), { isDone: true, position: 1 });
    }
    for (let twice = 0; twice < 2; twice++)
      same(await table.put('k', undefined, 's1'), { isDone: true, position: 2 });
    same(await table.read(), { entries: new Map(), position: 2 });
  },

  async 'every node is told of every change, in order'({ connect }) {
    const [a, b] = [connect().table('names'), connect().table('names')];
    same(await b.read(), { entries: new Map(), position: 0 });
    const waiting = b.changes(0);
    await a.put('k', entry('s1'));
    await a.put('l', entry('s2'));
    await b.put('k', undefined, 's1');
    same((await waiting)?.[0], { position: 1, key: 'k', entry: entry('s1') });
    same(await a.changes(0), [
      { position: 1, key: 'k', entry: entry('s1') },
      { position: 2, key: 'l', entry: entry('s2') },
      { position: 3, key: 'k', entry: undefined },
    ]);
    same(await a.changes(2), [{ position: 3, key: 'k', entry: undefined }]);
    same(await a.changes(3), []);
  },

  async 'changes of several nodes have one order, and the entries are what comes of it'({ connect }) {
    const nodes = [connect(), connect(), connect()].map((node) => node.table('names'));
    const write = async (node: number) => {
      for (let i = 0; i < 10; i++) await nodes[node]?.put(`k${i % 3}`, entry(`${node}`, String(i)));
    };
    await Promise.all(nodes.map((_, node) => write(node)));
    const [table] = nodes as [(typeof nodes)[number]];
    const { entries, position } = await table.read();
    const all = await changesOf(table, position);
    same(
      all.map((change) => change.position),
      all.map((_, i) => i + 1),
    );
    const after = new Map(all.map((change) => [change.key, change.entry]));
    same([...after].toSorted(), [...entries].toSorted());
    for (const node of nodes.keys()) {
      const own = all.filter((change) => change.entry?.holder === String(node));
      const written = own.map((change) => Number(change.entry?.record));
      same(
        written,
        written.toSorted((a, b) => a - b),
      );
    }
  },

  async 'changes come in pieces that are bounded'({ connect }) {
    const table = connect().table('names');
    const count = MAX_CHANGES + 1;
    for (let i = 0; i < count; i += 50) {
      const some = Array.from({ length: Math.min(50, count - i) }, (_, n) => `k${i + n}`);
      await Promise.all(some.map((key) => table.put(key, entry('s'), null)));
    }
    const first = (await table.changes(0)) ?? [];
    ok(first.length > 0 && first.length <= MAX_CHANGES, `${first.length} changes in one answer`);
    const all = await changesOf(table, count);
    same(
      all.map(({ position }) => position),
      all.map((_, i) => i + 1),
    );
  },

  async 'the changes after one that was never made are not known'({ connect }) {
    await connect().table('names').put('k', entry('s1'));
    same(await connect().table('names').changes(2), undefined);
  },

  async 'the key of all nodes is the first one that a node suggests'({ connect }) {
    const suggestions = ['one', 'two', 'three'];
    const keys = await Promise.all(
      suggestions.map((candidate) => connect().table('names').shareKey(candidate)),
    );
    same(new Set(keys).size, 1);
    ok(suggestions.includes(keys[0] as string));
    same(await connect().table('names').shareKey('four'), keys[0]);
  },

  async 'one of many nodes gets an entry that none has'({ connect }) {
    const tables = [connect(), connect(), connect(), connect()].map((node) => node.table('names'));
    const puts = await Promise.all(
      Array.from({ length: 20 }, (_, i) => tables[i % tables.length]?.put('k', entry(`s${i}`), null)),
    );
    same(puts.filter((put) => put?.isDone === true).length, 1);
    const [[, held] = []] = (await tables[0]?.read())?.entries ?? [];
    same(held, entry(`s${puts.findIndex((put) => put?.isDone === true)}`));
  },

  async 'tables are kept apart, and any keys'({ connect }) {
    const link = connect();
    const keys = ['a', 'a:b', '{a}', 'a%', ':', '\u00e4', '\u{1f600}', 'a b'];
    for (const key of keys) await link.table('one').put(key, entry(key.replaceAll(' ', '')), null);
    same((await link.table('two').read()).entries.size, 0);
    const { entries } = await link.table('one').read();
    same([...entries.keys()].toSorted(), keys.toSorted());
  },
};
