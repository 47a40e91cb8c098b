/**
 * What a selector remembers of one kind of message: how many coded bytes each codec took per
 * character, and when to look again.
 *
 * A codec is either *linear*, its ratio the same at every length, or its ratio falls as there is more
 * to refer back to; for those each size class is remembered apart, and what was never seen is
 * guessed from the nearest size.
 */
export interface Memory {
  /** Coded bytes per UTF-16 unit by candidate: undefined is unknown, Infinity could not be coded. */
  expected(size: number): (number | undefined)[];
  /** The least that a ratio may turn out to be that was never seen at this size; Infinity where it was. */
  leastUnseen(candidate: number, size: number): number;
  observe(candidate: number, size: number, ratio: number): void;
  /** Counts a message; true when another codec is to be tried again. */
  due(): boolean;
  /** After a trial: one that changed nothing is repeated after twice as many messages. */
  settle(changed: boolean): void;
}

/** Weight of a new observation against what was expected. */
const LEARNING_RATE = 0.3;
/** By what factor a ratio changes from one half octave to the next larger one. */
const USUAL_FALL = 0.975;
const STEEPEST_FALL = 0.93;
const NO_FALL = 1;
const FIRST_INTERVAL = 4;

/** @param linear for each candidate whether it is linear. */
export function createMemory(linear: readonly boolean[], maxInterval: number): Memory {
  const ratios: Map<number, number>[] = linear.map(() => new Map());
  let interval = FIRST_INTERVAL;
  let wait = interval;

  /** The nearest size that was seen, the smaller one of two. */
  function nearest(candidate: number, size: number): number | undefined {
    let best: number | undefined;
    for (const seen of ratios[candidate]!.keys()) {
      const distance = Math.abs(seen - size);
      const least = best === undefined ? Infinity : Math.abs(best - size);
      if (distance < least || (distance === least && seen < best!)) best = seen;
    }
    return best;
  }

  /** @param fallUp, fallDown what is assumed of sizes above and below the one that was seen. */
  function guess(candidate: number, size: number, fallUp: number, fallDown: number): number | undefined {
    const seen = nearest(candidate, size);
    if (seen === undefined) return undefined;
    return ratios[candidate]!.get(seen)! * (size > seen ? fallUp : fallDown) ** (size - seen);
  }

  const keyOf = (candidate: number, size: number) => (linear[candidate] ? 0 : size);

  return {
    expected: (size) =>
      linear.map((_, candidate) => guess(candidate, keyOf(candidate, size), USUAL_FALL, USUAL_FALL)),

    leastUnseen(candidate, size) {
      const key = keyOf(candidate, size);
      if (ratios[candidate]!.has(key)) return Infinity;
      return guess(candidate, key, STEEPEST_FALL, NO_FALL) ?? 0;
    },

    observe(candidate, size, ratio) {
      const key = keyOf(candidate, size);
      const before = ratios[candidate]!.get(key);
      const blend = before !== undefined && before !== Infinity && ratio !== Infinity;
      ratios[candidate]!.set(key, blend ? before + (ratio - before) * LEARNING_RATE : ratio);
    },

    due: () => --wait <= 0,

    settle(changed) {
      interval = changed ? FIRST_INTERVAL : Math.min(interval * 2, maxInterval);
      wait = interval;
    },
  };
}
