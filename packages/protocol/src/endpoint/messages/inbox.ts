import { ProtocolError } from '../../base/errors.js';
import { Fifo } from '../../base/fifo.js';

/** Settles what the reader waits for; a rejected promise rejects it. */
type Settle<Item> = (result: IteratorResult<Item, undefined> | Promise<never>) => void;

type Failure = Error | (() => Error | undefined) | undefined;

export interface InboxOptions<Item> {
  /** The reader has taken an item, or `clear` has dropped it. */
  onTake?(item: Item, inbox: Inbox<Item>): void;
  /** The reader is done with the item that it took last, if it took one. */
  onDone?(): void;
  /** A reader has left before the end. */
  onRelease?(): void;
}

/**
 * A queue with one asynchronous reader. Items stay in order; an error is thrown after everything
 * before it was read. Leaving a `for await` releases the queue, so that somebody else may read on. It is
 * its own iterator: most of them wait for most of the time, and an idle one should weigh little.
 */
export class Inbox<Item> implements AsyncIterableIterator<Item, undefined> {
  readonly #options: InboxOptions<Item>;
  readonly #items = new Fifo<Item>();
  #hasEnded = false;
  #failure: Failure;
  #waiting: Settle<Item> | undefined;
  #hasReader = false;

  constructor(options: InboxOptions<Item> = {}) {
    this.#options = options;
  }

  get size(): number {
    return this.#items.size;
  }

  push(item: Item): void {
    if (this.#hasEnded) return;
    const settle = this.#waiting;
    if (settle === undefined) {
      this.#items.push(item);
      return;
    }
    this.#waiting = undefined;
    settle({ value: item, done: false });
    this.#options.onTake?.(item, this);
  }

  /**
   * No more items; with an error the reader throws it at the end. Later calls change nothing.
   *
   * @param error a function is asked when the reader has got there.
   */
  end(error?: Failure): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#failure = error;
    const settle = this.#waiting;
    this.#waiting = undefined;
    settle?.(this.#outcome());
  }

  /** Forgets what was not read. */
  clear(): void {
    const dropped = [...this.#items];
    this.#items.clear();
    for (const item of dropped) this.#options.onTake?.(item, this);
  }

  /** @throws {ProtocolError} `invalid_argument` while another reader has not left. */
  [Symbol.asyncIterator](): AsyncIterableIterator<Item, undefined> {
    if (this.#hasReader)
      throw new ProtocolError('invalid_argument', 'there is one reader at a time; the other has not left');
    this.#hasReader = true;
    return this;
  }

  /** For the reader. */
  next(): Promise<IteratorResult<Item, undefined>> {
    this.#options.onDone?.();
    if (this.#items.size > 0) return Promise.resolve({ value: this.#shift(), done: false });
    if (this.#hasEnded) {
      this.#hasReader = false;
      return Promise.resolve(this.#outcome());
    }
    if (this.#waiting !== undefined) {
      return Promise.reject(new ProtocolError('invalid_argument', 'one next() at a time'));
    }
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }

  #outcome(): typeof DONE | Promise<never> {
    const failure = typeof this.#failure === 'function' ? this.#failure() : this.#failure;
    return failure === undefined ? DONE : Promise.reject(failure);
  }

  #shift(): Item {
    const value = this.#items.shift() as Item;
    this.#options.onTake?.(value, this);
    return value;
  }

  /** The reader leaves. */
  return(): Promise<IteratorResult<Item, undefined>> {
    this.#options.onDone?.();
    this.#hasReader = false;
    this.#waiting?.(DONE);
    this.#waiting = undefined;
    this.#options.onRelease?.();
    return Promise.resolve(DONE);
  }
}

const DONE: IteratorResult<never, undefined> = { value: undefined, done: true };
