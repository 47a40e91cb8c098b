/**
 * The knowledge of a selector about one kind of message: how many coded bytes each codec took per UTF-16 unit (its
 * ratio), and when to try the other codecs again.
 *
 * A *linear* codec has the same ratio at every length. The ratio of any other codec falls with the length, as
 * there is more to refer back to: it is remembered for each size separately, and guessed from the nearest
 * known size. An unknown ratio is NaN; the ratio of a text that could not be coded is Infinity.
 */

/** Weight of a new observation against what was expected. */
const LEARNING_RATE = 0.3;
/** Factors by which a ratio changes from one size to the next larger one. */
const USUAL_FALL = 0.975;
const STEEPEST_FALL = 0.96;
const NO_FALL = 1;
const FIRST_INTERVAL = 8;

export class Memory {
  readonly #linear: readonly boolean[];
  readonly #maxInterval: number;
  /** By candidate, then by size; a linear candidate has one entry, at 0. */
  readonly #ratios: readonly number[][];
  #interval = FIRST_INTERVAL;
  #wait = FIRST_INTERVAL;

  /** @param linear whether each candidate is linear. */
  constructor(linear: readonly boolean[], maxInterval: number) {
    this.#linear = linear;
    this.#maxInterval = maxInterval;
    this.#ratios = linear.map(() => []);
  }

  /** The candidate with the least expected ratio, the first of several; -1 if nothing is known. */
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

  /** The expected ratio. */
  expected(candidate: number, size: number): number {
    return this.#guess(candidate, size, USUAL_FALL, USUAL_FALL);
  }

  /** The least ratio that is plausible for a candidate at a size never seen; Infinity for a known size. */
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

  /** Counts a message. Returns whether it is time to try other codecs again. */
  due(): boolean {
    this.#wait--;
    return this.#wait <= 0;
  }

  /** Schedules the next trial. After one that changed nothing, it is due after twice as many messages. */
  handleTrial(changed: boolean): void {
    this.#interval = changed ? FIRST_INTERVAL : Math.min(this.#interval * 2, this.#maxInterval);
    this.#wait = this.#interval;
  }

  /**
   * @param fallUp factor per step from a known smaller size up to `size`.
   * @param fallDown factor per step that is undone from a known larger size down to `size`.
   */
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
