/**
 * A token bucket: fills at a steady rate up to its capacity, and whatever happens spends from it. Knows no
 * clock and no timer; the level is worked out from the clock reading that comes with each call, so that one
 * costs a few additions and allocates nothing.
 */
export class TokenBucket {
  readonly #capacity: number;
  readonly #ratePerMs: number;
  #level: number;
  #filledAt: number;

  /**
   * A full bucket.
   *
   * @param capacity what it holds at most.
   * @param ratePerMs what flows in within a millisecond.
   * @param now clock reading.
   */
  constructor(capacity: number, ratePerMs: number, now: number) {
    this.#capacity = capacity;
    this.#ratePerMs = ratePerMs;
    this.#level = capacity;
    this.#filledAt = now;
  }

  /** Spends `amount` and goes into debt where it has to. Returns what is left, below zero for a debt. */
  spend(amount: number, now: number): number {
    this.#fill(now);
    this.#level -= amount;
    return this.#level;
  }

  /** Spends `amount` where it is there, else nothing. */
  take(amount: number, now: number): boolean {
    if (!this.has(amount, now)) return false;
    this.#level -= amount;
    return true;
  }

  has(amount: number, now: number): boolean {
    this.#fill(now);
    return this.#level + ROUNDING >= amount;
  }

  /** What is there at `now`. */
  level(now: number): number {
    this.#fill(now);
    return this.#level;
  }

  /** The clock reading at which `amount` will be there, to whole milliseconds; `now` where it is already. */
  readyAt(amount: number, now: number): number {
    if (this.has(amount, now)) return now;
    return now + Math.ceil((amount - this.#level) / this.#ratePerMs);
  }

  #fill(now: number): void {
    // A reading before the last one fills nothing, and does not count the time in between twice.
    if (now <= this.#filledAt) return;
    this.#level = Math.min(this.#capacity, this.#level + (now - this.#filledAt) * this.#ratePerMs);
    this.#filledAt = now;
  }
}

/** What sums of fractions may be off by, far below anything that is counted. */
const ROUNDING = 1e-6;
