import { describe, expect, it } from 'vitest';
import { Orphans } from './orphans.js';

const NODES = ['a', 'b', 'c', 'd', 'e', 'f'];

/** Each node of a cluster, some of which are dead. */
function nodesWith(dead: ReadonlySet<string>) {
  const clock = { time: 0 };
  const living = NODES.filter((name) => !dead.has(name));
  const all = living.map((incarnation) => {
    const others = () => NODES.filter((name) => name !== incarnation);
    const isNodeAlive = (name: string) => !dead.has(name);
    return { incarnation, orphans: new Orphans({ incarnation, now: () => clock.time, isNodeAlive, others }) };
  });
  const taken = () =>
    all.flatMap(({ incarnation, orphans }) => orphans.take().map(({ key }) => `${incarnation} ${key}`));
  return { clock, all, taken };
}

describe('what is left of dead nodes', () => {
  it('is removed by the living node after each, and by the next one if that does not', () => {
    const { clock, all, taken } = nodesWith(new Set(['b', 'c', 'f']));
    for (const { orphans } of all) for (const node of ['b', 'c', 'f']) orphans.add(`of ${node}`, node, node);
    expect(taken()).toEqual(['a of f', 'd of b', 'd of c']);
    expect(taken()).toEqual([]);
    clock.time = 1_999;
    expect(taken()).toEqual([]);
    clock.time = 2_000;
    expect(taken()).toEqual(['d of f', 'e of b', 'e of c']);
    clock.time = 60_000;
    expect(taken()).toEqual(['a of b', 'a of c', 'e of f']);
    expect(taken()).toEqual([]);
  });

  it('is nothing to remove any more if the engine has something else', () => {
    const { clock, all, taken } = nodesWith(new Set(['b']));
    for (const { orphans } of all) {
      orphans.add('one', 'b', 'b');
      orphans.add('two', 'b', 'b');
    }
    for (const { orphans } of all) orphans.delete('one');
    expect(taken()).toEqual(['c two']);
    for (const { orphans } of all) orphans.clear();
    clock.time = 60_000;
    expect(taken()).toEqual([]);
  });
});
