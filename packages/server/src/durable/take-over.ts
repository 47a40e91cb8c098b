import {
  type HelloPayload,
  isProtocolError,
  type Logger,
  ResumeRefusal,
  Subprotocol,
} from '@parlance/protocol';
import {
  checkAccepted,
  type DurableSession,
  loadAgreed,
  loggable,
  readBegin,
  restoreDurableSession,
  type SessionBegin,
  systemClock,
} from '@parlance/protocol/internal';
import type { EngineConnection, SessionReading } from '../engine/engine.js';
import type { Seal } from '../engine/seal/keys.js';
import { type OpenedRecord, RecordSeal } from '../engine/seal/record-seal.js';
import type { CheckedIdentity } from '../session/admission/admission.js';
import { countedPrincipal } from '../session/admission/authentication.js';
import type { Origin } from '../session/admission/renewal.js';
import { type AdoptedSession, SessionDriver } from '../session/driver.js';
import { dropFenced, retentionMsOf } from '../session/durable-rules.js';
import { dataTextOf } from '../session/durable-state.js';
import type { SessionHost } from '../session/host.js';
import { clientInfo } from '../session/served-session.js';
import { addressKey } from '../transport/http/addresses.js';
import type { Refusal } from '../transport/http/site.js';
import { HEAD_FIELDS, type ReadRecord, readFields, readHead, savedOf } from './fields.js';
import type { Records } from './records.js';

/** A client whose session has no node any more, as far as is known. */
export interface Claimant {
  readonly sessionId: string;
  readonly offer: HelloPayload;
  readonly identity: CheckedIdentity;
  readonly origin: Origin;
  /** The node that the record named when that node was found to be gone. */
  readonly gone: string;
}

export type TakeOverOutcome = 'here' | 'busy' | 'stale_attempt' | ResumeRefusal | Refusal;

export interface TakeOversOptions {
  readonly incarnation: string;
  readonly host: SessionHost;
  readonly records: Records;
  readonly link: EngineConnection;
  readonly logger: Logger;
  /** With which records are sealed. */
  readonly seal: Seal | undefined;
  /** Whether no other node takes this one for dead, so that the session would stay here. */
  hasLease(): boolean;
}

/** Takes durable sessions from nodes that have died. */
export class TakeOvers {
  readonly #options: TakeOversOptions;
  /** Sessions that are about to be here. */
  readonly #underWay = new Set<string>();
  #done = 0;

  constructor(options: TakeOversOptions) {
    this.#options = options;
  }

  /** Sessions that were taken over. */
  get count(): number {
    return this.#done;
  }

  /** The session may be here in a moment. */
  isUnderWay(sessionId: string): boolean {
    return this.#underWay.has(sessionId);
  }

  /**
   * Continues a session that no node has, for a client that may resume it. If that node was alive after all, the engine
   * refuses its writes from then on, so that a wrong guess costs nothing but the time.
   *
   * @returns `busy` if another node is faster, or the engine does not answer. Never rejects.
   */
  async takeOver(claimant: Claimant): Promise<TakeOverOutcome> {
    const { sessionId } = claimant;
    if (this.#underWay.has(sessionId) || !this.#options.hasLease()) return 'busy';
    this.#underWay.add(sessionId);
    try {
      return await this.#takeOver(claimant);
    } catch (error) {
      const fields = { event: 'takeover.failed', session: sessionId, err: loggable(error) };
      this.#options.logger.warn(fields, 'a durable session could not be taken over yet');
      return 'busy';
    } finally {
      this.#underWay.delete(sessionId);
    }
  }

  async #takeOver(claimant: Claimant): Promise<TakeOverOutcome> {
    const { host, link, incarnation, seal } = this.#options;
    const { sessionId, identity, origin, gone } = claimant;
    const names = seal === undefined ? HEAD_FIELDS : RecordSeal.namesFor(HEAD_FIELDS);
    const reading = await link.readSession(sessionId, names);
    if (reading === undefined) return UNKNOWN;
    const checked = this.#check(claimant, reading);
    if (typeof checked === 'string') return checked;
    // This server may have begun just now, and not have loaded what the session was agreed to use.
    if (checked.negotiated !== undefined) await loadAgreed(checked.negotiated);
    // Another node was faster, and that one was not found to be gone.
    if (reading.owner !== gone) return 'busy';
    const principal = countedPrincipal(identity.principal, host.options);
    const address = addressKey(origin.ip);
    const full = host.admitTakenOver(address, principal);
    if (full !== undefined) return full;
    let isHere = false;
    try {
      const ttlMs = retentionMsOf(host.options.timers);
      const move = { from: gone, epoch: reading.epoch, to: incarnation, ttlMs };
      const claimed = await link.claimSession(sessionId, move);
      if (claimed === undefined) return 'busy';
      this.#dropFormer(sessionId);
      const begun = this.#begin(claimant, claimed);
      isHere = begun === 'here';
      return begun;
    } finally {
      if (!isHere) host.release(address, principal);
    }
  }

  /**
   * This node has had the session before, stood still while another one claimed it, and has not noticed: its core is not to
   * run beside the new one.
   */
  #dropFormer(sessionId: string): void {
    const { host, logger } = this.#options;
    const former = host.find(sessionId);
    if (former !== undefined) dropFenced(former, logger);
  }

  /**
   * Checks whether the client may resume the session before anything of it changes. Returns the answer with which the
   * session has begun.
   */
  #check(
    { sessionId, offer, identity }: Claimant,
    { fields }: SessionReading,
  ): ResumeRefusal | 'stale_attempt' | SessionBegin['answer'] {
    const { host, seal } = this.#options;
    // It is about a session that has moved, and is not durable.
    if (fields.size === 0 || offer.resume === undefined) return UNKNOWN;
    try {
      const head = readHead(seal === undefined ? fields : RecordSeal.openSome(seal, sessionId, fields));
      if (head === undefined) return UNKNOWN;
      const counted = countedPrincipal(identity.principal, host.options);
      if (head.principal !== counted) return UNKNOWN;
      const why = checkAccepted(head.accept, offer.resume);
      if (why !== undefined) return why;
      const { id, agentId, answer } = readBegin(head.begin, host.sessionOptions(Subprotocol.BINARY));
      const isSame = counted === undefined || agentId === identity.agentId;
      return id === sessionId && isSame ? answer : UNKNOWN;
    } catch (error) {
      this.#report(sessionId, error);
      return ResumeRefusal.NO_STATE;
    }
  }

  #begin(claimant: Claimant, { fields, epoch }: SessionReading): 'here' | ResumeRefusal {
    const { host, records, logger, seal } = this.#options;
    const { sessionId, origin, gone } = claimant;
    let adopted: AdoptedSession;
    let read: ReadRecord;
    let opened: OpenedRecord | undefined;
    try {
      opened = seal && RecordSeal.open(seal, sessionId, epoch, fields);
      read = readFields(opened?.fields ?? fields);
      adopted = this.#adopt(read, epoch, origin);
    } catch (error) {
      this.#report(sessionId, error);
      void records.release({ id: sessionId, epoch });
      return ResumeRefusal.NO_STATE;
    }
    const { session } = adopted;
    records.goOn(session, session.core.record as DurableSession, read.record, fields, opened?.seal);
    this.#done++;
    logger.info(
      { event: 'session.taken_over', session: sessionId, node: gone, epoch },
      'a durable session of a node that is gone continues here',
    );
    host.onRestored(session, () => adopted.load(undefined));
    return 'here';
  }

  /** It was admitted before its record was claimed. @throws {ProtocolError} as `restoreDurableSession`. */
  #adopt({ record, principal }: ReadRecord, epoch: number, origin: Origin): AdoptedSession {
    const { host } = this.#options;
    const options = host.sessionOptions(Subprotocol.BINARY);
    const adopted = SessionDriver.adopt(host, {
      ...{ principal, counted: principal, isAnonymous: principal === undefined, origin, ip: origin.ip },
      agentId: readBegin(record.begin, options).agentId,
      core: restoreDurableSession(options, record, systemClock.now()),
      client: clientInfo(origin.ip, origin.headers),
      since: Date.now(),
      data: dataTextOf(record.state),
      parts: savedOf(record),
    });
    adopted.driver.isAdmitted = true;
    adopted.session.epoch = epoch;
    return adopted;
  }

  #report(sessionId: string, error: unknown): void {
    const isChanged = isProtocolError(error) && error.code === 'authentication_failed';
    const event = isChanged ? 'record.changed' : 'takeover.failed';
    const fields = { event, session: sessionId, err: loggable(error) };
    this.#options.logger.error(fields, 'a durable session cannot continue here');
  }
}

const UNKNOWN = ResumeRefusal.UNKNOWN_SESSION;
