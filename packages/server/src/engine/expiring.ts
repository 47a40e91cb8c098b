/** A value that is forgotten at a time, in milliseconds of the clock. */
interface Mortal {
  readonly endsAt: number;
}

/** Values by key, of which each is forgotten at its time: the store of an engine within one process. */
export class Expiring<Value extends Mortal> {
  readonly #now: () => number;
  readonly #values = new Map<string, Value>();

  constructor(now: () => number) {
    this.#now = now;
  }

  get(key: string): Value | undefined {
    const value = this.#values.get(key);
    if (value === undefined || value.endsAt > this.#now()) return value;
    this.#values.delete(key);
    return undefined;
  }

  set(key: string, value: Value): void {
    this.#values.set(key, value);
  }

  delete(key: string): void {
    this.#values.delete(key);
  }

  /** All that are not over, oldest first. */
  *[Symbol.iterator](): Generator<[key: string, value: Value]> {
    for (const [key] of this.#values) {
      const value = this.get(key);
      if (value !== undefined) yield [key, value];
    }
  }
}
