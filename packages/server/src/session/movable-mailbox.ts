import type { Message } from '@parlance/protocol';
import { type Received, SessionMailbox } from '@parlance/protocol/internal';

const DONE: IteratorResult<never, undefined> = { value: undefined, done: true };

/** One reader of the messages. */
class Reader implements AsyncIterator<Message, undefined> {
  readonly #inner: AsyncIterator<Message>;
  readonly #onAfter: () => void;
  #isOver = false;

  /** @param onAfter the reader was stopped, and asks for the next message. */
  constructor(inner: AsyncIterator<Message>, onAfter: () => void) {
    this.#inner = inner;
    this.#onAfter = onAfter;
  }

  /** Not `async`, which would take another promise for each message. */
  next(): Promise<IteratorResult<Message, undefined>> {
    if (!this.#isOver) return this.#inner.next();
    this.#onAfter();
    return Promise.resolve(DONE);
  }

  async return(): Promise<IteratorResult<Message, undefined>> {
    if (this.#isOver) return DONE;
    this.#isOver = true;
    await this.#inner.return?.();
    return DONE;
  }

  stop(): void {
    void this.return();
  }
}

/** The mailbox of a session that may move: its reader can be stopped, and what it has not read stays. */
export class MovableMailbox extends SessionMailbox {
  #reader: Reader | undefined;
  #isStopped = false;
  #isStopping = false;
  /** The reader was stopped while it had this message. */
  #left: Received | undefined;

  override [Symbol.asyncIterator](): AsyncIterator<Message> {
    const reader = new Reader(super[Symbol.asyncIterator](), () => this.#handleAfter());
    this.#reader = reader;
    if (this.#isStopped) reader.stop();
    return reader;
  }

  /** Iterations end, until {@link start}. */
  stop(): void {
    this.#isStopped = true;
    this.#isStopping = true;
    this.#reader?.stop();
    this.#isStopping = false;
    this.#reader = undefined;
  }

  /** A message with a number is handled when its reader asks for the next one, also if that is not here. */
  protected override handleDone(message: Received): void {
    if (this.#isStopping && message.number !== undefined) this.#left = message;
    else super.handleDone(message);
  }

  #handleAfter(): void {
    const left = this.#left;
    this.#left = undefined;
    if (left !== undefined) super.handleDone(left);
  }

  /** Another reader may begin. */
  start(): void {
    this.#isStopped = false;
  }
}
