import type { Message } from '@parlance/protocol';
import { Inbox } from '@parlance/protocol/client';
import type { SharedMessage } from './packed-message.js';

/**
 * The one-way messages of a shared session in one tab. An interruption ends the iteration with an error, after what
 * came before; the next `for await` reads what comes after.
 */
export class TabMailbox implements AsyncIterable<Message> {
  #present = create();
  readonly #former: Inbox<SharedMessage>[] = [];

  push(message: SharedMessage): void {
    this.#present.push(message);
  }

  interrupt(error: Error): void {
    this.#present.end(error);
    if (this.#present.size > 0) this.#former.push(this.#present);
    this.#present = create();
  }

  /** Nothing follows. */
  end(error: Error | undefined): void {
    this.#present.end(error);
  }

  [Symbol.asyncIterator](): AsyncIterator<Message> {
    while (this.#former[0]?.size === 0) this.#former.shift();
    return (this.#former[0] ?? this.#present)[Symbol.asyncIterator]();
  }
}

function create(): Inbox<SharedMessage> {
  return new Inbox<SharedMessage>({ onTake: (message) => message.handleTaken() });
}
