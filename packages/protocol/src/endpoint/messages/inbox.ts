import { ProtocolError } from '../../base/errors.js';
import { Fifo } from '../../base/fifo.js';

/** Settles the promise of the waiting reader; a rejected promise rejects it. */
type Settle<Item> = (result: IteratorResult<Item, undefined> | Promise<never>) => void;

type Failure = Error | (() => Error | undefined) | undefined;

export interface InboxOptions<Item> {
  /** The reader took an item, or `clear` dropped it. */
  onTake?(item: Item, inbox: Inbox<Item>): void;
  /** The reader is done with the last item that it took, if any. */
  onDone?(): void;
  /** A reader left before the end. */
  onRelease?(): void;
  /** Only one reader in all, and not one after the other. @default false */
  readonly isReadOnce?: boolean;
}

/**
 * A queue with one asynchronous reader. Items stay in order; an error is thrown after the items before it.
 * Leaving a `for await` releases the queue to another reader. The queue is its own iterator, so that an idle
 * one needs little memory.
 */
export class Inbox<Item> implements AsyncIterableIterator<Item, undefined> {
  readonly #options: InboxOptions<Item>;
  /** Created when the first item has to wait. */
  #items: Fifo<Item> | undefined;
  #hasEnded = false;
  #failure: Failure;
  #waiting: Settle<Item> | undefined;
  #hasReader = false;

  constructor(options: InboxOptions<Item> = {}) {
    this.#options = options;
  }

  get size(): number {
    return this.#items?.size ?? 0;
  }

  /** The items that were not read, oldest first. */
  get items(): Iterable<Item> {
    return this.#items ?? [];
  }

  push(item: Item): void {
    if (this.#hasEnded) return;
    const settle = this.#waiting;
    if (settle === undefined) {
      this.#items ??= new Fifo();
      this.#items.push(item);
      return;
    }
    this.#waiting = undefined;
    settle({ value: item, done: false });
    this.#options.onTake?.(item, this);
  }

  /**
   * Accepts no more items. Only the first call counts.
   *
   * @param error thrown to the reader after the last item; a function is called when the reader gets there.
   */
  end(error?: Failure): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#failure = error;
    const settle = this.#waiting;
    this.#waiting = undefined;
    if (settle === undefined) return;
    this.#release();
    settle(this.#outcome());
  }

  /** Drops the items that were not read. */
  clear(): void {
    const dropped = [...this.items];
    this.#items = undefined;
    for (const item of dropped) this.#options.onTake?.(item, this);
  }

  /** @throws {ProtocolError} `invalid_argument` if there is another reader. */
  [Symbol.asyncIterator](): AsyncIterableIterator<Item, undefined> {
    if (this.#hasReader) throw this.#options.isReadOnce ? readTwice() : twoReaders();
    this.#hasReader = true;
    return this;
  }

  next(): Promise<IteratorResult<Item, undefined>> {
    this.#options.onDone?.();
    if (this.size > 0) return Promise.resolve({ value: this.#shift(), done: false });
    if (this.#hasEnded) {
      this.#release();
      return Promise.resolve(this.#outcome());
    }
    if (this.#waiting !== undefined) {
      return Promise.reject(
        new ProtocolError('invalid_argument', 'only one next() at a time: wait for the last one'),
      );
    }
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }

  #release(): void {
    this.#hasReader = this.#options.isReadOnce === true;
  }

  #outcome(): typeof DONE | Promise<never> {
    const failure = typeof this.#failure === 'function' ? this.#failure() : this.#failure;
    return failure === undefined ? DONE : Promise.reject(failure);
  }

  #shift(): Item {
    const value = this.#items?.shift() as Item;
    this.#options.onTake?.(value, this);
    return value;
  }

  return(): Promise<IteratorResult<Item, undefined>> {
    this.#options.onDone?.();
    this.#release();
    this.#waiting?.(DONE);
    this.#waiting = undefined;
    this.#options.onRelease?.();
    return Promise.resolve(DONE);
  }
}

/** The error of a second loop over a reply. */
export function readTwice(): ProtocolError {
  const message =
    'a reply is read once, and another loop reads it or has read it; keep the parts to use them again';
  return new ProtocolError('invalid_argument', message);
}

function twoReaders(): ProtocolError {
  return new ProtocolError('invalid_argument', 'only one reader at a time: another loop is still reading');
}

const DONE: IteratorResult<never, undefined> = { value: undefined, done: true };
