import type { Message } from '@parlance/protocol';
import { SessionMailbox } from '@parlance/protocol/internal';

const DONE: IteratorResult<never, undefined> = { value: undefined, done: true };

/** One reader of the messages. */
class Reader implements AsyncIterator<Message, undefined> {
  readonly #inner: AsyncIterator<Message>;
  #isOver = false;

  constructor(inner: AsyncIterator<Message>) {
    this.#inner = inner;
  }

  /** Not `async`, which would take another promise for each message. */
  next(): Promise<IteratorResult<Message, undefined>> {
    return this.#isOver ? Promise.resolve(DONE) : this.#inner.next();
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

  override [Symbol.asyncIterator](): AsyncIterator<Message> {
    const reader = new Reader(super[Symbol.asyncIterator]());
    this.#reader = reader;
    if (this.#isStopped) reader.stop();
    return reader;
  }

  /** Iterations end, until {@link start}. */
  stop(): void {
    this.#isStopped = true;
    this.#reader?.stop();
    this.#reader = undefined;
  }

  /** Another reader may begin. */
  start(): void {
    this.#isStopped = false;
  }
}
