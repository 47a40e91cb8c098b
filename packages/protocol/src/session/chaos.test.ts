import { describe, expect, it } from 'vitest';
import { runHistories } from '../testing/chaos/histories.js';

/** `CHAOS_SEED=N CHAOS_HISTORIES=1` repeats a history that has failed; `npm run chaos` runs more. */
const HISTORIES = Number(process.env['CHAOS_HISTORIES'] ?? 1_000);
const SEED = Number(process.env['CHAOS_SEED'] ?? Date.now() % 2 ** 31);

describe('sessions over an unreliable network', () => {
  it(`lose, duplicate and reorder nothing in ${HISTORIES} histories from seed ${SEED}`, () => {
    const { faults, delivered, missing } = runHistories(SEED, HISTORIES);
    expect(faults.slice(0, 10)).toEqual([]);
    if (HISTORIES < 400) return;
    expect(missing).toEqual([]);
    expect(delivered).toBeGreaterThan(HISTORIES * 100);
  });
});
