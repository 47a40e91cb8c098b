import type { Engine } from '../engine/engine.js';
import type { EngineStore } from '../engine/store.js';
import type { Figure } from '../server/features/feature.js';

/** How often an engine is asked at most, in milliseconds. */
const ASK_MS = 60_000;

/** How large an engine is, as the metrics tell it: asked in the background when they are read, and told with the next reading. */
export class EngineSize {
  /** None if the engine cannot tell. */
  readonly figures: readonly Figure[];
  readonly #open: () => EngineStore | undefined;
  readonly #now: () => number;
  #store: EngineStore | undefined;
  #bytes = Number.NaN;
  #askedAt = Number.NEGATIVE_INFINITY;
  #isAsking = false;
  #isClosed = false;

  /** @param now milliseconds that only grow. */
  constructor(engine: Engine, now: () => number = () => performance.now()) {
    this.#open = () => engine.connectStore?.();
    this.#now = now;
    const figure: Figure = {
      name: 'engine_bytes',
      help: 'Bytes that the engine takes; asked once a minute, NaN until it has answered.',
      read: (set) => {
        this.#ask();
        set(this.#bytes);
      },
    };
    this.figures = engine.connectStore === undefined ? [] : [figure];
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#store?.close();
  }

  #ask(): void {
    const now = this.#now();
    // An engine may never answer.
    if (this.#isClosed || this.#isAsking || now - this.#askedAt < ASK_MS) return;
    this.#askedAt = now;
    void this.#update();
  }

  async #update(): Promise<void> {
    this.#isAsking = true;
    try {
      this.#store ??= this.#open();
      this.#bytes = (await this.#store?.size()) ?? Number.NaN;
    } catch {
      // It may be anything by now.
      this.#bytes = Number.NaN;
    } finally {
      this.#isAsking = false;
    }
  }
}
