import { isProtocolError, type Logger, ProtocolError, type Timers } from '@parlance/protocol';
import {
  atOnce,
  type Clock,
  type DurableRecord,
  type DurableSession,
  loggable,
} from '@parlance/protocol/internal';
import { keyOf } from '../base/keys.js';
import type { EngineConnection, SessionReading } from '../engine/engine.js';
import type { Seal } from '../engine/seal/keys.js';
import { RecordSeal } from '../engine/seal/record-seal.js';
import { dropFenced, retentionMsOf, SERVICE_RESTART } from '../session/durable-rules.js';
import { stateOf } from '../session/durable-state.js';
import type { ServerEndpoint } from '../session/endpoint.js';
import { Capacity } from './capacity.js';
import { checkDurability } from './check-durability.js';
import { CommitRecorder, type CommitRecorderOptions, type CommitRefusal } from './commit-recorder.js';
import { Durability } from './durability.js';
import type { DurableCandidate, ResolvedDurability } from './options.js';

export interface RecordsOptions {
  /** This node. */
  readonly incarnation: string;
  readonly durability: ResolvedDurability;
  readonly link: EngineConnection;
  readonly timers: Timers;
  readonly clock: Clock;
  readonly logger: Logger;
  /** @default the engine can read the records */
  readonly seal?: Seal | undefined;
  /** The engine does not answer, as far as is known. */
  isStalled(): boolean;
}

/** Bytes of a record besides twice the bytes of its bodies. */
const CAPACITY_MARGIN = 128 * 1024;
/** Records sessions of this node. */
export class Records {
  readonly #options: RecordsOptions;
  /** When each recorded session came here, by the clock. */
  readonly #since = new WeakMap<ServerEndpoint, number>();
  #isChecked = false;
  #mustCheck = false;

  constructor(options: RecordsOptions) {
    this.#options = options;
  }

  /** New sessions cannot be recorded at present. */
  get isStalled(): boolean {
    return !this.#isChecked || this.#options.isStalled();
  }

  /**
   * Checks the engine once. One that does not answer is checked when it does.
   *
   * @throws {ProtocolError} `unsupported` if it forgets everything when it ends.
   */
  async start(): Promise<void> {
    if (this.#isChecked || this.#mustCheck) return;
    const { link, durability } = this.#options;
    try {
      await checkDurability(link, durability);
      this.#isChecked = true;
    } catch (error) {
      if (isProtocolError(error) && error.code === 'unsupported') throw error;
      this.#mustCheck = true;
    }
  }

  /** An engine that has not answered is checked when it does. Call it now and then. */
  handleTick(): void {
    if (!this.#mustCheck || this.#options.isStalled()) return;
    this.#mustCheck = false;
    this.start().catch((error: unknown) => {
      const fields = { event: 'engine.unsuitable', err: loggable(error) };
      this.#options.logger.error(fields, 'the engine forgets sessions when it ends; none is recorded');
    });
  }

  /** How long a session has been recorded here, in milliseconds. */
  ageOf(session: ServerEndpoint): number {
    const now = this.#options.clock.now();
    return now - (this.#since.get(session) ?? now);
  }

  /** Whether the session of a client is to be recorded. */
  wants(candidate: DurableCandidate): boolean {
    return atOnce(this.#options.durability.wants(candidate), 'durable') === true;
  }

  /** A session was accepted, and agreed on this. */
  begin(session: ServerEndpoint, durable: DurableSession): void {
    if (session.dataText !== undefined) durable.setState(stateOf(session.dataText));
    const { seal } = this.#options;
    this.#record(session, durable, undefined, seal && RecordSeal.begin(seal, session.id, session.epoch));
  }

  /**
   * A session of another node continues here, since {@link ServerEndpoint.epoch}.
   *
   * @param fields of its record, as the engine has them.
   * @param seal with which its record was opened, if records are sealed.
   */
  goOn(
    session: ServerEndpoint,
    durable: DurableSession,
    record: DurableRecord,
    fields: SessionReading['fields'],
    seal?: RecordSeal,
  ): void {
    if (seal === undefined && this.#options.seal !== undefined)
      throw new ProtocolError('internal', 'a sealed record is not continued without its seal');
    this.#record(session, durable, { record, fields }, seal);
  }

  /** Closes the connection to the engine, when what is under way is written. Never rejects. */
  async close(): Promise<void> {
    await this.#options.link.close();
  }

  /** The text that stands for a principal in names of keys. */
  #accountOf(principal: string): string {
    return this.#options.seal?.newest.nameOf('account', principal) ?? keyOf(principal);
  }

  #record(
    session: ServerEndpoint,
    durable: DurableSession,
    before: Pick<CommitRecorderOptions, 'record' | 'fields'> | undefined,
    seal: RecordSeal | undefined,
  ): void {
    const { incarnation: owner, durability, link, timers, clock, logger } = this.#options;
    const { maxSessionBytes, maxPrincipalBytes, isReplicated, stallMs, degrades } = durability;
    const { id: sessionId, principal, isAnonymous, epoch } = session;
    this.#since.set(session, clock.now());
    // Without `authenticate`, the principal is that of one connection.
    const counted = isAnonymous ? undefined : principal;
    const ttlMs = retentionMsOf(timers);
    const capacity = new Capacity({
      ...{ link, sessionId, ttlMs, maxPrincipalBytes, account: counted && this.#accountOf(counted) },
      maxSessionBytes: 2 * maxSessionBytes + CAPACITY_MARGIN,
    });
    const recorder = new CommitRecorder({
      ...{ ...before, sessionId, owner, epoch, seal, durable, link, clock, logger, capacity, ttlMs },
      ...{ isReplicated, stallMs, degrades, principal: counted },
      onCommitted: () => session.pump(),
      onRefused: (why) => this.#handleRefused(session, why),
    });
    session.record = new Durability(session, durable, recorder, () => {
      // A commit that is under way would be executed after that, and record the session again.
      void recorder.settled.then(() => {
        void this.release(session);
        void capacity.release();
      });
    });
  }

  #handleRefused(session: ServerEndpoint, why: CommitRefusal): void {
    const { logger } = this.#options;
    if (why === 'fenced') return dropFenced(session, logger);
    const fields = { event: 'record.gone', session: session.id };
    if (why === 'full') {
      logger.warn(
        { ...fields, event: 'record.full' },
        'a durable session has no room left in the engine; it ends',
      );
      const message = 'the durable sessions of this principal take as many bytes as they may';
      return session.abort(new ProtocolError('over_budget', message));
    }
    logger.error(fields, 'the engine has forgotten a durable session; it ends');
    session.loseWire(SERVICE_RESTART, 'the session is not recorded any more');
    session.abort(new ProtocolError('session_lost', 'the engine has forgotten the session'));
  }

  /** Forgets a session, unless another node has it. Never rejects. */
  async release({ id, epoch }: Pick<ServerEndpoint, 'id' | 'epoch'>): Promise<void> {
    const { link, incarnation, logger } = this.#options;
    try {
      await link.releaseSession(id, incarnation, epoch);
    } catch (error) {
      const fields = { event: 'record.kept', session: id, err: loggable(error) };
      logger.info(fields, 'the record of a session that is over stays until its time is over');
    }
  }
}
