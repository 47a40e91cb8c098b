import type { Logger } from '@parlance/protocol';
import { loggable, systemClock } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../endpoint.js';
import type { EngineConnection } from '../engine/engine.js';
import { dropFenced } from '../session/on-record.js';

export interface RecordKeeperOptions {
  /** The owner. */
  readonly incarnation: string;
  readonly sessions: ReadonlyMap<string, ServerEndpoint>;
  link(): EngineConnection;
  /** How long a record lasts without a word, in milliseconds. */
  readonly recordMs: number;
  readonly logger: Logger;
}

/** Keeps what the engine has of sessions for as long as they are here. */
export class RecordKeeper {
  readonly #options: RecordKeeperOptions;
  #keptAt = systemClock.now();

  constructor(options: RecordKeeperOptions) {
    this.#options = options;
  }

  /** Called once in a while. */
  handleTick(): void {
    const { sessions, recordMs } = this.#options;
    const now = systemClock.now();
    if (now - this.#keptAt < recordMs / 2) return;
    this.#keptAt = now;
    const kept = [...sessions.values()].filter(({ epoch, isDurable }) => epoch > 0 || isDurable);
    for (const { record } of kept) record?.tidy();
    if (kept.length > 0) void this.#keep(new Map(kept.map(({ id, epoch }) => [id, epoch])));
  }

  /** The engine may have forgotten the records. */
  keepNow(): void {
    this.#keptAt = Number.NEGATIVE_INFINITY;
    this.handleTick();
  }

  async #keep(epochs: ReadonlyMap<string, number>): Promise<void> {
    const { incarnation, sessions, recordMs, logger } = this.#options;
    try {
      const lost = await this.#options.link().keepSessions(incarnation, epochs, recordMs);
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
    } catch (error) {
      const fields = { event: 'records.stalled', err: loggable(error) };
      logger.warn(fields, 'the records of sessions that have moved could not be kept');
      // Before they expire.
      this.#keptAt = systemClock.now() - recordMs / 4;
    }
  }
}
