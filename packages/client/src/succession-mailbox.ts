import type { Message } from '@parlance/protocol';
import { type Mailbox, type Received, SessionMailbox } from '@parlance/protocol/client';

/**
 * The messages of all sessions of a client. Messages that a lost session has acknowledged stay readable; the
 * next `for await` gets them before those of the sessions after it.
 */
export class SuccessionMailbox implements Mailbox {
  #present = new SessionMailbox();
  readonly #former: SessionMailbox[] = [];
  /**
   * The messages of the next session follow in the same mailbox, so it does not end with the present session.
   */
  isContinued = false;

  get size(): number {
    return this.#present.size;
  }

  push(message: Received): void {
    this.#present.push(message);
  }

  end(error: Error | undefined): void {
    if (!this.isContinued) this.#present.end(error);
  }

  /** A session follows {@link end}, for another `for await`. */
  reopen(): void {
    if (this.#present.size > 0) this.#former.push(this.#present);
    this.#present = new SessionMailbox();
  }

  [Symbol.asyncIterator](): AsyncIterator<Message> {
    while (this.#former[0]?.size === 0) this.#former.shift();
    return (this.#former[0] ?? this.#present)[Symbol.asyncIterator]();
  }
}
