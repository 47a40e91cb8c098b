import { ProtocolError } from '../errors.js';

/**
 * A queue with one asynchronous reader. Items stay in order; an error is thrown after everything
 * before it was read. Leaving a `for await` releases the queue, so that somebody else may read on.
 */
export interface Inbox<Item> extends AsyncIterable<Item> {
  readonly size: number;
  push(item: Item): void;
  /** No more items; with an error the reader throws it at the end. Later calls change nothing. */
  end(error?: Error): void;
  /** Forgets what was not read. */
  clear(): void;
}

interface Waiting<Item> {
  readonly resolve: (result: IteratorResult<Item, undefined>) => void;
  readonly reject: (error: Error) => void;
}

export interface InboxOptions<Item> {
  /** The reader has taken an item, or `clear` has dropped it. */
  readonly onTake?: (item: Item) => void;
  /** A reader has left before the end. */
  readonly onRelease?: () => void;
}

export function createInbox<Item>({ onTake, onRelease }: InboxOptions<Item> = {}): Inbox<Item> {
  const items: (Item | undefined)[] = [];
  let head = 0;
  let ended = false;
  let failure: Error | undefined;
  let waiting: Waiting<Item> | undefined;
  let hasReader = false;

  const done: IteratorResult<Item, undefined> = { value: undefined, done: true };

  return {
    get size() {
      return items.length - head;
    },

    push(item) {
      if (ended) return;
      if (waiting !== undefined) {
        const { resolve } = waiting;
        waiting = undefined;
        resolve({ value: item, done: false });
        onTake?.(item);
      } else {
        items.push(item);
      }
    },

    end(error) {
      if (ended) return;
      ended = true;
      failure = error;
      if (waiting === undefined) return;
      const { resolve, reject } = waiting;
      waiting = undefined;
      if (error === undefined) resolve(done);
      else reject(error);
    },

    clear() {
      const dropped = items.slice(head);
      items.length = 0;
      head = 0;
      for (const item of dropped) onTake?.(item as Item);
    },

    [Symbol.asyncIterator]() {
      if (hasReader)
        throw new ProtocolError('invalid_argument', 'there is one reader at a time; the other has not left');
      hasReader = true;
      return {
        next() {
          if (head < items.length) {
            const value = items[head] as Item;
            // What was read is not kept, and shifting one by one would be quadratic for a reader that lags.
            items[head++] = undefined;
            if (head === items.length || (head >= 256 && head * 2 >= items.length)) {
              items.splice(0, head);
              head = 0;
            }
            onTake?.(value);
            return Promise.resolve({ value, done: false as const });
          }
          if (ended) {
            hasReader = false;
            return failure === undefined ? Promise.resolve(done) : Promise.reject(failure);
          }
          if (waiting !== undefined) {
            return Promise.reject(new ProtocolError('invalid_argument', 'one next() at a time'));
          }
          return new Promise((resolve, reject) => {
            waiting = { resolve, reject };
          });
        },
        return() {
          hasReader = false;
          waiting?.resolve(done);
          waiting = undefined;
          onRelease?.();
          return Promise.resolve(done);
        },
      };
    },
  };
}
