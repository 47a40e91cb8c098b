import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createSweep, type Sweepable, systemClock } from './clock.js';

/** Who is called, in order. `standStill` lets a timer fire late, as in a process that was stopped. */
let calls: string[];
const item = (name: string): Sweepable => ({ handleTick: () => calls.push(name), crash() {} });

beforeEach(() => {
  calls = [];
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] });
});
afterEach(() => vi.useRealTimers());

/** Something arrived while the process stood still: it is read in the turn after the timers. */
function standStill(ms: number): void {
  const now = performance.now();
  vi.spyOn(performance, 'now').mockReturnValue(now + ms);
  setImmediate(() => calls.push('read'));
}

it.each([
  ['is checked at once if the timer is on time', 0, ['session', 'read']],
  ['is checked at once if the timer is a little late', 1_099, ['session', 'read']],
  ['is checked after what has arrived was read, if the process stood still', 1_101, ['read', 'session']],
])('a deadline %s', async (_, ms, order) => {
  systemClock.soon(item('session'));
  standStill(ms);
  vi.advanceTimersByTime(100);
  await vi.waitFor(() => expect(calls).toHaveLength(2));
  expect(calls).toEqual(order);
});

it.each([
  [0, ['session', 'read']],
  [6_001, ['read', 'session']],
])('a sweep that comes %d ms later has this order', async (ms, order) => {
  const sweep = createSweep(5_000);
  sweep.add(item('session'));
  standStill(ms);
  vi.advanceTimersByTime(5_000);
  await vi.waitFor(() => expect(calls).toHaveLength(2));
  expect(calls).toEqual(order);
  sweep.stop();
});

it('goes by the timers that the process has, if a test gave its own back before they ran', () => {
  const sweep = createSweep(5_000);
  for (const round of [1, 2]) {
    systemClock.soon(item(`soon ${round}`));
    sweep.add(item(`sweep ${round}`));
    if (round === 2) break;
    vi.useRealTimers();
    vi.useFakeTimers({
      toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'],
    });
  }
  vi.advanceTimersByTime(5_000);
  expect(calls).toEqual(['soon 1', 'soon 2', 'sweep 1', 'sweep 2']);
  sweep.stop();
});
