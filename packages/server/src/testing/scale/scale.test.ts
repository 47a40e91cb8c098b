import { describe, expect, it } from 'vitest';
import { calm, converge, measureSteady } from './testing/scale-run.js';
import { type Load, ScaleWorld } from './testing/scale-world.js';

/** `npm run simulate` has as many nodes as one likes. */
const LOAD: Load = {
  ...{ nodes: 30, seed: 1, counted: 1_000, agents: 10, stayMs: 30_000, readers: 30 },
  ...{ groups: 5, messages: 1, size: 100 },
};

describe('thirty nodes in virtual time', () => {
  it('know of each other, of agents and of groups while nodes come and die, and miss nothing', async () => {
    const world = new ScaleWorld(LOAD);
    await world.start();
    const { engine } = await measureSteady(world, 10_000);
    // All nodes are named only to one that begins or learns of another one.
    expect(engine.bytes('renew') / engine.calls('renew')).toBeLessThan(500);
    await calm(world);
    expect([world.missing(), world.missed(), world.isConverged]).toEqual([0, 0, true]);

    const joined = await converge(world, () => void world.join());
    expect(joined.nodesMs).toBeLessThanOrEqual(1_600);
    const one = await converge(world, () => world.kill(world.alive.slice(3, 4)));
    expect(one.nodesMs).toBeLessThanOrEqual(6_700);

    const dead = world.alive.filter((_, i) => i % 5 === 2);
    const many = await converge(world, () => world.kill(dead));
    expect(dead).toHaveLength(6);
    expect(many.nodesMs).toBeLessThanOrEqual(6_700);
    // Each entry is removed by one node, or by two if the first one learns of the death late.
    const removed = dead.reduce((sum, { sessions }) => sum + sessions.length, 0);
    expect(many.engine.calls('agents: put')).toBeGreaterThanOrEqual(removed);
    expect(many.engine.calls('agents: put')).toBeLessThanOrEqual(2 * removed);
    expect(many.engine.calls('findSession')).toBe(dead.length * LOAD.counted);

    await world.live(3_000);
    await calm(world);
    expect([world.missing(), world.missed(), world.isConverged]).toEqual([0, 0, true]);
  });

  it('do the same again with the same seed', async () => {
    const figures = async () => {
      const world = new ScaleWorld({ ...LOAD, nodes: 8, readers: 8 });
      await world.start();
      const { engine, between } = await measureSteady(world, 2_000);
      return [engine.calls(), engine.bytes(), between.calls()];
    };
    expect(await figures()).toEqual(await figures());
  });
});
