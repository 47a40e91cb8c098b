import { createHash } from 'node:crypto';
import { CloseCode, type Limits, type Logger, ProtocolError, type Timers } from '@parlance/protocol';
import { guard, incarnationOf, loggable, type MemoryBudget, systemClock } from '@parlance/protocol/internal';
import type { AgentMoves } from '../agents/moves.js';
import type { Backplane, BackplaneLink } from '../backplane/backplane.js';
import type { ServerEndpoint } from '../endpoint.js';
import type { ServerWire } from '../http/ws.js';
import { repeat } from '../repeat.js';
import { Arrival, type Restored } from './arrival.js';
import { Departure, type DepartureHost, isCalm } from './departure.js';
import type { Lead } from './lead.js';
import { limitedLog } from './limited-log.js';
import type { KnownNode } from './membership.js';
import type { MoveDialing } from './move-channel.js';
import { encodeMoveMessage } from './move-message.js';

/** What moving asks of its server. */
export interface MovingHost {
  readonly sessions: ReadonlyMap<string, ServerEndpoint>;
  /** Moves agents; `undefined` without any. */
  readonly agents: AgentMoves | undefined;
  /** Calls `onSession` again for a session that stays. */
  run(session: ServerEndpoint): void;
  /** @throws {ProtocolError} if the session cannot go on here. */
  restore(bytes: Uint8Array, sessionId: string, lead: Lead | undefined): MovedHere;
}

/** A session of another node that was restored. */
export interface MovedHere extends Pick<Restored, 'discard'> {
  readonly session: ServerEndpoint;
  /** @param from the node that had it. */
  begin(lead: Lead | undefined, from: string): void;
}

export interface MovesOptions {
  readonly incarnation: string;
  readonly backplane: Backplane;
  readonly host: MovingHost;
  readonly memory: MemoryBudget;
  readonly limits: Limits;
  readonly timers: Timers;
  readonly logger: Logger;
  readonly leads: () => ReadonlySet<Lead>;
  /** Whether the engine does not answer, as far as is known. */
  isStalled(): boolean;
  /** Whether the fate of all messages of agents that have moved away is known. */
  isSettled(): boolean;
  nodes(): Iterable<KnownNode>;
  dialing(target: KnownNode): MoveDialing;
}

/** Sessions that go to other nodes at a time, and that come. */
const MAX_DEPARTURES = 32;
const MAX_ARRIVALS = 64;
/** How often sessions of a draining node are looked at, in milliseconds. */
const LOOK_MS = 20;
/** Until a session is tried again, in milliseconds; doubled each time. */
const MIN_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 3_200;
/** A record lasts longer than a client may be away. */
const RECORD_MARGIN_MS = 60_000;
/** The longest time that Redis accepts for certain. */
const MAX_RECORD_MS = 30 * 24 * 3_600_000;
/** Codes of a refusal that another attempt at the same node does not change. */
const FINAL: ReadonlySet<string> = new Set([
  'unsupported',
  'unknown_version',
  'message_too_large',
  'codec_not_loaded',
]);

interface Attempts {
  isUnderWay: boolean;
  backoffMs: number;
  /** Clock readings. */
  next: number;
  last: number;
}

/** The sessions that go from this node to others, and those that come from others. */
export class Moves implements DepartureHost {
  readonly #options: MovesOptions;
  readonly #arrivals = new Set<Arrival>();
  readonly #arrivalLog: Logger;
  readonly #attempts = new WeakMap<ServerEndpoint, Attempts>();
  readonly #underWay = new Set<Promise<void>>();
  #link: BackplaneLink | undefined;
  #departed = 0;
  #arrived = 0;
  #failed = 0;
  #isDraining = false;
  /** Unix milliseconds. */
  #deadline = 0;
  #stopLooking: () => void = () => {};
  #keptAt = systemClock.now();
  isClosed = false;

  constructor(options: MovesOptions) {
    this.#options = options;
    this.#arrivalLog = limitedLog(options.logger);
  }

  get incarnation(): string {
    return this.#options.incarnation;
  }
  get logger(): Logger {
    return this.#options.logger;
  }
  get agents(): AgentMoves | undefined {
    return this.#options.host.agents;
  }
  get link(): BackplaneLink {
    this.#link ??= this.#options.backplane.connect();
    return this.#link;
  }
  get recordMs(): number {
    return Math.min(this.#options.timers.resumeWindowMs + RECORD_MARGIN_MS, MAX_RECORD_MS);
  }
  /** Sessions that have gone to other nodes, have come from others, or could not go. */
  get counts(): { readonly departed: number; readonly arrived: number; readonly failed: number } {
    return { departed: this.#departed, arrived: this.#arrived, failed: this.#failed };
  }

  dialing(target: KnownNode): MoveDialing {
    return this.#options.dialing(target);
  }

  run(session: ServerEndpoint): void {
    this.#options.host.run(session);
  }

  /**
   * The node that has a session that is not at the node that its ID names.
   *
   * @throws {ProtocolError} if the engine does not answer.
   */
  async find(sessionId: string): Promise<string | undefined> {
    if (incarnationOf(sessionId) === undefined) return undefined;
    return (await this.link.findSession(sessionId))?.owner;
  }

  /** The session may be here in a moment. */
  isArriving(sessionId: string): boolean {
    return [...this.#arrivals].some((arrival) => arrival.sessionId === sessionId);
  }

  // --- sessions that come

  accept(wire: ServerWire, source: string): void {
    if (this.#isDraining || this.isClosed || this.#arrivals.size >= MAX_ARRIVALS) {
      const message = 'the node takes no sessions at present';
      wire.listen(IGNORED);
      wire.send(encodeMoveMessage({ type: 'refused', code: 'draining', message }));
      return wire.close(CloseCode.NORMAL, '');
    }
    const { host, memory, limits, leads } = this.#options;
    const arrival = new Arrival(wire, source, {
      memory,
      logger: this.#arrivalLog,
      sessionMemory: limits.sessionMemory,
      leadOf: (sessionId, owner) =>
        [...leads()].find((lead) => lead.sessionId === sessionId && lead.owner === owner),
      restore: (bytes, { session, epoch }, lead) => {
        const moved = host.restore(bytes, session, lead);
        moved.session.epoch = epoch + 1;
        return this.#restored(moved, source);
      },
      claim: (sessionId, from, epoch) => this.#claim(sessionId, from, epoch),
      onOver: () => this.#arrivals.delete(arrival),
    });
    this.#arrivals.add(arrival);
  }

  #restored(moved: MovedHere, source: string): Restored {
    return {
      begin: (lead) => {
        const { session } = moved;
        this.#arrived++;
        const fields = {
          event: lead === undefined ? 'session.parked' : 'session.moved',
          session: session.id,
          node: source,
        };
        this.logger.info(fields, 'a session of another node goes on here');
        moved.begin(lead, source);
      },
      discard: () => moved.discard(),
    };
  }

  async #claim(sessionId: string, from: string, epoch: number): Promise<boolean | undefined> {
    const to = this.incarnation;
    try {
      const record = await this.link.moveSession(sessionId, { from, epoch, to, ttlMs: this.recordMs });
      return record.owner === to && record.epoch === epoch + 1;
    } catch {
      return undefined;
    }
  }

  /** Keeps the records of sessions that have come from other nodes. Called once in a while. */
  handleTick(): void {
    const now = systemClock.now();
    if (now - this.#keptAt < this.recordMs / 2) return;
    this.#keptAt = now;
    const moved = [...this.#options.host.sessions.values()].filter(({ epoch }) => epoch > 0);
    if (moved.length > 0) void this.#keep(new Map(moved.map(({ id, epoch }) => [id, epoch])));
  }

  /** The engine may have forgotten the records. */
  keepNow(): void {
    this.#keptAt = Number.NEGATIVE_INFINITY;
    this.handleTick();
  }

  async #keep(epochs: ReadonlyMap<string, number>): Promise<void> {
    try {
      const lost = await this.link.keepSessions(this.incarnation, epochs, this.recordMs);
      for (const sessionId of lost) {
        const fields = { event: 'session.fenced', session: sessionId };
        this.logger.warn(fields, 'another node has the session; it ends here');
        this.#options.host.sessions.get(sessionId)?.forget();
      }
    } catch (error) {
      const fields = { event: 'records.stalled', err: loggable(error) };
      this.logger.warn(fields, 'the records of sessions that have moved could not be kept');
      // Before they expire.
      this.#keptAt = systemClock.now() - this.recordMs / 4;
    }
  }

  // --- sessions that go

  /** Whether another node could take sessions. */
  get hasTargets(): boolean {
    return this.#targets().length > 0;
  }

  #targets(): KnownNode[] {
    return [...this.#options.nodes()].filter(({ draining }) => draining !== true);
  }

  /** From now on sessions go to other nodes, as soon as they can. @param deadline Unix milliseconds. */
  start(deadline: number): void {
    this.#isDraining = true;
    this.#deadline = deadline;
    for (const arrival of this.#arrivals) arrival.cancel();
    this.#stopLooking = repeat(LOOK_MS, () => this.#look(), this.logger);
  }

  #look(): void {
    if (this.#underWay.size >= MAX_DEPARTURES || this.#options.isStalled()) return;
    const targets = this.#targets();
    if (targets.length === 0) return;
    const now = systemClock.now();
    for (const session of this.#options.host.sessions.values()) {
      if (this.#underWay.size >= MAX_DEPARTURES) return;
      const attempts = this.#attemptsOf(session);
      if (attempts.isUnderWay || attempts.next > now || !this.#isReady(session, now - attempts.last))
        continue;
      const target = this.#targetOf(session, targets);
      if (target !== undefined) this.#depart(session, target, attempts);
    }
  }

  /** Whether the session is worth an attempt. @param waitedMs since the last one. */
  #isReady(session: ServerEndpoint, waitedMs: number): boolean {
    if (session.hasEnded || session.isFrozen) return false;
    if (isKept(session)) return false;
    return isCalm(session, this.agents) || (session.state !== 'suspended' && waitedMs > BUSY_MS);
  }

  /** The node that leads the session; a session without a connection goes to the one that its ID chooses. */
  #targetOf(session: ServerEndpoint, targets: readonly KnownNode[]): KnownNode | undefined {
    if (session.state === 'suspended') return rendezvous(session.id, targets);
    const { ledBy } = session;
    return ledBy === undefined ? undefined : targets.find(({ incarnation }) => incarnation === ledBy);
  }

  #attemptsOf(session: ServerEndpoint): Attempts {
    const now = systemClock.now();
    let attempts = this.#attempts.get(session);
    if (attempts === undefined) {
      attempts = { isUnderWay: false, backoffMs: MIN_BACKOFF_MS, next: 0, last: now };
      this.#attempts.set(session, attempts);
    }
    return attempts;
  }

  #depart(session: ServerEndpoint, target: KnownNode, attempts: Attempts): void {
    attempts.isUnderWay = true;
    attempts.last = systemClock.now();
    const departing = this.#attempt(session, target, attempts);
    this.#underWay.add(departing);
    void departing.then(() => this.#underWay.delete(departing));
  }

  async #attempt(session: ServerEndpoint, target: KnownNode, attempts: Attempts): Promise<void> {
    const isLed = session.state !== 'suspended';
    const outcome = await new Departure(session, target, this).run(isLed);
    attempts.isUnderWay = false;
    if (outcome.type === 'moved') {
      this.#departed++;
      const event = isLed ? 'session.moved' : 'session.parked';
      const fields = { event, session: session.id, node: target.incarnation };
      return this.logger.info(fields, 'the session goes on at another node');
    }
    this.#failed++;
    if (outcome.type === 'stays') {
      const fields = {
        event: 'move.delayed',
        session: session.id,
        node: target.incarnation,
        why: outcome.why,
      };
      this.logger.debug(fields, 'a session could not move yet');
    }
    const isFinal = outcome.type === 'refused' && FINAL.has(outcome.code);
    if (isFinal && !session.hasFarewell) session.sendGoAway({ retryAfterMs: 0, deadline: this.#deadline });
    attempts.next = systemClock.now() + (isFinal ? Infinity : attempts.backoffMs);
    attempts.backoffMs = Math.min(2 * attempts.backoffMs, MAX_BACKOFF_MS);
  }

  /**
   * At the deadline: handlers that still run fail with `draining`, clients are told to come back, and sessions go to the
   * nodes that their IDs choose.
   */
  async parkAll(timeoutMs: number): Promise<void> {
    const reason = new ProtocolError('draining', 'the server was drained');
    const { sessions } = this.#options.host;
    for (const session of sessions.values()) {
      if (session.isFrozen || session.hasFarewell || isKept(session) || !this.hasTargets) continue;
      guard(session, () => this.agents?.settle(session, reason));
      session.failReplies(reason, (streamId) => this.agents?.isWatch(session, streamId) === true);
      session.loseWire(SERVICE_RESTART, 'the session goes on at another node');
      this.#attemptsOf(session).next = 0;
    }
    const end = systemClock.now() + timeoutMs;
    while (systemClock.now() < end && [...sessions.values()].some((session) => this.#isLeaving(session)))
      await new Promise<void>((resolve) => void setTimeout(resolve, LOOK_MS));
  }

  /** Waits until others know what became of messages of agents that were here, which only this node can tell them. */
  async settle(timeoutMs: number): Promise<void> {
    const end = systemClock.now() + timeoutMs;
    while (!this.#options.isSettled() && systemClock.now() < end)
      await new Promise<void>((resolve) => void setTimeout(resolve, LOOK_MS));
  }

  #isLeaving(session: ServerEndpoint): boolean {
    const attempts = this.#attemptsOf(session);
    if (attempts.isUnderWay) return true;
    const isGoing =
      this.hasTargets && !this.#options.isStalled() && attempts.next !== Infinity && !isKept(session);
    return session.state === 'suspended' && isGoing;
  }

  /** No session goes or comes any more. */
  async close(): Promise<void> {
    this.isClosed = true;
    this.#stopLooking();
    for (const arrival of this.#arrivals) arrival.cancel();
    await Promise.all(this.#underWay);
    await this.#link?.close();
  }
}

/** To a client: its session goes on, and another connection may resume it. */
const SERVICE_RESTART = 1012;

const IGNORED = { onMessage() {}, onControl() {}, onData() {}, onDrain() {}, onClose() {}, onFault() {} };

/** A session that is never seen to be quiet is tried after this time, because its client may have to be held back. */
const BUSY_MS = 1_000;

/** The node that a session goes to, whoever asks: each node gets a like share, and few change if a node does. */
export function rendezvous(sessionId: string, nodes: readonly KnownNode[]): KnownNode | undefined {
  const weight = ({ incarnation }: KnownNode) =>
    createHash('sha256').update(`${incarnation} ${sessionId}`).digest('hex');
  let best: { readonly node: KnownNode; readonly weight: string } | undefined;
  for (const node of nodes) {
    const own = weight(node);
    if (best === undefined || own > best.weight) best = { node, weight: own };
  }
  return best?.node;
}

/** Its `onSession` was asked to return, and has not. */
function isKept({ isStopped, running }: ServerEndpoint): boolean {
  return isStopped && running !== undefined;
}
