import { Fifo } from '../../base/fifo.js';

/** A frame that is not acknowledged before its content is recorded. */
export interface UnacknowledgedFrame {
  readonly frame: number;
  /** The number of the one-way message; `undefined` for a request. */
  readonly message: number | undefined;
  isDurable: boolean;
}

/** The frames that wait to be acknowledged, in order. */
export class Unacknowledged {
  readonly #frames = new Fifo<UnacknowledgedFrame>();

  /** @param frame the count of the frame. */
  add(frame: number, message: number | undefined): UnacknowledgedFrame {
    const added = { frame, message, isDurable: false };
    this.#frames.push(added);
    return added;
  }

  clear(): void {
    this.#frames.clear();
  }

  /** How many of the `received` frames may be acknowledged. */
  acknowledgeable(received: number): number {
    const { first } = this.#frames;
    return first === undefined ? received : first.frame - 1;
  }

  /** @param isDurable whether a message is recorded as handled. */
  release(isDurable: (message: number) => boolean): void {
    for (let { first } = this.#frames; first !== undefined; first = this.#frames.first) {
      const { message } = first;
      if (message === undefined ? !first.isDurable : !isDurable(message)) return;
      this.#frames.shift();
    }
  }
}
