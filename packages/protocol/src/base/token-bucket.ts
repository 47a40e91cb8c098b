/**
 * A token bucket: it fills at a steady rate up to its capacity, and each event spends from it. It has no
 * clock and no timer: each call passes a clock reading, from which the level is computed, so a bucket costs a
 * few additions per call and allocates nothing.
 */
export class TokenBucket {
  readonly #capacity: number;
  readonly #ratePerMs: number;
  #level: number;
  #filledAt: number;

  /**
   * The bucket starts full.
   *
   * @param capacity the most it holds.
   * @param ratePerMs the amount that flows in per millisecond.
   * @param now clock reading in milliseconds.
   */
  constructor(capacity: number, ratePerMs: number, now: number) {
    this.#capacity = capacity;
    this.#ratePerMs = ratePerMs;
    this.#level = capacity;
    this.#filledAt = now;
  }

  /** Spends `amount`, going into debt if necessary. Returns what is left; a negative number is a debt. */
  spend(amount: number, now: number): number {
    this.#fill(now);
    this.#level -= amount;
    return this.#level;
  }

  /** Spends `amount` if the bucket holds it; otherwise spends nothing and returns false. */
  take(amount: number, now: number): boolean {
    if (!this.has(amount, now)) return false;
    this.#level -= amount;
    return true;
  }

  has(amount: number, now: number): boolean {
    this.#fill(now);
    return this.#level + ROUNDING >= amount;
  }

  /** A new bucket would be the same. */
  isFull(now: number): boolean {
    return this.level(now) === this.#capacity;
  }

  /** The amount in the bucket at `now`. */
  level(now: number): number {
    this.#fill(now);
    return this.#level;
  }

  /**
   * The clock reading at which the bucket will hold `amount`, rounded up to whole milliseconds; `now` if it
   * does already.
   */
  readyAt(amount: number, now: number): number {
    if (this.has(amount, now)) return now;
    return now + Math.ceil((amount - this.#level) / this.#ratePerMs);
  }

  #fill(now: number): void {
    // If the clock goes back, nothing flows in until it has caught up, so no time counts twice.
    if (now <= this.#filledAt) return;
    this.#level = Math.min(this.#capacity, this.#level + (now - this.#filledAt) * this.#ratePerMs);
    this.#filledAt = now;
  }
}

/** The error allowed in sums of fractions, far below any amount that is counted. */
const ROUNDING = 1e-6;
