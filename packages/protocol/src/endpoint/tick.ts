import type { Clock } from '../platform/clock.js';

/**
 * Parts that are ready are coded in microtasks, one after the other, so the event loop would not turn before
 * all of them are coded. This module measures the work within one tick, so that a responder can wait for the
 * next.
 */

/** Milliseconds of work in one tick. */
const SLICE_MS = 5;
/** Parts between two readings of the clock. A large part counts again for each {@link PART_BYTES}. */
const LOOK_AFTER = 8;
const PART_BYTES = 8 * 1024;

interface Tick {
  /** Since the last reading of the clock. */
  parts: number;
  /** The event loop has not turned since `since`. */
  isCurrent: boolean;
  since: number;
}

const ticks = new WeakMap<Clock, Tick>();

/**
 * Counts a part of `size` bytes. Does not read the clock for each part, as most replies wait for their next
 * part anyway.
 *
 * @returns whether the work of this tick has taken long enough.
 */
export function isTickOver(clock: Clock, size: number): boolean {
  const tick = ticks.get(clock) ?? firstTick(clock);
  tick.parts += 1 + Math.floor(size / PART_BYTES);
  if (tick.parts < LOOK_AFTER) return false;
  tick.parts = 0;
  if (tick.isCurrent) return clock.now() - tick.since >= SLICE_MS;
  begin(tick, clock);
  return false;
}

function firstTick(clock: Clock): Tick {
  const tick = { parts: 0, isCurrent: false, since: 0 };
  ticks.set(clock, tick);
  return tick;
}

function begin(tick: Tick, clock: Clock): void {
  tick.isCurrent = true;
  tick.since = clock.now();
  void clock.yield().then(() => {
    tick.isCurrent = false;
  });
}
