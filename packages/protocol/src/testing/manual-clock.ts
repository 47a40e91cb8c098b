import type { Clock, Sweepable } from '../platform/clock.js';

/** A clock that stands still until a test lets time pass. */
export class ManualClock implements Clock {
  readonly timeOrigin = 0;
  #now = 0;
  #tasks: { readonly at: number; readonly task: () => void }[] = [];

  now(): number {
    return this.#now;
  }
  after(ms: number, task: () => void): () => void {
    const entry = { at: this.#now + ms, task };
    this.#tasks.push(entry);
    return () => {
      this.#tasks = this.#tasks.filter((other) => other !== entry);
    };
  }
  soon(item: Sweepable): void {
    this.after(100, () => item.handleTick());
  }
  async yield(): Promise<void> {}

  pass(ms: number): void {
    this.#now += ms;
    const due = this.#tasks.filter(({ at }) => at <= this.#now);
    this.#tasks = this.#tasks.filter(({ at }) => at > this.#now);
    for (const { task } of due) task();
  }
}
