import { withResolvers } from '@parlance/protocol/internal';

/** Work of which each key has one piece at a time. */
export class Turns {
  /** The last piece of each key that has any. */
  readonly #last = new Map<string, Promise<void>>();

  /** Keys that have work. */
  get size(): number {
    return this.#last.size;
  }

  /** Resolves when all work of `key` that asked before is over; call `over` at the end of the work. */
  async next(key: string): Promise<{ over(): void }> {
    const before = this.#last.get(key);
    const { promise: own, resolve: settle } = withResolvers<void>();
    this.#last.set(key, own);
    await before;
    return {
      over: () => {
        settle();
        if (this.#last.get(key) === own) this.#last.delete(key);
      },
    };
  }
}
