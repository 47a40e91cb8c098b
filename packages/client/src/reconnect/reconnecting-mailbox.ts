import type { Logger } from '@parlance/protocol';
import { SessionMailbox } from '@parlance/protocol/client';

/** Sessions in a row that may be lost while messages of theirs wait, each of which has at most its window of them. */
const MAX_LOST = 16;

/**
 * The messages of all sessions of a client. One reader gets them all: messages that a lost session has acknowledged
 * stay readable, before those of the sessions after it.
 */
export class ReconnectingMailbox extends SessionMailbox {
  /** A session follows the present one, so the mailbox does not end with it. */
  isContinued = false;
  #lost = 0;

  override end(error: Error | undefined): void {
    if (!this.isContinued) super.end(error);
  }

  /** Another session follows one that was lost. A page that never reads must not collect what all of them have left. */
  handleLost(logger: Logger): void {
    this.#lost = this.size > 0 ? this.#lost + 1 : 0;
    if (this.#lost <= MAX_LOST) return;
    logger.warn({ event: 'message.unread', dropped: this.size }, 'dropped messages of lost sessions');
    this.clear();
    this.#lost = 0;
  }
}
