import type { Logger, UnreadMessages } from '@parlance/protocol';

/** Milliseconds for which a client may grant no room while messages wait for it, before the server reports that. */
export const UNREAD_MS = 10_000;

/** One-way messages that wait because the client has no more room for them. */
export interface Stalled extends UnreadMessages {
  /** Up to where the client accepts; it does not grow unless the client's application reads. */
  readonly granted: number;
}

interface UnreadHost {
  readonly id: string;
  readonly logger: Logger;
  notify(name: 'unread', event: UnreadMessages): void;
}

/** Tells once that the application of a client reads none of the messages that it is sent. */
export class UnreadWatch {
  readonly #host: UnreadHost;
  #granted: number | undefined;
  #since = 0;
  #isTold = false;

  constructor(host: UnreadHost) {
    this.#host = host;
  }

  /** @param stalled `undefined` if nothing waits, or if there is no connection. */
  handleTick(stalled: Stalled | undefined, now: number): void {
    if (stalled === undefined || stalled.granted !== this.#granted) {
      this.#granted = stalled?.granted;
      this.#since = now;
      return;
    }
    if (this.#isTold || now - this.#since < UNREAD_MS) return;
    this.#isTold = true;
    const { messages, bytes } = stalled;
    const fields = { event: 'session.unread', session: this.#host.id, messages, bytes };
    this.#host.logger.warn(
      fields,
      'the client does not read its messages (for await), so that more wait here',
    );
    this.#host.notify('unread', { messages, bytes });
  }
}
