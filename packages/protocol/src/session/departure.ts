import { ProtocolError } from '../base/errors.js';
import type { GoAwayPayload } from '../control/messages.js';

/**
 * The server's side of GOAWAY: what it has announced, and whether the client has heard it. A PING follows
 * GOAWAY, and its PONG proves that the client has read both: what it opened before was opened in good faith
 * and is served, what it opens afterwards is not.
 */
export class Departure {
  readonly announced: GoAwayPayload;
  #pongsDue = Infinity;

  constructor(announced: GoAwayPayload) {
    this.announced = announced;
  }

  get isHeard(): boolean {
    return this.#pongsDue === 0;
  }

  /** GOAWAY and a PING were written on the present connection. @param unanswered PINGs before that one. */
  handleSaid(unanswered: number): void {
    this.#pongsDue = unanswered + 1;
  }

  handlePong(): void {
    if (this.#pongsDue > 0) this.#pongsDue--;
  }
}

/** What a request is answered that comes in spite of GOAWAY, at either end. */
export function drainingError({ retryAfterMs }: Pick<GoAwayPayload, 'retryAfterMs'>): ProtocolError {
  return new ProtocolError('draining', 'the server drains and takes no new requests', { retryAfterMs });
}
