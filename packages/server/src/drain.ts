import { CloseCode, CloseReason, Extension, type GoAwayPayload, ProtocolError } from '@parlance/protocol';
import { assertOptions } from '@parlance/protocol/internal';
import type { DrainProgress } from './admin/figures.js';
import type { Refusal } from './admission/admission.js';
import type { Moves } from './cluster/moves/moves.js';
import type { ServerEndpoint } from './endpoint.js';
import type { Replies } from './replies/replies.js';

export interface DrainOptions {
  /** How long open streams may take to finish, in milliseconds. @default 30,000 */
  readonly timeoutMs?: number | undefined;
  /**
   * Clients reconnect at random times within this many milliseconds after they have left, so that they do not
   * all arrive at once. @default 5,000
   */
  readonly returnWithinMs?: number | undefined;
  /**
   * Stops listening at once, so that a successor can take over the port while streams finish here. A session
   * that loses its connection after that cannot resume. @default false: connections are accepted until the end,
   * so that lost ones can resume
   */
  readonly releasePort?: boolean | undefined;
}

export interface ResolvedDrainOptions {
  readonly timeoutMs: number;
  readonly returnWithinMs: number;
  readonly releasePort: boolean;
}

/** @throws {ProtocolError} `invalid_option`. */
export function resolveDrainOptions(options: DrainOptions): ResolvedDrainOptions {
  assertOptions(options, { timeoutMs: 'number', returnWithinMs: 'number', releasePort: 'flag' }, 'drain');
  const { timeoutMs = 30_000, returnWithinMs = 5_000, releasePort = false } = options;
  for (const [name, value] of Object.entries({ timeoutMs, returnWithinMs })) {
    if (!(value >= 0 && value < 2 ** 31))
      throw new ProtocolError('invalid_option', `drain.${name} must be 0 to ${2 ** 31 - 1} ms, not ${value}`);
  }
  return { timeoutMs, returnWithinMs, releasePort };
}

/** The delay after which a client that leaves now, or is refused, should reconnect. */
function returnDelay(withinMs: number): number {
  return Math.floor(Math.random() * withinMs);
}

/** The refusal of new sessions while the server drains or closes. */
export function drainingRefusal(returnWithinMs: number): Refusal {
  return {
    code: 'SERVER_BUSY',
    message: 'the server is shutting down',
    closeCode: CloseCode.DRAINING,
    retryAfterMs: returnDelay(returnWithinMs),
  };
}

/** How long a client may be away before it counts as gone, in milliseconds. */
const RETURN_MS = 5_000;

/** How long sessions without a connection may take to go to other nodes after the deadline, in milliseconds. */
const PARK_MS = 10_000;

/** The outcome of a drain. */
export interface DrainResult {
  /** Sessions that ended by themselves. */
  readonly left: number;
  /** Sessions that were closed at the deadline with streams still open. */
  readonly interrupted: number;
  /** Sessions that were without a connection at the deadline, or for 5 s with something under way. */
  readonly lost: number;
  /** Sessions that other nodes of the cluster go on with; `undefined` without a cluster. */
  readonly moved?: number | undefined;
}

type DrainedReplies = Pick<Replies, 'running' | 'stopAll'>;

/** How long other nodes may take to confirm what agents that have moved were sent, in milliseconds. */
const SETTLE_MS = 5_000;

/** Sends GOAWAY to every session and waits for them to end; closes those that are left at the deadline. */
export class Drain {
  readonly #sessions: ReadonlyMap<string, ServerEndpoint>;
  #deadline: number;
  readonly #total: number;
  /** Kept replies outlive their sessions. */
  readonly #replies: DrainedReplies;
  readonly #goAway: (retryAfterMs: number) => GoAwayPayload;
  readonly #returnWithinMs: number;
  readonly #moves: Pick<Moves, 'hasTargets' | 'parkAll' | 'settle'> | undefined;
  #stopWaiting: (() => void) | undefined;
  /** An operator has moved the deadline to now. */
  #isFinishing = false;
  /** Clients that were away for too long, although something was under way. */
  #gone = 0;
  readonly #waiting = new Map<ServerEndpoint, NodeJS.Timeout>();

  /**
   * @param deadline Unix milliseconds.
   * @param moves `undefined` without a cluster.
   */
  constructor(
    sessions: ReadonlyMap<string, ServerEndpoint>,
    replies: DrainedReplies,
    returnWithinMs: number,
    deadline: number,
    moves?: Pick<Moves, 'hasTargets' | 'parkAll' | 'settle'>,
  ) {
    this.#moves = moves;
    this.#sessions = sessions;
    this.#deadline = deadline;
    this.#total = sessions.size;
    this.#replies = replies;
    this.#returnWithinMs = returnWithinMs;
    this.#goAway = (retryAfterMs) => ({ retryAfterMs, deadline });
  }

  get progress(): DrainProgress {
    return { deadline: this.#deadline, total: this.#total, left: this.#sessions.size };
  }

  /** A session has lost its connection. Its client has a moment to come back, unless other nodes go on with it. */
  handleLost(session: ServerEndpoint): void {
    if (session.isDurable || this.#moves?.hasTargets === true) return;
    clearTimeout(this.#waiting.get(session));
    const ms = Math.max(0, session.lostAt + RETURN_MS - Date.now());
    this.#waiting.set(
      session,
      setTimeout(() => this.#giveUp(session), ms),
    );
  }

  #giveUp(session: ServerEndpoint): void {
    this.#waiting.delete(session);
    if (session.hasEnded || session.hasWire) return;
    const { core } = session;
    const { openStreams, framesUnconfirmed } = core.channel;
    if (openStreams > 0 || framesUnconfirmed > 0 || core.queuedBytes > 0) this.#gone++;
    session.abort(new ProtocolError('draining', 'the client was away while the server drained'));
  }

  /** A session has ended, or the handler of a kept reply. */
  handleEnded(): void {
    if (this.#isEmpty) this.#stopWaiting?.();
  }

  /** The deadline is now, if it was not before. */
  finish(): void {
    this.#isFinishing = true;
    this.#deadline = Math.min(this.#deadline, Date.now());
    this.#stopWaiting?.();
  }

  get #isEmpty(): boolean {
    return this.#sessions.size === 0 && this.#replies.running === 0;
  }

  /** @param isAnnounced resolves when other nodes know, and this one knows them. */
  async run(timeoutMs: number, isAnnounced?: Promise<void>): Promise<DrainResult> {
    if (isAnnounced !== undefined) await isAnnounced;
    const sessions = [...this.#sessions.values()];
    for (const session of sessions) {
      this.#sayFarewell(session);
      if (!session.hasWire) this.handleLost(session);
    }
    await this.#emptyWithin(timeoutMs);
    for (const timer of this.#waiting.values()) clearTimeout(timer);
    if (!this.#isEmpty) await this.#moves?.parkAll(PARK_MS);
    const moved = this.#moves && sessions.filter(({ hasMoved }) => hasMoved).length;
    const left = [...this.#sessions.values()];
    this.#replies.stopAll(new ProtocolError('draining', 'the server was drained'));
    const result = {
      left: sessions.length - left.length - (moved ?? 0) - this.#gone,
      interrupted: left.filter(({ state, core }) => state !== 'suspended' && core.channel.openStreams > 0)
        .length,
      lost: left.filter(({ state }) => state === 'suspended').length + this.#gone,
      ...(moved === undefined ? {} : { moved }),
    };
    await Promise.all(
      left.map((session) => {
        // A client that was not asked to leave begins no other session when it is closed.
        if (!session.hasFarewell) session.sendGoAway(this.#goAway(returnDelay(this.#returnWithinMs)));
        if (session.hasWire) return session.shutdown(CloseReason.SERVER_SHUTDOWN, 'the server was drained');
        // Too late to resume it; a client that tries is told that it is gone.
        session.abort(new ProtocolError('draining', 'the server was drained'));
        return undefined;
      }),
    );
    await this.#moves?.settle(SETTLE_MS);
    return result;
  }

  /** A session that another node leads here goes on there, and so does one without a connection: its client need not know. */
  #sayFarewell(session: ServerEndpoint): void {
    // Its client comes back when it is given up.
    if (session.isDurable) return;
    const isMoving = this.#moves?.hasTargets === true;
    if (isMoving && (session.ledBy !== undefined || !session.hasWire)) return;
    const goAway = this.#goAway(returnDelay(this.#returnWithinMs));
    const comesBack = isMoving && session.negotiated.extensions[Extension.MOVE] !== undefined;
    session.sendGoAway(comesBack ? { ...goAway, move: true } : goAway);
  }

  #emptyWithin(timeoutMs: number): Promise<void> {
    if (this.#isEmpty || this.#isFinishing) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      this.#stopWaiting = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
