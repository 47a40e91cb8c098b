import type { GoAwayPayload } from '@parlance/protocol';
import { ProtocolError } from '@parlance/protocol/client';

/** The change of a client from a session whose server drains to the next one. */
export class Departure {
  readonly #goAway: GoAwayPayload;
  /** The session is closing and accepts nothing more. */
  isClosing = false;

  constructor(goAway: GoAwayPayload) {
    this.#goAway = goAway;
  }

  /** Milliseconds to wait between the two sessions. */
  get retryAfterMs(): number {
    return this.#goAway.retryAfterMs;
  }

  /** Why nothing can be sent in the session that is left. */
  refusal(): ProtocolError {
    const message = 'the server drains and does not accept new requests';
    return new ProtocolError('draining', message, { retryAfterMs: this.retryAfterMs });
  }

  /**
   * The error that the session ends with; `undefined` if nothing was lost with it.
   *
   * @param error why it ended; `undefined` after an orderly close.
   * @param openReplies the number of replies that were not complete.
   */
  lossOf(error: ProtocolError | undefined, openReplies: number): ProtocolError | undefined {
    const options = { side: 'remote', retryAfterMs: this.retryAfterMs, cause: error } as const;
    if (error === undefined) {
      if (openReplies === 0) return undefined;
      const message = `the server was shut down before ${openReplies} replies were complete`;
      return new ProtocolError('session_lost', message, options);
    }
    if (!error.retryable || error.code === 'session_lost') return error;
    return new ProtocolError('session_lost', `the server was shut down: ${error.message}`, options);
  }
}
