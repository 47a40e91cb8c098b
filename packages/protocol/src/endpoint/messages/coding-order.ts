const RESOLVED = Promise.resolve();
const ignore = () => {};

/** Keeps messages in order while some take long to code: a message waits for those before it. */
export class CodingOrder {
  #last: Promise<void> | undefined;

  /** Resolves when everything that is being coded was sent; `undefined` if nothing is. */
  get pending(): Promise<void> | undefined {
    return this.#last;
  }

  /** Runs `send` after everything that is being coded. An error of one message does not fail the next. */
  push(send: () => Promise<void>): Promise<void> {
    const sent = (this.#last ?? RESOLVED).then(send);
    const settled = sent.then(ignore, ignore);
    this.#last = settled;
    void settled.then(() => {
      if (this.#last === settled) this.#last = undefined;
    });
    return sent;
  }
}
