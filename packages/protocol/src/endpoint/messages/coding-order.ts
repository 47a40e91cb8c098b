const RESOLVED = Promise.resolve();
const ignore = () => {};

/**
 * The order of messages of which some take long to code: whatever is given behind one of those waits for
 * it, and keeps its place.
 */
export class CodingOrder {
  #last: Promise<void> | undefined;

  /** Resolves when everything before it was handed over; `undefined` where nothing is being coded. */
  get pending(): Promise<void> | undefined {
    return this.#last;
  }

  /** Runs `send` behind everything that is being coded. One message's error is no error of the next. */
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
