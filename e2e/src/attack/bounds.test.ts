import { expect, it } from 'vitest';
import type { Attack, Fair, Outcome } from './attack.js';
import { MIB } from './bombs.js';
import { broken, FAIR_MIB_PER_S, RATIO_TO_FAIR, RATIO_TO_QUIET } from './bounds.js';

const attack: Attack = { category: 'time', name: 'a test', run: async () => undefined };
const latency = (p99: number) => ({ p50: 1, p99, max: p99, unanswered: 0 });
const fairOf = (msPerMib: number, p99 = 10): Fair => ({ msPerMib, neighbour: latency(p99) });
const outcome = (change: Partial<Outcome>): Outcome => ({
  ...{ attack, windowMs: 1_000, sentBytes: 1_000, floors: 1, peakBytes: 0, heldBytes: 0 },
  ...{ cpuMs: 0, neighbour: latency(1), quiet: latency(1), quietCpuMs: 0, fair: fairOf(10) },
  ...{ logLines: 0, logBytes: 0, wasStopped: false, death: undefined, aliveMs: 1 },
  ...{ recoveredMs: 0, leftBytes: 0, answer: undefined, found: [] },
  ...change,
});
const isBroken = (change: Partial<Outcome>) => broken(outcome(change), false).length > 0;

it.each([
  ['half a core, where a client costs little', 10, 500],
  ['what a client costs that is well-behaved', 40, FAIR_MIB_PER_S * 40],
  ['nine tenths of a core, however slow the machine is', 400, 900],
])('an attack may take %s', (_, msPerMib, most) => {
  expect(isBroken({ cpuMs: most, fair: fairOf(msPerMib) })).toBe(false);
  expect(isBroken({ cpuMs: most + 1, fair: fairOf(msPerMib) })).toBe(true);
});

it('a neighbour may wait for so many times as long as beside a client that is well-behaved, or alone', () => {
  for (const [most, quiet, fair] of [
    [RATIO_TO_FAIR * 10, 1, 10],
    [RATIO_TO_QUIET * 10, 10, 1],
  ] as const) {
    const waits = (p99: number) =>
      isBroken({ neighbour: latency(p99), quiet: latency(quiet), fair: fairOf(1, fair) });
    expect([waits(most), waits(most + 1)]).toEqual([false, true]);
  }
});

it('memory, lines of the log and a death break a bound', () => {
  for (const change of [{ peakBytes: 200 * MIB }, { logLines: 3_000 }, { death: 'SIGABRT' }])
    expect(isBroken(change)).toBe(true);
});
