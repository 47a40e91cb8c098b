import { Deviation } from './deviation.js';

/** Scenarios wait for what a peer does, never longer than they say. */

/** Milliseconds: long enough for a peer to do what it must not do. */
export const A_WHILE = 150;

export class Changes {
  #waiting = new Set<() => void>();
  #failure: unknown;
  readonly #timeoutMs: number;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** Something has changed: those who wait look again. */
  notify(): void {
    for (const wake of this.#waiting) wake();
  }

  /** Ends every wait with an error, now and later. The first one counts. */
  fail(error: unknown): void {
    this.#failure ??= error;
    this.notify();
  }

  /** @throws what {@link fail} was called with. */
  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /**
   * @returns the first value of `look` that is not `undefined`.
   * @throws {Deviation} if `what` does not happen in time.
   */
  async until<T>(look: () => T | undefined, what: string, timeoutMs = this.#timeoutMs): Promise<T> {
    const deadline = Date.now() + timeoutMs;
    for (;;) {
      this.check();
      const value = look();
      if (value !== undefined) return value;
      const left = deadline - Date.now();
      if (left <= 0) throw new Deviation(`${what} did not come within ${timeoutMs} ms`);
      await new Promise<void>((resolve) => {
        const wake = () => {
          clearTimeout(timer);
          this.#waiting.delete(wake);
          resolve();
        };
        const timer = setTimeout(wake, left);
        this.#waiting.add(wake);
      });
    }
  }
}
