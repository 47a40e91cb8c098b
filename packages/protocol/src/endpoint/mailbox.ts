import { Inbox, type InboxOptions } from './messages/inbox.js';
import type { Message, ReceivedMessage } from './messages/message.js';
import type { TensorMessage } from './tensors/message.js';

type Received = ReceivedMessage | TensorMessage;

/** The endpoint whose messages are read. */
export interface MailboxHost {
  /** A message of the present session was read, that was charged `charge`. */
  handleTaken(charge: number): void;
}

/**
 * The messages that wait to be read, across the sessions that a client has one after the other. What was
 * acknowledged is read although its session is gone, and gives no credit to the one that has come since.
 */
export class Mailbox implements InboxOptions<Received> {
  readonly #host: MailboxHost;
  #inbox: Inbox<Received> = new Inbox(this);
  /** What of lost sessions was not read, in their order; it comes before anything else. */
  readonly #former: Inbox<Received>[] = [];
  /** The message that the reader has taken last. */
  #taken: Received | undefined;
  /** Messages of `#inbox` that belong to the session before. */
  #inherited = 0;

  constructor(host: MailboxHost) {
    this.#host = host;
  }

  onDone(): void {
    this.#taken?.release();
    this.#taken = undefined;
  }

  /** Messages that wait. */
  get size(): number {
    return this.#inbox.size;
  }

  push(message: Received): void {
    this.#inbox.push(message);
  }

  [Symbol.asyncIterator](): AsyncIterator<Message> {
    while (this.#former[0]?.size === 0) this.#former.shift();
    return (this.#former[0] ?? this.#inbox)[Symbol.asyncIterator]();
  }

  /** No more messages; with an error the reader throws it behind the last one. */
  end(error: Error | undefined): void {
    this.#inbox.end(error);
  }

  /** A session follows that misses nothing, so its reader reads on. */
  continue(): void {
    this.#inherited = this.#inbox.size;
  }

  /** A session follows {@link end}, for a reader of its own. */
  reopen(): void {
    this.#inherited = 0;
    if (this.#inbox.size > 0) this.#former.push(this.#inbox);
    this.#inbox = new Inbox(this);
  }

  onTake(message: Received, inbox: Inbox<Received>): void {
    this.#taken = message;
    if (inbox !== this.#inbox) return;
    if (this.#inherited > 0) this.#inherited--;
    else this.#host.handleTaken(message.charge);
  }
}
