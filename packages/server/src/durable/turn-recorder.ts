import type { Logger } from '@parlance/protocol';
import {
  type Clock,
  type DurableRecord,
  type DurableSession,
  loggable,
  type Turn,
} from '@parlance/protocol/internal';
import type { BackplaneLink, SessionWritten } from '../backplane/backplane.js';
import type { RecordSeal } from '../seal/record-seal.js';
import { type FieldChanges, FieldWriter } from './fields.js';

export interface TurnRecorderOptions {
  readonly link: Pick<BackplaneLink, 'writeSession'>;
  readonly sessionId: string;
  readonly principal: string | undefined;
  /** The node that has the session, and the epoch in which it has. */
  readonly owner: string;
  readonly epoch: number;
  /** What a node before has put on record. */
  readonly record?: DurableRecord | undefined;
  /** Seals what is written, of this session and epoch. @default the engine can read it */
  readonly seal?: RecordSeal | undefined;
  readonly durable: DurableSession;
  readonly ttlMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A turn is on record: there may be something to transmit. */
  onRecorded(): void;
  /** Nothing is written any more: another node has the session, or the engine has forgotten it. */
  onRefused(why: Exclude<SessionWritten, 'written'>): void;
}

/** The delay before a turn is written again, which doubles, in milliseconds. */
const FIRST_DELAY_MS = 25;
const LAST_DELAY_MS = 1_000;
/** After so many milliseconds without an answer that is logged. */
export const STALL_MS = 5_000;

interface Write {
  readonly turn: Turn;
  readonly changes: FieldChanges;
  readonly since: number;
}

/** Writes the turns of one session to the engine, one at a time, each until it is on record or refused. */
export class TurnRecorder {
  readonly #options: TurnRecorderOptions;
  readonly #writer: FieldWriter;
  #isWriting = false;
  #isAwake = false;
  #isClosed = false;
  #isStalled = false;

  constructor(options: TurnRecorderOptions) {
    this.#options = options;
    this.#writer = new FieldWriter(options.principal, options.record);
  }

  /** Something may have happened. What happens in the same turn of the event loop is written together. */
  wake(): void {
    if (this.#isAwake || this.#isWriting || this.#isClosed || this.#options.durable.isIdle) return;
    this.#isAwake = true;
    queueMicrotask(() => {
      this.#isAwake = false;
      this.#next(false);
    });
  }

  /** Writes also what is not needed any more. */
  tidy(): void {
    if (!this.#isWriting) this.#next(true);
  }

  /** Writes nothing any more, nor again. */
  close(): void {
    this.#isClosed = true;
  }

  #next(takesAll: boolean): void {
    if (this.#isWriting || this.#isClosed) return;
    const { durable, clock, seal } = this.#options;
    const turn = durable.pollTurn(takesAll);
    if (turn === undefined) return;
    this.#isWriting = true;
    const plain = this.#writer.write(turn);
    const changes = seal?.seal(turn.number, plain) ?? plain;
    void this.#write({ turn, changes, since: clock.now() }, FIRST_DELAY_MS);
  }

  /** Never rejects. */
  async #write(write: Write, delayMs: number): Promise<void> {
    const { link, sessionId, owner, epoch, ttlMs, clock } = this.#options;
    const { turn, changes, since } = write;
    try {
      const { number } = turn;
      const isFirst = turn.begin !== undefined;
      const head = { owner, epoch, number, isFirst, ttlMs };
      this.#handleWritten(await link.writeSession(sessionId, { ...head, ...changes }));
    } catch (error) {
      if (this.#isClosed) return;
      if (clock.now() - since >= STALL_MS) this.#warn(error);
      clock.after(delayMs, () => {
        if (!this.#isClosed) void this.#write(write, Math.min(2 * delayMs, LAST_DELAY_MS));
      });
    }
  }

  #handleWritten(answer: SessionWritten): void {
    const { durable, clock, onRecorded, onRefused, logger, sessionId } = this.#options;
    if (this.#isClosed) return;
    if (this.#isStalled) {
      this.#isStalled = false;
      logger.info({ event: 'engine.answered', session: sessionId }, 'the engine records turns again');
    }
    this.#isWriting = false;
    if (answer !== 'written') {
      this.close();
      return onRefused(answer);
    }
    durable.handleRecorded(clock.now());
    onRecorded();
    this.wake();
  }

  /** Once, until it answers again. */
  #warn(error: unknown): void {
    if (this.#isStalled) return;
    this.#isStalled = true;
    const { logger, sessionId } = this.#options;
    const fields = { event: 'engine.stalled', session: sessionId, err: loggable(error) };
    logger.warn(fields, 'a durable session waits for its engine');
  }
}
