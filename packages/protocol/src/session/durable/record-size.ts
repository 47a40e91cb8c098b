import { ProtocolError } from '../../base/errors.js';
import { Fifo } from '../../base/fifo.js';

/** The bytes of bodies and of state that a session has recorded, or is about to record. */
export class RecordSize {
  readonly #max: number;
  #bytes = 0;
  /** The sizes of the messages to the client among them. */
  readonly #messages = new Fifo<number>();

  constructor(max = Infinity) {
    this.#max = max;
  }

  /** @throws {ProtocolError} `over_budget` if the record would become too large. */
  charge(bytes: number): void {
    const size = this.#bytes + bytes;
    if (bytes > 0 && size > this.#max) {
      throw new ProtocolError(
        'over_budget',
        `the session would have ${size} bytes in its record; at most ${this.#max} are possible`,
      );
    }
    this.#bytes = size;
  }

  /** Counts bytes that are recorded already; a negative number counts bytes that have left the record. */
  add(bytes: number): void {
    this.#bytes += bytes;
  }

  /** Counts a message, whose bytes are charged. */
  addMessage(bytes: number): void {
    this.#messages.push(bytes);
  }

  /** The record does not need the oldest message any more. Returns `false` if there is none. */
  dropMessage(): boolean {
    const bytes = this.#messages.shift();
    this.#bytes -= bytes ?? 0;
    return bytes !== undefined;
  }
}
