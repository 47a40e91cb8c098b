import { expect, it } from 'vitest';
import { DEFAULT_LIMITS } from '../base/limits.js';
import type { Clock } from '../platform/clock.js';
import type { SessionCore } from '../session/types.js';
import { Endpoint } from './endpoint.js';

/** A core with one timeout, and a clock that records its timers. */
function setUp(state: SessionCore['state'], timeout: number) {
  let now = 0;
  let timedOutAt: number | undefined;
  const timers: { at: number; task: () => void }[] = [];
  let soon = 0;
  const core = {
    state,
    hasEvents: false,
    hasOutput: false,
    pollTransmit: () => undefined,
    pollEvent: () => undefined,
    nextTimeout: () => (timedOutAt === undefined ? timeout : Infinity),
    handleTimeout(at: number) {
      timedOutAt = at;
    },
  } as unknown as SessionCore;
  const clock: Clock = {
    timeOrigin: 0,
    now: () => now,
    after(ms, task) {
      timers.push({ at: now + ms, task });
      return () => {};
    },
    soon: () => soon++,
    yield: () => Promise.resolve(),
  };
  const endpoint = new Endpoint({ core, clock, limits: DEFAULT_LIMITS, role: 'server' });
  return {
    tickAt(at: number) {
      now = at;
      endpoint.handleTick();
    },
    /** Advances the clock to the first timer and runs it. */
    runTimer() {
      const { at, task } = timers.shift() ?? { at: Number.NaN, task: () => {} };
      now = at;
      task();
    },
    get timedOutAt() {
      return timedOutAt;
    },
    get soon() {
      return soon;
    },
  };
}

it('ends a suspended session when its window ends, with any ticks of the coarse clock', () => {
  const setup = setUp('suspended', 120_000);
  for (let at = 0; at < 120_000; at += 999) setup.tickAt(at);
  expect(setup.timedOutAt).toBeUndefined();
  setup.runTimer();
  expect(setup.timedOutAt).toBe(120_000);
});

it('does not leave a timeout to the coarse clock alone', () => {
  const setup = setUp('established', 5_000);
  setup.tickAt(3_850);
  expect(setup.soon).toBe(0);
  setup.tickAt(4_001);
  expect(setup.soon).toBe(1);
});
