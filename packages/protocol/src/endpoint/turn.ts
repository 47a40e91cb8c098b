import type { Clock } from '../platform/clock.js';

/**
 * Replies that are ready are coded in microtasks, one part behind the other, and the event loop turns only when all
 * of them are. So work that goes on within one turn is noticed here, and those who do it wait for another.
 */

/** Milliseconds of one turn after which the work waits for the next. */
const SLICE_MS = 5;
/** Parts, or {@link PART_BYTES} of one, between two looks at the clock. */
const LOOK_AFTER = 8;
const PART_BYTES = 8 * 1024;

interface Turn {
  /** Since the last look. */
  parts: number;
  /** The event loop has not turned since `since`. */
  isCurrent: boolean;
  since: number;
}

const turns = new WeakMap<Clock, Turn>();

/**
 * Counts a part of `size` bytes. A look at the clock is for some parts and not for each, as most replies wait for
 * their next part anyway.
 *
 * @returns whether this turn has been worked in for long enough.
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
