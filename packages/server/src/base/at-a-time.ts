import { Fifo } from '@parlance/protocol/internal';

/** Runs so many tasks at a time. The others wait, and begin in their order. */
export class AtATime {
  readonly #max: number;
  readonly #waiting = new Fifo<() => void>();
  #running = 0;

  constructor(max: number) {
    this.#max = max;
  }

  async run<Result>(task: () => Promise<Result>): Promise<Result> {
    if (this.#running < this.#max) this.#running++;
    else await new Promise<void>((begin) => this.#waiting.push(begin));
    try {
      return await task();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running--;
      else next();
    }
  }
}
