import { ProtocolError } from '../base/errors.js';
import type { GoAwayPayload } from '../control/messages.js';

/**
 * A client on its way from a session whose server drains to the next one, where it wants one: what it may
 * still do, and the senders that wait for the next session rather than fail for the moment in between.
 */
export class Handover {
  readonly #announced: GoAwayPayload;
  readonly #waiting: { send: () => void; reject: (error: Error) => void }[] = [];
  /** The present session takes nothing more. */
  isClosing = false;

  constructor(announced: GoAwayPayload) {
    this.#announced = announced;
  }

  /** Milliseconds to wait between the two sessions. */
  get retryAfterMs(): number {
    return this.#announced.retryAfterMs;
  }

  /**
   * Sends in the next session, in the order of the calls and before whoever is told that it has begun.
   *
   * @throws {ProtocolError} what ends all of them first.
   */
  inNext(send: () => Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ send: () => void send().then(resolve, reject), reject });
    });
  }

  complete(): void {
    for (const { send } of this.#waiting.splice(0)) send();
  }

  fail(error: Error): void {
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }

  /**
   * What the end of the present session means: `undefined` where nothing was lost with it.
   *
   * @param error why it ended, `undefined` where it did as agreed.
   * @param openReplies replies that were not complete.
   */
  lossOf(error: ProtocolError | undefined, openReplies: number): ProtocolError | undefined {
    const options = { side: 'remote', retryAfterMs: this.retryAfterMs, cause: error } as const;
    if (error === undefined) {
      if (openReplies === 0) return undefined;
      return new ProtocolError(
        'session_lost',
        `the server was shut down before ${openReplies} replies were complete`,
        options,
      );
    }
    if (!error.retryable || error.code === 'session_lost') return error;
    return new ProtocolError('session_lost', `the server was shut down: ${error.message}`, options);
  }
}
