/** The longest time without a frame, of a session in which one is due every few milliseconds. */
export class Pace {
  readonly #everyMs: number;
  #last = 0;
  #longest = 0;

  constructor(everyMs: number) {
    this.#everyMs = everyMs;
  }

  arrive(now: number): void {
    if (this.#last > 0) this.#longest = Math.max(this.#longest, now - this.#last);
    this.#last = now;
  }

  /** No frame was due since the last one. */
  pause(): void {
    this.#last = 0;
  }

  /** Measures from now on. */
  begin(): void {
    this.#longest = 0;
  }

  /** @returns how much longer than the pace the longest time was, a frame that is due at this moment included. */
  end(now: number): number {
    if (this.#last > 0) this.#longest = Math.max(this.#longest, now - this.#last);
    return Math.max(0, this.#longest - this.#everyMs);
  }
}

/** Milliseconds as `p50 3, p99 12, most 20 (n = 60)`. */
export function distribution(values: readonly number[]): string {
  if (values.length === 0) return 'none';
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number) => Math.round(sorted[Math.ceil(share * sorted.length) - 1] as number);
  return `p50 ${at(0.5)}, p99 ${at(0.99)}, most ${at(1)} ms (${values.length} sessions)`;
}
