import type { Clock } from '@parlance/protocol/client';

/** More than a busy process stands still, in milliseconds. */
const STILL_MS = 5_000;

/**
 * Notices that the process or its machine has stood still, so that the connection may be gone without a word. The monotonic clocks
 * of some systems stop while the machine sleeps, and a clock may be set: both are a reason to ask, and nothing more.
 */
export class Wake {
  readonly #clock: Pick<Clock, 'now'>;
  #now: number;
  #wall = Date.now();

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
    this.#now = clock.now();
  }

  /** Called about once a second. Returns whether it was not called for long. Timers of hidden pages are slow without that. */
  check(): boolean {
    const [now, wall] = [this.#clock.now(), Date.now()];
    const stood = Math.max(now - this.#now, wall - this.#wall);
    [this.#now, this.#wall] = [now, wall];
    const { document } = globalThis as { document?: { readonly visibilityState: string } };
    return stood > STILL_MS && document?.visibilityState !== 'hidden';
  }
}
