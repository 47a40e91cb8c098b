import type { Logger } from '@parlance/protocol';
import { type Clock, loggable, withArticle } from '@parlance/protocol/client';
import type { SessionStore } from '../session/options.js';

/** Milliseconds that the store may take before the session continues without it. */
const PATIENCE_MS = 1_000;

export interface GuardedStoreOptions {
  readonly store: SessionStore;
  readonly key: string;
  readonly clock: Pick<Clock, 'after'>;
  readonly logger: Logger | undefined;
}

/**
 * One entry of the application's store. Nothing that the store throws, returns or never returns reaches the session:
 * a failure is logged once. Changes are made in their order, at once if the store is synchronous. While one is under way,
 * only the last of those that follow it is kept.
 */
export class GuardedStore {
  readonly #options: GuardedStoreOptions;
  #hasFailed = false;
  #underWay: Promise<void> | undefined;
  #next: (() => unknown) | undefined;

  constructor(options: GuardedStoreOptions) {
    this.#options = options;
  }

  /** Resolves to the entry; `undefined` if the store has none or fails. */
  async read(): Promise<string | undefined> {
    const { store, key } = this.#options;
    try {
      const value: unknown = await this.#within(later(() => store.getItem(key)));
      if (value === null || value === undefined) return undefined;
      if (typeof value === 'string') return value;
      throw new TypeError(`getItem returned ${withArticle(typeof value)}`);
    } catch (error) {
      this.#report(error);
      return undefined;
    }
  }

  /** Resolves when the entry is written, or the store has failed or has taken too long. */
  write(value: string): Promise<void> {
    const { store, key } = this.#options;
    return this.#change(() => store.setItem(key, value));
  }

  remove(): Promise<void> {
    const { store, key } = this.#options;
    return this.#change(() => store.removeItem(key));
  }

  #change(change: () => unknown): Promise<void> {
    if (this.#underWay === undefined) this.#run(change);
    else this.#next = change;
    const done = this.#underWay;
    return done === undefined ? Promise.resolve() : this.#within(done).catch((error) => this.#report(error));
  }

  #run(change: () => unknown): void {
    let outcome: unknown;
    try {
      outcome = change();
    } catch (error) {
      return this.#report(error);
    }
    if (typeof outcome !== 'object' || outcome === null) return;
    this.#underWay = later(() => outcome)
      .then(ignore, (error: unknown) => this.#report(error))
      .then(() => {
        this.#underWay = undefined;
        const next = this.#next;
        this.#next = undefined;
        if (next === undefined) return undefined;
        this.#run(next);
        return this.#underWay;
      });
  }

  #within<Value>(work: Promise<Value>): Promise<Value> {
    return new Promise((resolve, reject) => {
      const expire = () => reject(new Error(`the store did not answer within ${PATIENCE_MS} ms`));
      const cancel = this.#options.clock.after(PATIENCE_MS, expire);
      work.then(resolve, reject).finally(cancel);
    });
  }

  #report(error: unknown): void {
    if (this.#hasFailed) return;
    this.#hasFailed = true;
    const fields = { event: 'store.failed', err: loggable(error) };
    this.#options.logger?.warn(
      fields,
      'the store failed, so the next page may not be able to take the session up',
    );
  }
}

/** A promise of this runtime for anything that the store has returned. */
async function later(call: () => unknown): Promise<unknown> {
  return await call();
}

const ignore = () => {};
