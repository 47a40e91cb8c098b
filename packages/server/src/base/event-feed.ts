import type { Logger } from '@parlance/protocol';
import { attempt } from '@parlance/protocol/internal';

/** A line of the log: what has happened, without content and tokens. */
export interface FeedEvent {
  /** Unix milliseconds. */
  readonly at: number;
  readonly level: Level;
  readonly event: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

type Level = 'debug' | 'info' | 'warn' | 'error';
const LEVELS: readonly Level[] = ['debug', 'info', 'warn', 'error'];

type Listener = (event: FeedEvent) => void;

/** Shows listeners each line that a server logs. Costs a comparison per line without listeners. */
export class EventFeed {
  readonly #listeners = new Set<Listener>();

  /** @returns a function that ends the subscription. */
  subscribe(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** A logger that passes each line on. @param logger never throws. */
  around(logger: Logger): Logger {
    const entries = LEVELS.map((level): [Level, Logger[Level]] => [
      level,
      (fields, message) => {
        if (this.#listeners.size > 0) this.#tell(level, fields, message);
        logger[level](fields, message);
      },
    ]);
    return Object.fromEntries(entries) as unknown as Logger;
  }

  #tell(level: Level, given: object, message: string): void {
    const { event, ...fields } = given as { readonly event?: unknown };
    if (typeof event !== 'string') return;
    const line: FeedEvent = { at: Date.now(), level, event, message, fields };
    // A listener that fails must not keep a line from the log.
    for (const listener of this.#listeners) attempt(() => listener(line));
  }
}
