const RESOLVED = Promise.resolve();

/** Keeps messages in order while some take long to code: a message waits for those before it. */
export class CodingOrder {
  /** Bytes of memory of the messages that wait. */
  waitingBytes = 0;
  #last: Promise<void> | undefined;

  /** Resolves when everything that is being coded was sent; `undefined` if nothing is. */
  get pending(): Promise<void> | undefined {
    return this.#last;
  }

  /**
   * Runs `send` after everything that is being coded. An error of one message does not fail the next.
   *
   * @param size bytes of memory of the message.
   */
  push(send: () => Promise<void>, size: number): Promise<void> {
    this.waitingBytes += size;
    const sent = (this.#last ?? RESOLVED).then(send);
    const settle = () => {
      this.waitingBytes -= size;
    };
    const settled = sent.then(settle, settle);
    this.#last = settled;
    void settled.then(() => {
      if (this.#last === settled) this.#last = undefined;
    });
    return sent;
  }
}
