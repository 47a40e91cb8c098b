import type { Clock } from '@parlance/protocol/internal';

/** A clock whose time passes when a test says so, and whose tasks run one after the other. */
export class VirtualClock implements Clock {
  readonly timeOrigin = 0;
  #now = 0;
  #tasks: { readonly at: number; readonly task: () => void }[] = [];

  /** Tasks that wait. */
  get tasks(): number {
    return this.#tasks.length;
  }

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
  soon(): void {}
  async yield(): Promise<void> {}

  /** Lets `ms` pass, and the promises that each task settles run before the next. */
  async pass(ms: number): Promise<void> {
    const until = this.#now + ms;
    await turn();
    for (;;) {
      const next = this.#tasks.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0];
      if (next === undefined) break;
      this.#tasks = this.#tasks.filter((other) => other !== next);
      this.#now = next.at;
      next.task();
      await turn();
    }
    this.#now = until;
  }
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** Resolves when what follows at once has happened, loading of modules that are there included. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}
