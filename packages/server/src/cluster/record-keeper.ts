import type { Logger } from '@parlance/protocol';
import { loggable, systemClock } from '@parlance/protocol/internal';
import type { EngineConnection } from '../engine/engine.js';
import { dropFenced } from '../session/durable-rules.js';
import type { ServerEndpoint } from '../session/endpoint.js';

export interface RecordKeeperOptions {
  /** The owner. */
  readonly incarnation: string;
  readonly sessions: ReadonlyMap<string, ServerEndpoint>;
  link(): EngineConnection;
  /** How long a record lasts without a word, in milliseconds. */
  readonly retentionMs: number;
  readonly logger: Logger;
}

/** Sessions that are kept at a time. */
const BATCH = 256;

/** Keeps what the engine has of sessions for as long as they are here. */
export class RecordKeeper {
  readonly #options: RecordKeeperOptions;
  #keptAt = systemClock.now();
  /** Counts the calls of {@link keepAll}: only the last one continues. */
  #round = 0;

  constructor(options: RecordKeeperOptions) {
    this.#options = options;
  }

  /** Called once in a while. */
  handleTick(): void {
    const now = systemClock.now();
    if (now - this.#keptAt < this.#options.retentionMs / 2) return;
    this.#keptAt = now;
    void this.keepAll();
  }

  /** The engine may have forgotten the records. */
  keepNow(): void {
    this.#keptAt = Number.NEGATIVE_INFINITY;
    this.handleTick();
  }

  /** Some at a time, so that neither the event loop nor the engine has all of them at once. Never rejects. */
  async keepAll(): Promise<void> {
    const { sessions, retentionMs, logger } = this.#options;
    const round = ++this.#round;
    const all = [...sessions.values()].filter(({ epoch, isDurable }) => epoch > 0 || isDurable);
    try {
      for (let from = 0; from < all.length && round === this.#round; from += BATCH) {
        // One that is over meanwhile would be written again.
        const some = all.slice(from, from + BATCH).filter((each) => sessions.get(each.id) === each);
        for (const { record } of some) record?.tidy();
        if (some.length > 0) await this.#keep(new Map(some.map(({ id, epoch }) => [id, epoch])));
      }
    } catch (error) {
      const fields = { event: 'records.stalled', err: loggable(error) };
      logger.warn(fields, 'the records of sessions that have moved could not be kept');
      // Before they expire.
      this.#keptAt = systemClock.now() - retentionMs / 4;
    }
  }

  async #keep(epochs: ReadonlyMap<string, number>): Promise<void> {
    const { incarnation, sessions, retentionMs, logger } = this.#options;
    const lost = await this.#options.link().keepSessions(incarnation, epochs, retentionMs);
    for (const sessionId of lost) {
      const session = sessions.get(sessionId);
      if (session?.isDurable) {
        dropFenced(session, logger);
        continue;
      }
      const fields = { event: 'session.fenced', session: sessionId };
      logger.warn(fields, 'another node has the session; it ends here');
      session?.forget();
    }
  }
}
