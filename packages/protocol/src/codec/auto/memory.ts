/**
 * What a selector remembers of one kind of message: how many coded bytes each codec took per UTF-16
 * unit, and when to look again.
 *
 * A codec is either *linear*, its ratio the same at every length, or its ratio falls as there is more
 * to refer back to; of those each size is remembered apart, and what was never seen is guessed from
 * the nearest size. An unknown ratio is NaN, that of a text which could not be coded Infinity.
 */

/** Weight of a new observation against what was expected. */
const LEARNING_RATE = 0.3;
/** By what factor a ratio changes from one half octave to the next larger one. */
const USUAL_FALL = 0.975;
const STEEPEST_FALL = 0.96;
const NO_FALL = 1;
const FIRST_INTERVAL = 8;

export class Memory {
  readonly #linear: readonly boolean[];
  readonly #maxInterval: number;
  /** By candidate, then by size; a linear one has its only entry at 0. */
  readonly #ratios: readonly number[][];
  #interval = FIRST_INTERVAL;
  #wait = FIRST_INTERVAL;

  /** @param linear for each candidate whether it is linear. */
  constructor(linear: readonly boolean[], maxInterval: number) {
    this.#linear = linear;
    this.#maxInterval = maxInterval;
    this.#ratios = linear.map(() => []);
  }

  /** The candidate with the least expected ratio, the first of equal ones; -1 where nothing is known. */
  favourite(size: number): number {
    let favourite = -1;
    let least = Infinity;
    for (let candidate = 0; candidate < this.#linear.length; candidate++) {
      const expected = this.expected(candidate, size);
      if (expected < least) {
        favourite = candidate;
        least = expected;
      }
    }
    return favourite;
  }

  /** The ratio to be expected. */
  expected(candidate: number, size: number): number {
    return this.#guess(candidate, size, USUAL_FALL, USUAL_FALL);
  }

  /** The least that a ratio may turn out to be that was never seen at this size; Infinity where it was. */
  leastUnseen(candidate: number, size: number): number {
    if (this.#ratios[candidate]![this.#linear[candidate] ? 0 : size] !== undefined) return Infinity;
    const least = this.#guess(candidate, size, STEEPEST_FALL, NO_FALL);
    return Number.isNaN(least) ? 0 : least;
  }

  observe(candidate: number, size: number, ratio: number): void {
    const ratios = this.#ratios[candidate]!;
    const key = this.#linear[candidate] ? 0 : size;
    const before = ratios[key] ?? Infinity;
    ratios[key] =
      before === Infinity || ratio === Infinity ? ratio : before + (ratio - before) * LEARNING_RATE;
  }

  /** Counts a message; true when another codec is to be tried again. */
  due(): boolean {
    this.#wait--;
    return this.#wait <= 0;
  }

  /** After a trial: one that changed nothing is repeated after twice as many messages. */
  settle(changed: boolean): void {
    this.#interval = changed ? FIRST_INTERVAL : Math.min(this.#interval * 2, this.#maxInterval);
    this.#wait = this.#interval;
  }

  /** @param fallUp, fallDown what is assumed of sizes above and below the nearest one that was seen. */
  #guess(candidate: number, size: number, fallUp: number, fallDown: number): number {
    const ratios = this.#ratios[candidate]!;
    if (this.#linear[candidate]) return ratios[0] ?? Number.NaN;
    const furthest = Math.max(size, ratios.length - size);
    for (let distance = 0; distance <= furthest; distance++) {
      const smaller = ratios[size - distance];
      if (smaller !== undefined) return distance === 0 ? smaller : smaller * fallUp ** distance;
      const larger = ratios[size + distance];
      if (larger !== undefined) return larger * fallDown ** -distance;
    }
    return Number.NaN;
  }
}
