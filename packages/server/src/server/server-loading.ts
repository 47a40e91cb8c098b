import type { Logger } from '@parlance/protocol';
import { loggable, type MemoryBudget, systemClock } from '@parlance/protocol/internal';
import { repeat } from '../base/repeat.js';
import type { Vocabularies } from '../base/vocabularies.js';
import type { Nonces } from '../session/admission/nonces.js';
import type { Quotas } from '../session/admission/quotas.js';
import type { InstalledFeatures } from './features/installed-features.js';

/** How often quotas forget addresses that have nothing against them. */
const FORGET_INTERVAL_MS = 30_000;
/** How often suspended sessions that hold too much memory are evicted, features do what they repeat, and a vocabulary may be loaded. */
const SWEEP_INTERVAL_MS = 1_000;

/** A task that a server repeats while it runs. */
interface Chore {
  readonly intervalMs: number;
  readonly task: () => void;
}

export function choresOf(
  quotas: Pick<Quotas, 'sweep'>,
  nonces: Pick<Nonces, 'sweep'>,
  memory: Pick<MemoryBudget, 'sweep'>,
  features: Pick<InstalledFeatures, 'tick'>,
  vocabularies: Pick<Vocabularies, 'loadIfIdle'>,
): readonly Chore[] {
  return [
    { intervalMs: FORGET_INTERVAL_MS, task: () => quotas.sweep(systemClock.now()) },
    { intervalMs: FORGET_INTERVAL_MS, task: () => nonces.sweep(systemClock.now()) },
    { intervalMs: SWEEP_INTERVAL_MS, task: () => memory.sweep(systemClock.now()) },
    { intervalMs: SWEEP_INTERVAL_MS, task: () => features.tick() },
    { intervalMs: SWEEP_INTERVAL_MS, task: () => vocabularies.loadIfIdle() },
  ];
}

/** Loads what a server needs, once, and then repeats its chores until it stops. */
export class ServerLoading {
  readonly #load: () => Promise<unknown>;
  readonly #chores: readonly Chore[];
  readonly #logger: Logger;
  #loading: Promise<void> | undefined;
  #waiting: Promise<boolean> | undefined;
  #stops: readonly (() => void)[] = [];
  #isLoaded = false;
  #isStopped = false;

  constructor(load: () => Promise<unknown>, chores: readonly Chore[], logger: Logger) {
    this.#load = load;
    this.#chores = chores;
    this.#logger = logger;
  }

  /** Why no client is served yet. */
  unready(): string | undefined {
    return this.#isLoaded ? undefined : 'the server is loading';
  }

  load(): Promise<void> {
    this.#loading ??= this.#run().catch((error: unknown) => {
      // The next call tries again.
      this.#loading = undefined;
      throw error;
    });
    return this.#loading;
  }

  /**
   * Loads for those who cannot do without it, and resolves with whether all is loaded; `undefined` if it is. A failure is logged once
   * for all who wait, and the next call tries again.
   */
  wait(): Promise<boolean> | undefined {
    if (this.#isLoaded) return undefined;
    this.#waiting ??= this.load().then(
      () => this.#isLoaded,
      (error: unknown) => {
        this.#waiting = undefined;
        // If it was stopped, it was given up.
        if (!this.#isStopped) {
          const fields = { event: 'server.failed', err: loggable(error) };
          this.#logger.error(fields, 'loading what the server needs failed');
        }
        return false;
      },
    );
    return this.#waiting;
  }

  /** Resolves when nothing loads any more. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#loading?.catch(() => {});
    for (const stop of this.#stops) stop();
    this.#stops = [];
  }

  async #run(): Promise<void> {
    await this.#load();
    if (this.#isStopped) return;
    this.#isLoaded = true;
    this.#stops = this.#chores.map(({ intervalMs, task }) => repeat(intervalMs, task, this.#logger));
  }
}
