import fc from 'fast-check';
import { expect, it } from 'vitest';
import { DEEDS, type Deed, FATES, type Fate, NAMES, ToldWorld } from './told-world.js';

const weighed = <Value extends string>(values: readonly Value[], often: readonly Value[]) =>
  fc.constantFrom(...values, ...often, ...often);
const name = fc.constantFrom(...NAMES);
const deed = fc.record({ deed: weighed<Deed>(DEEDS, ['ask', 'tell', 'tensor']), from: name, to: name });
const fate = fc.record({ fate: weighed<Fate>(FATES, ['freeze', 'giveUp', 'thaw']), name });
const pass = fc.record({ ms: fc.constantFrom(0, 5, 20, 60, 200) });
const steps = fc.array(
  fc.oneof({ weight: 6, arbitrary: deed }, { weight: 3, arbitrary: fate }, { weight: 3, arbitrary: pass }),
  { size: 'max', maxLength: 50 },
);

it('a durable session that is given up continues although the one that it talks to ends first', async () => {
  const world = await ToldWorld.create();
  try {
    world.do('ask', 'd1', 'd2');
    await world.pass(60);
    world.suffer('d2', 'giveUp');
    await world.pass(50);
    world.suffer('d1', 'giveUp');
    await world.settle();
    expect(world.faults).toEqual([]);
  } finally {
    await world.close();
  }
});

it('a part that waits for the record of who has asked is given back if that one stops', async () => {
  const world = await ToldWorld.create();
  try {
    world.do('ask', 'd2', 'p1');
    await world.pass(200);
    world.do('stop', 'd2', 'p1');
    await world.settle();
    expect(world.faults).toEqual([]);
  } finally {
    await world.close();
  }
});

it('nothing that a session is told harms it or another one, if it is frozen, given up or over', async () => {
  const check = fc.asyncProperty(steps, async (taken) => {
    const world = await ToldWorld.create();
    try {
      for (const step of taken) {
        if ('ms' in step) await world.pass(step.ms);
        else if ('fate' in step) world.suffer(step.name, step.fate);
        else if (step.from !== step.to) world.do(step.deed, step.from, step.to);
      }
      await world.settle();
      expect(world.faults).toEqual([]);
    } finally {
      await world.close();
    }
  });
  await fc.assert(check, { numRuns: 25 });
});
