interface Deadline {
  /** A reading of `performance.now()`. */
  readonly at: number;
  readonly onLate: () => void;
}

/** As {@link within} for many calls at a time, most of which are in time: they share one timer. */
export class Deadlines {
  readonly #all = new Set<Deadline>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #dueAt = Infinity;

  /** @returns cancels it. */
  add(ms: number, onLate: () => void): () => void {
    const deadline = { at: performance.now() + ms, onLate };
    this.#all.add(deadline);
    if (deadline.at < this.#dueAt) this.#arm(deadline.at);
    return () => {
      this.#all.delete(deadline);
    };
  }

  #arm(at: number): void {
    clearTimeout(this.#timer);
    this.#dueAt = at;
    this.#timer = setTimeout(() => setImmediate(() => this.#end()), at - performance.now());
    // The caller that waits for an answer has a socket, which keeps the process alive.
    this.#timer.unref();
  }

  #end(): void {
    const now = performance.now();
    let next = Infinity;
    for (const deadline of this.#all) {
      if (deadline.at > now) next = Math.min(next, deadline.at);
      else {
        this.#all.delete(deadline);
        deadline.onLate();
      }
    }
    this.#dueAt = Infinity;
    if (next < Infinity) this.#arm(next);
  }
}

/**
 * Waits for work. It reads an answer that has already arrived when the time is over, so that a busy process blames no connection.
 *
 * @throws {Error} what `tooLate` makes; what `work` throws.
 */
export async function within<T>(work: Promise<T>, ms: number, tooLate: (ms: number) => Error): Promise<T> {
  return await new Promise<T>((resolve, reject) => {
    let last: ReturnType<typeof setImmediate> | undefined;
    const timer = setTimeout(() => {
      last = setImmediate(() => reject(tooLate(ms)));
    }, ms);
    work.then(resolve, reject).finally(() => {
      clearTimeout(timer);
      clearImmediate(last);
    });
  });
}
