import { describe, expect, it } from 'vitest';
import { runChaos } from './testing/chaos.js';

/** A small generator with a seed, so that a failing history can be run again. */
function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const HISTORIES = Number(process.env['CHAOS_HISTORIES'] ?? 300);
const LIMITS = { sessionWindow: 256 * 1024, maxMessageSize: 256 * 1024 };
const FIRST = Number(process.env['CHAOS_SEED'] ?? 1);

describe('a session over a link that is cut, delayed, frozen and doubled', () => {
  it(`loses, doubles and reorders nothing in ${HISTORIES} histories`, () => {
    const total = { cuts: 0, resumes: 0, messages: 0, notRecovered: 0, peakUnread: 0 };
    for (let seed = FIRST; seed < FIRST + HISTORIES; seed++) {
      const outcome = runChaos({ random: seeded(seed), limits: LIMITS }, 400);
      expect(outcome.faults, `seed ${seed}`).toEqual([]);
      total.cuts += outcome.cuts;
      total.resumes += outcome.resumes;
      total.messages += outcome.messages;
      total.notRecovered += outcome.notRecovered.length;
      total.peakUnread = Math.max(total.peakUnread, outcome.peakUnread);
    }
    console.log(`chaos: ${JSON.stringify(total)}`);
    expect(total.peakUnread).toBeLessThanOrEqual(2 * (LIMITS.sessionWindow + 2 * LIMITS.maxMessageSize));
    expect(total.resumes).toBeGreaterThan(HISTORIES);
    expect(total.messages).toBeGreaterThan(HISTORIES * 50);
  }, 120_000);
});
