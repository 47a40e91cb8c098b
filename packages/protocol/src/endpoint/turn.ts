import type { Clock } from '../platform/clock.js';

/**
 * Parts that are ready are coded in microtasks, one after the other, so the event loop would not turn before
 * all of them are coded. This module measures the work within one turn, so that a responder can wait for the
 * next.
 */

/** Milliseconds of work in one turn. */
const SLICE_MS = 5;
/** Parts between two readings of the clock. A large part counts again for each {@link PART_BYTES}. */
const LOOK_AFTER = 8;
const PART_BYTES = 8 * 1024;

interface Turn {
  /** Since the last reading of the clock. */
  parts: number;
  /** The event loop has not turned since `since`. */
  isCurrent: boolean;
  since: number;
}

const turns = new WeakMap<Clock, Turn>();

/**
 * Counts a part of `size` bytes. Does not read the clock for each part, as most replies wait for their next
 * part anyway.
 *
 * @returns whether the work of this turn has taken long enough.
 */
export function isTurnOver(clock: Clock, size: number): boolean {
  const turn = turns.get(clock) ?? firstTurn(clock);
  turn.parts += 1 + Math.floor(size / PART_BYTES);
  if (turn.parts < LOOK_AFTER) return false;
  turn.parts = 0;
  if (turn.isCurrent) return clock.now() - turn.since >= SLICE_MS;
  begin(turn, clock);
  return false;
}

function firstTurn(clock: Clock): Turn {
  const turn = { parts: 0, isCurrent: false, since: 0 };
  turns.set(clock, turn);
  return turn;
}

function begin(turn: Turn, clock: Clock): void {
  turn.isCurrent = true;
  turn.since = clock.now();
  void clock.yield().then(() => {
    turn.isCurrent = false;
  });
}
