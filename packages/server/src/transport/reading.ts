/** Whether a transport reads: not while the session has paused it, nor while anything else holds it. */
export abstract class Reading {
  #isPaused = false;
  #holds = 0;

  /** Begins or stops to read, after either of the two may have changed. */
  protected abstract setFlow(): void;

  protected get isHeld(): boolean {
    return this.#isPaused || this.#holds > 0;
  }

  pause(): void {
    this.#isPaused = true;
    this.setFlow();
  }

  resume(): void {
    this.#isPaused = false;
    this.setFlow();
  }

  hold(): void {
    this.#holds++;
    this.setFlow();
  }

  unhold(): void {
    this.#holds--;
    this.setFlow();
  }
}
