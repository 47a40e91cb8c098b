import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers';
import { type Logger, ProtocolError } from '@parlance/protocol';
import { attempt, loggable, systemClock } from '@parlance/protocol/internal';
import { repeat } from '../../base/repeat.js';
import { SERVICE_RESTART } from '../../session/durable-rules.js';
import type { ServerEndpoint } from '../../session/endpoint.js';
import type { Links } from '../link/links.js';
import type { KnownNode } from '../membership.js';
import {
  Departure,
  type DepartureOptions,
  type DepartureOutcome,
  isCalm,
  type MovingHost,
} from './departure.js';
import { Handovers, MOVES } from './handover.js';

export interface DeparturesOptions extends Omit<DepartureOptions, 'begin' | 'isClosed'> {
  readonly host: MovingHost;
  /** Whether the engine does not answer, as far as is known. */
  isStalled(): boolean;
  nodes(): Iterable<KnownNode>;
  readonly links: Links;
}

/** Sessions that go to one node at a time. A client waits while its session moves, so few of them move together. */
const MAX_TOGETHER = 12;
/** Sessions that are tried at a time, most of which wait for other nodes. */
const MAX_ATTEMPTS = 256;
/** How often all sessions of a draining node are looked at, in milliseconds. */
const LOOK_MS = 20;
/** Until a session is tried again, in milliseconds; doubled each time. */
const MIN_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 3_200;
/** How long an attempt waits until other nodes send it nothing more, in milliseconds; doubled each time. */
const MIN_PATIENCE_MS = 200;
const MAX_PATIENCE_MS = 3_200;
/** Codes of a refusal that another attempt at the same node does not change. */
const FINAL: ReadonlySet<string> = new Set([
  'unsupported',
  'unknown_version',
  'message_too_large',
  'codec_not_loaded',
]);
/** How often a session is tried after the deadline at a node that refuses it. */
const MAX_REFUSALS = 3;
/** How long a session may take to become calm after the deadline, in milliseconds. */
const SETTLE_MS = 1_000;

interface Attempts {
  /** Under way. */
  departure: Departure | undefined;
  backoffMs: number;
  patienceMs: number;
  /** A clock reading. */
  next: number;
  /** How often other nodes have refused it for what it is, since the deadline. */
  refusals: number;
  /** After the deadline: nothing waits for other nodes any more. */
  isSettled: boolean;
}

/** The sessions that go from this node to others, while it drains. */
export class Departures {
  readonly #options: DeparturesOptions;
  readonly #logger: Logger;
  readonly #departing: DepartureOptions;
  readonly #attempts = new WeakMap<ServerEndpoint, Attempts>();
  readonly #underWay = new Set<Promise<void>>();
  #departed = 0;
  #failed = 0;
  #isLooking = false;
  /** Unix milliseconds. */
  #deadline = 0;
  #stopLooking: () => void = () => {};
  #isClosed = false;

  constructor(options: DeparturesOptions) {
    this.#options = options;
    this.#logger = options.logger;
    this.#departing = {
      ...options,
      begin: (target) => this.#handoversTo(target)?.begin(),
      isClosed: () => this.#isClosed,
    };
  }

  /** Sessions that have gone to other nodes, or could not go. */
  get counts(): { readonly departed: number; readonly failed: number } {
    return { departed: this.#departed, failed: this.#failed };
  }

  /** Whether another node could take sessions. */
  get hasTargets(): boolean {
    return this.#targets().length > 0;
  }

  #targets(): KnownNode[] {
    return [...this.#options.nodes()].filter(({ draining }) => draining !== true);
  }

  /** From now on sessions go to other nodes, as soon as they can. @param deadline Unix milliseconds. */
  start(deadline: number): void {
    this.#deadline = deadline;
    this.#stopLooking = repeat(LOOK_MS, () => this.#look(), this.#logger);
  }

  /** The link is opened before a session needs it, so that its client does not wait for that. */
  #handoversTo({ incarnation }: KnownNode): Handovers | undefined {
    const link = this.#options.links.ready(incarnation);
    if (link === undefined) return undefined;
    const handovers = (link.endOf(MOVES) as Handovers) ?? link.attach(MOVES, new Handovers(link));
    return handovers.size < MAX_TOGETHER ? handovers : undefined;
  }

  // --- which sessions, and when

  /** Recorded sessions are given up instead. */
  get #sessions(): ServerEndpoint[] {
    return [...this.#options.host.sessions.values()].filter(({ isDurable }) => !isDurable);
  }

  #look(): void {
    if (this.#isClosed || this.#options.isStalled()) return;
    for (const session of this.#sessions) {
      session.onChange ??= () => this.#handleChange(session);
      this.#consider(session);
    }
  }

  /** When one has gone, the next one may. */
  #lookSoon(): void {
    if (this.#isLooking || this.#isClosed) return;
    this.#isLooking = true;
    setImmediate(() => {
      this.#isLooking = false;
      const failed = attempt(() => this.#look());
      if (failed === undefined) return;
      const fields = { event: 'server.failed', err: loggable(failed.error) };
      this.#logger.error(fields, 'looking for sessions that could move failed');
    });
  }

  /**
   * The work that keeps a session here may be over. A client that asks its next question when it reads the end of an
   * answer does so after this, so its question waits for the next node.
   */
  #handleChange(session: ServerEndpoint): void {
    const { departure } = this.#attemptsOf(session);
    if (departure !== undefined) departure.handleChange();
    else if (!this.#options.isStalled()) this.#consider(session);
  }

  /** The session goes, if it can now. */
  #consider(session: ServerEndpoint): void {
    const isProxied = session.hasWire;
    // Of thousands, most wait for their turn.
    if ((isProxied && session.proxiedBy === undefined) || this.#underWay.size >= MAX_ATTEMPTS) return;
    const attempts = this.#attemptsOf(session);
    if (attempts.departure !== undefined || attempts.next > systemClock.now()) return;
    if (session.hasEnded || isKept(session)) return;
    const target = this.#targetOf(session, isProxied);
    if (
      target === undefined ||
      this.#handoversTo(target) === undefined ||
      !isCalm(session, this.#options.host.parts)
    )
      return;
    this.#depart(session, target, attempts, isProxied);
  }

  /** The proxy of the session; a session without a connection goes to the one that its ID chooses. */
  #targetOf(session: ServerEndpoint, isProxied: boolean): KnownNode | undefined {
    const targets = this.#targets();
    if (!isProxied) return rendezvous(session.id, targets);
    return targets.find(({ incarnation }) => incarnation === session.proxiedBy);
  }

  #attemptsOf(session: ServerEndpoint): Attempts {
    let attempts = this.#attempts.get(session);
    if (attempts === undefined) {
      const [backoffMs, patienceMs] = [MIN_BACKOFF_MS, MIN_PATIENCE_MS];
      attempts = { departure: undefined, backoffMs, patienceMs, next: 0, refusals: 0, isSettled: false };
      this.#attempts.set(session, attempts);
    }
    return attempts;
  }

  #depart(session: ServerEndpoint, target: KnownNode, attempts: Attempts, isProxied: boolean): void {
    const departure = new Departure(session, target, this.#departing, attempts.patienceMs);
    attempts.departure = departure;
    const departing = departure
      .run(isProxied)
      .then((outcome) => this.#handleOutcome(session, target, attempts, outcome));
    this.#underWay.add(departing);
    void departing.then(() => {
      this.#underWay.delete(departing);
      this.#lookSoon();
    });
  }

  #handleOutcome(
    session: ServerEndpoint,
    { incarnation: node }: KnownNode,
    attempts: Attempts,
    outcome: DepartureOutcome,
  ): void {
    attempts.departure = undefined;
    if (outcome.type === 'moved') {
      this.#departed++;
      const { heldMs } = outcome;
      const event = heldMs === undefined ? 'session.parked' : 'session.moved';
      const fields = { event, session: session.id, node, heldMs };
      return this.#logger.info(fields, 'the session continues at another node');
    }
    this.#failed++;
    if (outcome.type === 'stays') {
      const fields = { event: 'move.delayed', session: session.id, node, why: outcome.why };
      this.#logger.debug(fields, 'a session could not move yet');
    }
    if (outcome.type === 'refused' && outcome.code !== 'draining') attempts.refusals++;
    const isFinal = outcome.type === 'refused' && FINAL.has(outcome.code);
    if (isFinal && !session.hasFarewell) session.sendGoAway({ retryAfterMs: 0, deadline: this.#deadline });
    attempts.next = systemClock.now() + (isFinal ? Infinity : attempts.backoffMs);
    attempts.backoffMs = Math.min(2 * attempts.backoffMs, MAX_BACKOFF_MS);
    attempts.patienceMs = Math.min(2 * attempts.patienceMs, MAX_PATIENCE_MS);
  }

  /**
   * At the deadline: handlers that still run fail with `draining`, so that sessions that are proxied can move, and
   * clients of other sessions are asked to come back. Sessions without a connection go to the nodes that their IDs
   * choose.
   */
  async parkAll(timeoutMs: number): Promise<void> {
    const start = systemClock.now();
    for (const session of this.#sessions) {
      const attempts = this.#attemptsOf(session);
      if (attempts.next !== Infinity) attempts.next = 0;
      attempts.backoffMs = MIN_BACKOFF_MS;
      attempts.refusals = 0;
    }
    for (let now = start; now < start + timeoutMs; now = systemClock.now()) {
      const left = this.#sessions.filter((session) => this.#isLeaving(session));
      // A tensor or a scan that does not end keeps its session here, and so does a quota of the other node.
      if (!left.some((session) => now < start + SETTLE_MS || this.#couldGo(session))) break;
      for (const session of left) this.#settle(session);
      await new Promise<void>((resolve) => void setTimeout(resolve, LOOK_MS));
    }
    // They are closed now, and their clients have to be heard for that.
    for (const session of this.#sessions)
      if (this.#attemptsOf(session).departure === undefined) session.thaw();
  }

  /** Fails streams of the session. Later calls fail those that have begun since. */
  #settle(session: ServerEndpoint): void {
    const { parts } = this.#options.host;
    const attempts = this.#attemptsOf(session);
    const isUnderWay = session.isHeld && attempts.departure !== undefined;
    if (session.isFrozen || isUnderWay) return;
    const isProxied = this.#targetOf(session, true) !== undefined;
    if (session.hasWire && isProxied) session.holdInput();
    if (attempts.isSettled && isCalm(session, parts) && (isProxied || !session.hasWire)) return;
    attempts.isSettled = true;
    const reason = new ProtocolError('draining', 'the server was drained');
    parts.settle(session, reason);
    session.failAll(reason, (streamId) => parts.leaves(session, streamId, 'move'));
    if (!isProxied) session.loseWire(SERVICE_RESTART, 'the session continues at another node');
  }

  #couldGo(session: ServerEndpoint): boolean {
    const { departure, refusals } = this.#attemptsOf(session);
    if (refusals >= MAX_REFUSALS) return false;
    return departure !== undefined || isCalm(session, this.#options.host.parts);
  }

  #isLeaving(session: ServerEndpoint): boolean {
    const { departure, next } = this.#attemptsOf(session);
    if (departure !== undefined) return true;
    const isGoing = this.hasTargets && !this.#options.isStalled() && next !== Infinity && !isKept(session);
    return isGoing && !session.hasFarewell && !session.hasEnded;
  }

  /** No session goes any more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stopLooking();
    await Promise.all(this.#underWay);
  }
}

/** The node that a session goes to, the same at every node that asks: each node gets a like share, and few change if a node does. */
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
