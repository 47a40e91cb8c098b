/** Whether a handler is to stop, and why. Most handlers never look at their signal, so it is made when one does. */
export class Cancellation {
  #controller: AbortController | undefined;
  #isAborted = false;
  #reason: unknown;

  get isAborted(): boolean {
    return this.#isAborted;
  }

  get reason(): unknown {
    return this.#reason;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#isAborted) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  /** A second call has no effect. */
  abort(reason: unknown): void {
    if (this.#isAborted) return;
    this.#isAborted = true;
    this.#reason = reason;
    this.#controller?.abort(reason);
  }
}
