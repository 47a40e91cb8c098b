import type { Statements } from './statements.js';

/**
 * Acknowledgement by counting: both ends count the counted frames of a session, per direction, and no
 * frame carries a number. The receiver states its count after 32 frames, 64 KiB or 200 ms, whichever
 * comes first.
 */

const MAX_FRAMES = 32;
const MAX_BYTES = 64 * 1024;
const MAX_DELAY_MS = 200;

export class Acknowledgement {
  /** Counted frames received since the session began. */
  received = 0;
  /** When the next acknowledgement is due, `Infinity` where all is acknowledged. */
  due = Infinity;
  readonly #statements: Pick<Statements, 'acknowledge'>;
  #acknowledged = 0;
  #bytes = 0;

  constructor(statements: Pick<Statements, 'acknowledge'>) {
    this.#statements = statements;
  }

  handleReceived(bytes: number, now: number): void {
    this.received++;
    this.#bytes += bytes;
    if (this.received - this.#acknowledged >= MAX_FRAMES || this.#bytes >= MAX_BYTES) this.restate();
    else if (this.due === Infinity) this.due = now + MAX_DELAY_MS;
  }

  handleTimeout(now: number): void {
    if (now >= this.due) this.restate();
  }

  /** States the count whether anything is due or not. */
  restate(): void {
    this.#acknowledged = this.received;
    this.#bytes = 0;
    this.due = Infinity;
    this.#statements.acknowledge(this.received);
  }
}
