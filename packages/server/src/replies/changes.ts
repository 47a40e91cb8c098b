/** Waits for changes of one reply. */
export class Changes {
  readonly #signal: AbortSignal;
  readonly #unwatch: () => void;
  readonly #wakeUp = () => this.#wake();
  #isDue = false;
  #waiting: (() => void) | undefined;

  constructor(watch: (onChange: () => void) => () => void, signal: AbortSignal) {
    this.#signal = signal;
    this.#unwatch = watch(this.#wakeUp);
    signal.addEventListener('abort', this.#wakeUp, { once: true });
  }

  /** Resolves when something has changed since the last call, or the signal has aborted. */
  async next(): Promise<void> {
    if (!this.#isDue && !this.#signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#waiting = resolve;
      });
    }
    this.#isDue = false;
  }

  stop(): void {
    this.#unwatch();
    this.#signal.removeEventListener('abort', this.#wakeUp);
  }

  #wake(): void {
    this.#isDue = true;
    this.#waiting?.();
    this.#waiting = undefined;
  }
}
