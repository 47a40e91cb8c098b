import type { Clock, Sweepable } from '@parlance/protocol/internal';

/** Time that passes as fast as everything that is due can be done, in steps of a millisecond. */
export class VirtualTime implements Clock {
  readonly timeOrigin = 1_700_000_000_000;
  #now = 0;
  /** Tasks that are due, by millisecond. */
  readonly #due = new Map<number, (() => void)[]>();

  now(): number {
    return this.#now;
  }

  after(ms: number, task: () => void): () => void {
    let isCancelled = false;
    this.at(this.#now + ms, () => {
      if (!isCancelled) task();
    });
    return () => {
      isCancelled = true;
    };
  }

  /** As {@link after}, for what is never cancelled. @param time is rounded up to the next millisecond that has not begun. */
  at(time: number, task: () => void): void {
    const at = Math.max(Math.ceil(time), this.#now + 1);
    const tasks = this.#due.get(at);
    if (tasks === undefined) this.#due.set(at, [task]);
    else tasks.push(task);
  }

  soon(item: Sweepable): void {
    this.after(100, () => item.handleTick());
  }

  yield(): Promise<void> {
    return this.wait(1);
  }

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => this.at(this.#now + ms, resolve));
  }

  /** Lets time pass. Code that awaits something resumes before the next millisecond begins. */
  async pass(ms: number): Promise<void> {
    const end = this.#now + ms;
    while (this.#now < end) {
      this.#now++;
      const tasks = this.#due.get(this.#now);
      if (tasks === undefined) continue;
      this.#due.delete(this.#now);
      for (const task of tasks) task();
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}
