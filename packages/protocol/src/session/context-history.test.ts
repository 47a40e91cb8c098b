import { beforeAll, describe, expect, it } from 'vitest';
import { loadEncoding } from '../codec/vocabulary/load.js';
import { runHistory } from '../testing/context-history.js';
import { seeded } from '../testing/prose.js';
import { platform } from '../testing/this-platform.js';
import type { Encoding } from '../tokenizer/encoding.js';

const HISTORIES = Number(process.env['CONTEXT_HISTORIES'] ?? 25);
const FIRST = Number(process.env['CONTEXT_SEED'] ?? 1);
const STEPS = 250;

let encoding: Encoding;
beforeAll(async () => {
  encoding = await loadEncoding('CL100K_BASE');
  await platform.loadZstd();
});

describe('a session with context coding', () => {
  it(`delivers what was sent and keeps the same at both ends, in ${HISTORIES} histories`, () => {
    const total = { cuts: 0, delivered: 0, inContext: 0, fragmented: 0, cancelled: 0 };
    for (let seed = FIRST; seed < FIRST + HISTORIES; seed++) {
      const outcome = runHistory({ random: seeded(seed), encoding }, STEPS);
      expect(outcome.faults, `seed ${seed}`).toEqual([]);
      for (const name of ['cuts', 'delivered', 'inContext', 'fragmented', 'cancelled'] as const)
        total[name] += outcome[name];
    }
    console.log(`context: ${JSON.stringify(total)}`);
    expect(total.inContext).toBeGreaterThan(HISTORIES * 20);
    expect(total.cuts).toBeGreaterThan(HISTORIES);
    expect(total.cancelled).toBeGreaterThan(HISTORIES);
    expect(total.fragmented).toBeGreaterThan(0);
  });

  it(`ends with an error if a body was damaged, and delivers nothing else, in ${HISTORIES} histories`, () => {
    const ends = new Map<string | undefined, number>();
    for (let seed = FIRST; seed < FIRST + HISTORIES; seed++) {
      const random = seeded(seed + 1_000_000);
      const outcome = runHistory({ random, encoding, damageFrom: 1 + Math.floor(random() * 30) }, STEPS);
      expect(
        outcome.faults.filter((fault) => !fault.startsWith('no rest')),
        `seed ${seed}`,
      ).toEqual([]);
      if (outcome.damaged) ends.set(outcome.endedWith, (ends.get(outcome.endedWith) ?? 0) + 1);
    }
    console.log(`damaged bodies: ${JSON.stringify([...ends])}`);
    expect([...ends.values()].reduce((sum, count) => sum + count, 0)).toBeGreaterThan(HISTORIES / 2);
  });
});
