import { setTimeout as pause } from 'node:timers/promises';
import type { ListedNode, NodeList } from '../engine.js';
import { like, ok, same } from './asserts.js';
import type { Tests } from './world.js';

const LONG_MS = 60_000;

/** The nodes of a list that has to name them. */
export function namedIn({ nodes }: NodeList): readonly ListedNode[] {
  if (nodes === undefined) throw new Error('the nodes are not named');
  return nodes;
}

export const leaseTests: Tests = {
  async 'a node is listed to itself and to others, with its record as it was'({ connect }) {
    const [a, b] = [connect(), connect()];
    const record = '{"address":"ws://[::1]:1","proof":"a:b \u00e9\u{1f600}"}';
    const own = await a.renew('aaaaaa', record, LONG_MS);
    same(
      namedIn(own).map(({ incarnation }) => incarnation),
      ['aaaaaa'],
    );
    const nodes = namedIn(await b.renew('bbbbbb', '', LONG_MS));
    const records = new Map(nodes.map((node) => [node.incarnation, node.record]));
    same(records.get('aaaaaa'), record);
    same(records.get('bbbbbb'), '');
    same(records.size, 2);
    for (const { leaseMs } of nodes) ok(leaseMs > 0 && leaseMs <= LONG_MS, `${leaseMs} ms are left`);
  },

  async 'the time is told'({ connect }) {
    const { now } = await connect().renew('aaaaaa', '', LONG_MS);
    ok(Math.abs(now - Date.now()) < LONG_MS, `the engine says ${now}`);
  },

  async 'a renewal replaces the record'({ connect }) {
    const a = connect();
    await a.renew('aaaaaa', 'old', LONG_MS);
    const nodes = namedIn(await a.renew('aaaaaa', 'new', LONG_MS));
    same(
      nodes.map(({ record }) => record),
      ['new'],
    );
  },

  async 'one node is found, and none that was never announced'({ connect }) {
    const [a, b] = [connect(), connect()];
    await a.renew('aaaaaa', 'here', LONG_MS);
    like(await b.find('aaaaaa'), { incarnation: 'aaaaaa', record: 'here' });
    same(await b.find('bbbbbb'), undefined);
    same(await b.find(''), undefined);
  },

  async 'a node whose lease is over is forgotten, and so is one that withdraws'({ connect, eventually }) {
    const [a, b, reader] = [connect(), connect(), connect()];
    await a.renew('aaaaaa', '', 20);
    await eventually(
      () => reader.find('aaaaaa'),
      (found) => same(found, undefined),
    );
    const nodes = namedIn(await b.renew('bbbbbb', '', LONG_MS));
    same(
      nodes.map(({ incarnation }) => incarnation),
      ['bbbbbb'],
    );
    await b.withdraw('bbbbbb');
    same(await reader.find('bbbbbb'), undefined);
    await b.withdraw('bbbbbb');
    await a.renew('aaaaaa', 'back', LONG_MS);
    like(await reader.find('aaaaaa'), { record: 'back' });
  },

  async 'a lease lasts for as long as it is renewed'({ connect }) {
    const [a, b] = [connect(), connect()];
    await a.renew('aaaaaa', '', 200);
    await a.renew('aaaaaa', '', LONG_MS);
    await pause(300);
    ok(await b.find('aaaaaa'));
    same((await a.renew('aaaaaa', '', LONG_MS)).hasForgotten, false);
  },

  async 'all nodes are named again only if one has come, gone or changed'({ connect, eventually }) {
    const [a, b, c] = [connect(), connect(), connect()];
    let { version: known } = await a.renew('aaaaaa', '', LONG_MS);
    /** The list that `a` gets with its next renewal. */
    const heard = async () => {
      const list = await a.renew('aaaaaa', '', LONG_MS, known);
      same(list.nodes === undefined, list.version === known);
      known = list.version;
      return list.nodes?.map(({ incarnation, record }) => `${incarnation}${record}`).toSorted();
    };
    same(await heard(), undefined);
    await b.renew('bbbbbb', '', LONG_MS);
    same(await heard(), ['aaaaaa', 'bbbbbb']);
    await b.renew('bbbbbb', '', LONG_MS);
    same(await heard(), undefined);
    await b.renew('bbbbbb', '!', LONG_MS);
    same(await heard(), ['aaaaaa', 'bbbbbb!']);
    await b.renew('bbbbbb', '', LONG_MS);
    await b.renew('bbbbbb', '!', LONG_MS);
    same(await heard(), ['aaaaaa', 'bbbbbb!']);
    await b.withdraw('bbbbbb');
    same(await heard(), ['aaaaaa']);
    await b.withdraw('bbbbbb');
    same(await heard(), undefined);
    await c.renew('cccccc', '', 500);
    same(await heard(), ['aaaaaa', 'cccccc']);
    await eventually(heard, (names) => same(names, ['aaaaaa']));
    same(await heard(), undefined);
  },

  async 'a hundred nodes announce themselves at once'({ connect }) {
    const names = Array.from({ length: 100 }, (_, i) => `node${String(i).padStart(2, '0')}`);
    const links = [connect(), connect(), connect(), connect()];
    const inTurn = async (first: number) => {
      for (let i = first; i < names.length; i += links.length) {
        const name = names[i] as string;
        await links[first]?.renew(name, name, LONG_MS);
      }
    };
    await Promise.all(links.map((_, i) => inTurn(i)));
    const nodes = namedIn(await connect().renew('last00', '', LONG_MS));
    same(nodes.map(({ incarnation }) => incarnation).sort(), [...names, 'last00'].sort());
  },

  async 'spaces of one engine are kept apart'({ connect, elsewhere }) {
    const [here, there] = [connect(), elsewhere().connect()];
    await here.renew('aaaaaa', '', LONG_MS);
    await here.moveSession('sess_1', { from: 'bbbbbb', epoch: 0, to: 'aaaaaa', ttlMs: LONG_MS });
    await here.table('names').put('k', { holder: 's', record: '' }, null);
    await here.reserveCapacity('ada', 'one', { bytes: 100, maxBytes: 100, ttlMs: LONG_MS });
    same(await there.find('aaaaaa'), undefined);
    same(await there.findSession('sess_1'), undefined);
    same((await there.table('names').read()).entries.size, 0);
    same(await there.reserveCapacity('ada', 'two', { bytes: 100, maxBytes: 100, ttlMs: LONG_MS }), 100);
  },
};
