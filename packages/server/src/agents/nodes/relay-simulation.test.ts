import { describe, expect, it } from 'vitest';
import { isFull } from '../../../../../scripts/extent.js';
import { History } from './testing/relay-history.js';

const SEEDS = Array.from({ length: isFull ? 12 : 5 }, (_, i) => i + 1);

describe('random histories of agents on three nodes', () => {
  it.each(SEEDS)('lose, double and reorder nothing on whole connections (seed %i)', async (seed) => {
    const history = new History(seed);
    await history.run({});
    expect(history.verify()).toEqual([]);
    const reports = history.clients.flatMap(({ reported }) => [...reported.values()]);
    expect(reports.filter(({ size }) => size > 0)).toEqual([]);
    await history.world.stop();
  });

  it.each(SEEDS)('report what is lost with a connection (seed %i)', async (seed) => {
    const history = new History(seed);
    await history.run({ cut: 0.01 });
    expect(history.verify()).toEqual([]);
    expect(history.cuts).toBeGreaterThan(0);
    await history.world.stop();
  });

  it.each(SEEDS)('report what is lost with a node (seed %i)', async (seed) => {
    const history = new History(seed);
    await history.run({ cut: 0.005, kill: 0.001 });
    expect(history.verify()).toEqual([]);
    await history.world.stop();
  });

  it('lose, double and reorder nothing while sessions move, and report nothing', async () => {
    let moves = 0;
    for (const seed of SEEDS) {
      const history = new History(seed);
      await history.run({ move: 0.04 });
      expect(history.verify()).toEqual([]);
      const reports = history.clients.flatMap(({ reported }) => [...reported.values()]);
      expect(reports.filter(({ size }) => size > 0)).toEqual([]);
      moves += history.moves;
      await history.world.stop();
    }
    expect(moves).toBeGreaterThan(SEEDS.length);
  });

  it.each([
    ['connections break', { cut: 0.005 }],
    ['nodes die', { cut: 0.005, kill: 0.001 }],
  ])('report what is lost while sessions move and %s', async (_, faults) => {
    let moves = 0;
    for (const seed of SEEDS) {
      const history = new History(seed);
      await history.run({ move: 0.04, ...faults });
      expect(history.verify()).toEqual([]);
      moves += history.moves;
      await history.world.stop();
    }
    expect(moves).toBeGreaterThan(SEEDS.length);
  });

  it.each(SEEDS)('report what is cut off if sessions have to move now (seed %i)', async (seed) => {
    const history = new History(seed);
    await history.run({ move: 0.04, cut: seed % 2 === 0 ? 0.005 : 0, settle: 0.5 });
    expect(history.verify()).toEqual([]);
    expect(history.settles).toBeGreaterThan(0);
    await history.world.stop();
  });
});
