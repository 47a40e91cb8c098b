import type { TensorMessage } from '../tensors/message.js';
import { Inbox, type InboxOptions } from './inbox.js';
import type { Message, ReceivedMessage } from './message.js';

/** A message or tensor that waits for the application. */
export type Received = ReceivedMessage | TensorMessage;

/** Received messages that wait for the application to read them. */
export interface Mailbox extends AsyncIterable<Message> {
  /** Messages that wait. */
  readonly size: number;
  push(message: Received): void;
  /** Accepts no more messages. The reader throws `error`, if given, after the last one. */
  end(error: Error | undefined): void;
}

/** The mailbox of one session. Reading a message credits the session that it belongs to. */
export class SessionMailbox implements Mailbox, InboxOptions<Received> {
  readonly #inbox = new Inbox<Received>(this);
  /** The message that the reader took last. */
  #taken: Received | undefined;

  get size(): number {
    return this.#inbox.size;
  }

  /** The messages that were not read, oldest first. */
  get unread(): Iterable<Received> {
    return this.#inbox.items;
  }

  push(message: Received): void {
    this.#inbox.push(message);
  }

  end(error: Error | undefined): void {
    this.#inbox.end(error);
  }

  /** Drops the messages that were not read, of sessions whose memory is released already. */
  clear(): void {
    this.#inbox.clear();
  }

  [Symbol.asyncIterator](): AsyncIterator<Message> {
    return this.#inbox[Symbol.asyncIterator]();
  }

  onTake(message: Received): void {
    this.#taken = message;
    // Has no effect if that session has ended.
    message.owner?.handleTaken(message.charge, message);
  }

  /** The reader has taken a message, and is not done with it. */
  get isReading(): boolean {
    return this.#taken !== undefined;
  }

  /** The reader does not come back to a message. */
  protected handleDone(message: Received): void {
    message.owner?.handleDone?.(message.number, message);
  }

  onDone(): void {
    const taken = this.#taken;
    this.#taken = undefined;
    if (taken === undefined) return;
    this.handleDone(taken);
    taken.release();
  }
}
