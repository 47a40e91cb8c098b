import type { Logger } from '@parlance/protocol';
import {
  type Clock,
  type Commit,
  type DurableRecord,
  type DurableSession,
  loggable,
} from '@parlance/protocol/internal';
import type { EngineConnection, FieldChanges, SessionWrite, SessionWritten } from '../engine/engine.js';
import type { RecordSeal } from '../engine/seal/record-seal.js';
import type { Capacity } from './capacity.js';
import { FieldWriter } from './fields.js';

export interface CommitRecorderOptions {
  readonly link: Pick<EngineConnection, 'writeSession'>;
  readonly sessionId: string;
  readonly principal: string | undefined;
  /** The node that has the session, and the epoch in which it has. */
  readonly owner: string;
  readonly epoch: number;
  /** The record that a former node has written. */
  readonly record?: DurableRecord | undefined;
  /** Its fields, as the engine has them. */
  readonly fields?: ReadonlyMap<string, Uint8Array> | undefined;
  /** Seals what is written, of this session and epoch. @default the engine can read it */
  readonly seal?: RecordSeal | undefined;
  readonly durable: DurableSession;
  readonly ttlMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A commit is recorded: there may be something to transmit. */
  onCommitted(): void;
  /** Nothing is written any more: another node has the session, or the engine has forgotten it. */
  onRefused(why: CommitRefusal): void;
  /** Bytes that the record may have. @default no bound */
  readonly capacity?: Capacity | undefined;
  /** Whether a commit counts as recorded only when a replica has it as well. @default false */
  readonly isReplicated?: boolean | undefined;
  /** After so many milliseconds without an answer, the recorder logs that. @default 5,000 */
  readonly stallMs?: number | undefined;
  /**
   * Whether the session continues after {@link stallMs} as if all were recorded. Changes meanwhile are written in one
   * commit when the engine answers again. @default it waits
   */
  readonly degrades?: boolean | undefined;
}

/** `full`: the session, or its principal, has no room left in the engine. */
export type CommitRefusal = 'fenced' | 'gone' | 'full';

/** The delay before a commit is written again, which doubles, in milliseconds. */
const FIRST_DELAY_MS = 25;
const LAST_DELAY_MS = 1_000;
export const STALL_MS = 5_000;

interface Write {
  /** Of the last commit in it. */
  number: number;
  readonly isFirst: boolean;
  /** It says who may resume the session, which no node may only believe. */
  readonly isAccept: boolean;
  readonly changes: FieldChanges;
  readonly since: number;
}

/** Writes the commits of one session to the engine, one at a time, each until it is recorded or refused. */
export class CommitRecorder {
  readonly ttlMs: number;
  readonly #options: CommitRecorderOptions;
  readonly #writer: FieldWriter;
  #isWriting = false;
  #isClosed = false;
  #isStalled = false;
  /** The write without whose answer the session has continued. It grows until it is recorded. */
  #ahead: Write | undefined;
  /** All fields, for an engine that has forgotten some. */
  readonly #fields: Map<string, Uint8Array>;
  /** The last recorded commit. */
  #recorded = 0;
  /** The last call is answered, or has failed. Never rejects. */
  settled: Promise<unknown> = Promise.resolve();

  constructor(options: CommitRecorderOptions) {
    this.#options = options;
    this.ttlMs = options.ttlMs;
    this.#fields = new Map(options.fields);
    this.#writer = new FieldWriter(options.principal, options.record);
    // Changes of the same task are written together.
    options.durable.whenDue(() => queueMicrotask(() => this.#next(false)));
  }

  /** Writes also what is not needed any more. */
  tidy(): void {
    if (!this.#isWriting) this.#next(true);
    void this.#options.capacity?.renew();
  }

  /** Writes nothing any more, nor again. */
  close(): void {
    this.#isClosed = true;
  }

  #next(takesAll: boolean): void {
    if (this.#isWriting || this.#isClosed) return;
    const { durable, clock, seal } = this.#options;
    const commit = durable.pollCommit(takesAll);
    if (commit === undefined) return;
    const plain = this.#writer.write(commit);
    const isAccept = commit.accept !== undefined;
    const changes = seal?.seal(commit.number, plain) ?? plain;
    for (const [name, value] of changes.set) this.#fields.set(name, value);
    for (const name of changes.remove) this.#fields.delete(name);
    if (this.#ahead !== undefined) {
      add(this.#ahead, commit, changes);
      this.#isWriting = isAccept;
      return isAccept ? undefined : this.#goOn();
    }
    this.#isWriting = true;
    const { number } = commit;
    const write = { number, isFirst: commit.begin !== undefined, isAccept, changes, since: clock.now() };
    void this.#write(write, FIRST_DELAY_MS);
  }

  /** Reports the commit, so that the session sends what waited for it. */
  #goOn(): void {
    const { durable, clock, onCommitted } = this.#options;
    durable.handleCommitted(clock.now());
    onCommitted();
  }

  /** Never rejects. */
  async #write(write: Write, delayMs: number): Promise<void> {
    const { clock, stallMs = STALL_MS, degrades } = this.#options;
    const { number } = write;
    try {
      const sending = this.#send(write);
      this.settled = sending.catch(() => {});
      const outcome = await sending;
      if (outcome === 'written') this.#recorded = number;
      if (outcome === 'written' && write.number > number && !this.#isClosed)
        return await this.#write(write, FIRST_DELAY_MS);
      this.#handleWritten(outcome);
    } catch (error) {
      if (this.#isClosed) return;
      if (clock.now() - write.since >= stallMs) {
        this.#warn(error);
        if (degrades === true && this.#ahead === undefined && !write.isAccept) this.#degrade(write);
      }
      clock.after(delayMs, () => {
        if (!this.#isClosed) void this.#write(write, Math.min(2 * delayMs, LAST_DELAY_MS));
      });
    }
  }

  /** Continues as if the commit were recorded. */
  #degrade(write: Write): void {
    const { logger, sessionId } = this.#options;
    const fields = { event: 'session.degraded', session: sessionId };
    logger.error(
      fields,
      'a durable session continues without its engine: it does not survive this node until it answers',
    );
    this.#ahead = write;
    this.#isWriting = false;
    this.#goOn();
  }

  /** @throws {ProtocolError} if the engine does not answer. */
  async #send({ number, isFirst, changes }: Write): Promise<'written' | CommitRefusal> {
    const { owner, epoch, ttlMs, isReplicated } = this.#options;
    const { set, remove } = changes;
    const write = { owner, epoch, number, isFirst, ttlMs, isReplicated, after: this.#recorded, set, remove };
    const outcome = await this.#sendWithin(write);
    if (outcome === 'written' || outcome === 'full') return outcome;
    // Its record was released: what was forgotten stays so.
    if (this.#isClosed) return 'gone';
    const all = new Map(this.#fields);
    const replaced = await this.#sendWithin({ ...write, replaces: true, set: all, remove: [] });
    if (replaced === 'written') this.#handleForgotten(outcome);
    return replaced === 'behind' ? 'gone' : replaced;
  }

  /** Makes room for it if the record needs more. @throws {ProtocolError} if the engine does not answer. */
  async #sendWithin(write: SessionWrite): Promise<SessionWritten | 'full'> {
    const { link, sessionId, capacity } = this.#options;
    if (capacity?.bytes === 0 && !(await capacity.grow(1))) return 'full';
    for (;;) {
      const outcome = await link.writeSession(sessionId, { ...write, maxBytes: capacity?.bytes });
      if (typeof outcome === 'string') return outcome;
      if (capacity === undefined || this.#isClosed || !(await capacity.grow(outcome.needed))) return 'full';
    }
  }

  #handleForgotten(found: SessionWritten): void {
    const { logger, sessionId } = this.#options;
    const fields = { event: 'record.behind', session: sessionId, found };
    logger.warn(fields, 'the engine had forgotten a part of a durable session, which is recorded again');
  }

  #handleWritten(answer: 'written' | CommitRefusal): void {
    const { onRefused, logger, sessionId } = this.#options;
    if (this.#isClosed) return;
    if (this.#isStalled) {
      this.#isStalled = false;
      logger.info({ event: 'engine.answered', session: sessionId }, 'the engine records commits again');
    }
    const isTold = !this.#isWriting;
    this.#ahead = undefined;
    this.#isWriting = false;
    if (answer !== 'written') {
      this.close();
      return onRefused(answer);
    }
    if (!isTold) this.#goOn();
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

/** Adds another commit to a write that is not recorded yet. */
function add(write: Write, { number }: Commit, { set, remove }: FieldChanges): void {
  const all = write.changes;
  write.number = number;
  for (const [name, value] of set) {
    all.set.set(name, value);
    const at = all.remove.indexOf(name);
    if (at >= 0) all.remove.splice(at, 1);
  }
  for (const name of remove) {
    all.set.delete(name);
    all.remove.push(name);
  }
}
