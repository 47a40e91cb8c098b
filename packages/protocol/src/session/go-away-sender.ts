import type { GoAwayPayload } from '../control/messages.js';

/**
 * The server's announcement of draining, and whether the client knows it. GOAWAY is followed by a PING,
 * and its PONG proves that the client has read both: requests that it sent before are served, later ones
 * are refused.
 */
export class GoAwaySender {
  readonly announced: GoAwayPayload;
  #pongsDue = Infinity;

  constructor(announced: GoAwayPayload) {
    this.announced = announced;
  }

  get isAcknowledged(): boolean {
    return this.#pongsDue === 0;
  }

  /** GOAWAY and a PING were sent on the present connection. @param unanswered PINGs that were sent before. */
  handleSent(unanswered: number): void {
    this.#pongsDue = unanswered + 1;
  }

  handlePong(): void {
    if (this.#pongsDue > 0) this.#pongsDue--;
  }
}
