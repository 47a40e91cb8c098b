import type { GoAwayPayload, Logger } from '@parlance/protocol';
import { CloseCode, type Wire } from '@parlance/protocol/client';

/** Connections that may bring a session back to the same server that drains. */
const MAX_MOVES = 5;

/**
 * The moves of a session to another connection while the present one continues: its server asks, or there is a better
 * one.
 */
export class Moves {
  /** The other connection is not open yet. */
  isUnderWay = false;
  readonly #logger: Logger;
  readonly #moveWithin: (withinMs: number) => void;
  /** The connection that the session has left for another one, until that has resumed it. */
  #left: Wire | undefined;
  /** How often a server that ends at {@link #deadline} has asked to move. */
  #count = 0;
  #deadline = 0;

  /** @param moveWithin opens another connection within so many milliseconds. */
  constructor(logger: Logger, moveWithin: (withinMs: number) => void) {
    this.#logger = logger;
    this.#moveWithin = moveWithin;
  }

  begin({ deadline, retryAfterMs }: GoAwayPayload): void {
    if (deadline !== this.#deadline) this.#count = 0;
    this.#deadline = deadline;
    if (this.isUnderWay) return;
    if (++this.#count > MAX_MOVES)
      return this.#logger.warn({ event: 'session.warning' }, 'the session cannot move');
    this.make(retryAfterMs);
  }

  /** Opens another connection within so many milliseconds, in place of a time that was set before. */
  make(withinMs: number): void {
    this.isUnderWay = true;
    this.#moveWithin(withinMs);
  }

  /** Another connection is open. @param former the connection that it takes the place of, if that is still there. */
  handleConnected(former: Wire | undefined): void {
    this.closeLeft();
    this.isUnderWay = false;
    this.#left = former;
  }

  /** For a server that has not noticed that the session moves, the connection is only lost. */
  closeLeft(): void {
    this.#left?.close(CloseCode.TIMEOUT, '');
    this.#left = undefined;
  }
}
