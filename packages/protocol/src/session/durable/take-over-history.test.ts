import { beforeAll, describe, expect, it } from 'vitest';
import { TAKE_OVER_FAULTS } from '../../testing/take-over-engine.js';
import { runTakeOverHistory } from '../../testing/take-over-history.js';
import { platform } from '../../testing/this-platform.js';

/** `TAKE_OVER_SEED=N TAKE_OVER_HISTORIES=1` repeats a history that has failed. */
const HISTORIES = Number(process.env['TAKE_OVER_HISTORIES'] ?? 40);
const SEED = Number(process.env['TAKE_OVER_SEED'] ?? (process.env['CI'] ? 1 : Date.now() % 2 ** 31));

const MUTANT_HISTORIES = 400;

beforeAll(() => platform.loadZstd());

describe('a session whose processes die', () => {
  it(`loses, doubles and reorders nothing, in ${HISTORIES} histories from seed ${SEED}`, {
    timeout: 3_600_000,
  }, () => {
    let [takeOvers, zombies, rests] = [0, 0, 0];
    const counts = new Map<string, number>();
    for (let seed = SEED; seed < SEED + HISTORIES; seed++) {
      const outcome = runTakeOverHistory({ seed });
      expect(outcome.faults, `seed ${seed}`).toEqual([]);
      takeOvers += outcome.takeOvers;
      zombies += outcome.zombies;
      rests += outcome.rests;
      for (const [name, count] of outcome.counts) counts.set(name, (counts.get(name) ?? 0) + count);
    }
    console.log(`${takeOvers} takeovers, ${zombies} zombies, ${rests} rests: ${JSON.stringify([...counts])}`);
    if (HISTORIES < 20) return;
    expect(takeOvers).toBeGreaterThan(HISTORIES);
    expect(rests).toBeGreaterThan(HISTORIES);
    for (const what of ['cancel', 'interrupted', 'called again', 'handled again'])
      expect(counts.get(what) ?? 0, what).toBeGreaterThan(0);
  });

  it.each(TAKE_OVER_FAULTS)('breaks if %s', (fault) => {
    for (let seed = 1; seed <= MUTANT_HISTORIES; seed++)
      if (runTakeOverHistory({ seed, fault }).faults.length > 0) return;
    expect.unreachable(`${MUTANT_HISTORIES} histories have noticed nothing`);
  });
});
