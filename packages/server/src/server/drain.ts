import {
  CloseReason,
  type CloseResult,
  type GoAwayPayload,
  type Logger,
  ProtocolError,
} from '@parlance/protocol';
import { guard, loggable, systemClock } from '@parlance/protocol/internal';
import { repeat } from '../base/repeat.js';
import type { ServerEndpoint } from '../session/endpoint.js';
import { busy, type Refusal } from '../transport/http/site.js';
import type { DrainProgress, DrainResult } from './drain-options.js';
import type { DrainHooks } from './features/feature.js';

/** The delay after which a client that leaves now, or is refused, should reconnect. */
export function returnDelay(withinMs: number): number {
  return Math.floor(Math.random() * withinMs);
}

/** The refusal of new sessions while the server drains or closes. */
export const drainingRefusal = (returnWithinMs: number): Refusal =>
  busy('the server is shutting down', returnDelay(returnWithinMs));

/** Closes a session whose client is to come back to the next server. One whose application closes it stays closed. */
export function sendAway(session: ServerEndpoint, goAway: GoAwayPayload): Promise<CloseResult> {
  // A client that was not asked to leave begins no other session when it is closed.
  if (!session.hasFarewell && session.state !== 'closing') session.sendGoAway(goAway);
  return session.shutdown(CloseReason.SERVER_SHUTDOWN, 'the server shuts down');
}

/** How long a client may be away before it counts as gone, in milliseconds. */
const RETURN_MS = 5_000;

/** How often clients are asked to move, in milliseconds, and how many at a time, unless the deadline asks for more. */
const LOOK_MS = 20;
const AT_ONCE = 2;

/** Sends GOAWAY to every session and waits for them to end; closes those that are left at the deadline. */
export class Drain {
  readonly #sessions: ReadonlyMap<string, ServerEndpoint>;
  #deadline: number;
  readonly #total: number;
  /** Which may have something to end beside sessions. */
  readonly #features: readonly DrainHooks[];
  readonly #goAway: (retryAfterMs: number) => GoAwayPayload;
  readonly #returnWithinMs: number;
  readonly #logger: Logger;
  #stopWaiting: (() => void) | undefined;
  /** An operator has moved the deadline to now. */
  #isFinishing = false;
  /** Clients that were away for too long, although something was under way. */
  #gone = 0;
  readonly #waiting = new Map<ServerEndpoint, NodeJS.Timeout>();

  /** @param deadline Unix milliseconds. */
  constructor(
    sessions: ReadonlyMap<string, ServerEndpoint>,
    features: readonly DrainHooks[],
    returnWithinMs: number,
    deadline: number,
    logger: Logger,
  ) {
    this.#sessions = sessions;
    this.#deadline = deadline;
    this.#total = sessions.size;
    this.#features = features;
    this.#logger = logger;
    this.#returnWithinMs = returnWithinMs;
    this.#goAway = (retryAfterMs) => ({ retryAfterMs, deadline });
  }

  get progress(): DrainProgress {
    return { deadline: this.#deadline, total: this.#total, remaining: this.#sessions.size };
  }

  /**
   * A session has lost its connection. Its client has a moment to come back, unless the session continues elsewhere.
   */
  handleLost(session: ServerEndpoint): void {
    if (this.#isKept(session)) return;
    clearTimeout(this.#waiting.get(session));
    const ms = Math.max(0, session.lostAt + RETURN_MS - systemClock.now());
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

  /** A session has ended, or what a feature waits for. */
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
    return this.#sessions.size === 0 && this.#features.every(({ running = 0 }) => running === 0);
  }

  async run(timeoutMs: number): Promise<DrainResult> {
    for (const feature of this.#features)
      if (feature.announce !== undefined)
        await this.#attempt(() => feature.announce?.(this.#deadline, this.#returnWithinMs));
    const sessions = [...this.#sessions.values()];
    const movers: ServerEndpoint[] = [];
    for (const session of sessions) {
      const goAway = this.#farewellTo(session);
      if (goAway?.move === true) movers.push(session);
      else if (goAway !== undefined) session.sendGoAway(goAway);
      if (!session.hasWire) this.handleLost(session);
    }
    const stopTelling = this.#tellInTurn(movers, timeoutMs);
    await this.#emptyWithin(timeoutMs);
    stopTelling();
    for (const timer of this.#waiting.values()) clearTimeout(timer);
    const parking = this.#features.filter(({ park }) => park !== undefined);
    if (!this.#isEmpty) await Promise.all(parking.map((feature) => this.#attempt(() => feature.park?.())));
    const moved = parking.length === 0 ? undefined : sessions.filter(({ hasMoved }) => hasMoved).length;
    const rest = [...this.#sessions.values()];
    const drained = new ProtocolError('draining', 'the server was drained');
    for (const feature of this.#features) void this.#attempt(() => feature.cut?.(drained));
    const result = {
      ended: sessions.length - rest.length - (moved ?? 0) - this.#gone,
      interrupted: rest.filter(({ state, core }) => state !== 'suspended' && core.channel.openStreams > 0)
        .length,
      lost: rest.filter(({ state }) => state === 'suspended').length + this.#gone,
      ...(moved === undefined ? {} : { moved }),
    };
    await Promise.all(
      rest.map((session) => {
        if (session.hasWire) return sendAway(session, this.#goAway(returnDelay(this.#returnWithinMs)));
        // It is too late to resume it. A client that tries learns that it is gone.
        session.abort(drained);
        return undefined;
      }),
    );
    await Promise.all(this.#features.map((feature) => this.#attempt(() => feature.finish?.())));
    return result;
  }

  /** A feature that fails keeps neither the others nor any session from leaving. */
  async #attempt(task: () => Promise<void> | void): Promise<void> {
    try {
      await task();
    } catch (error) {
      this.#logger.error({ event: 'part.failed', err: loggable(error) }, 'a feature has failed in the drain');
    }
  }

  #isKept(session: ServerEndpoint): boolean {
    return this.#features.some((feature) => guard(session, () => feature.keeps?.(session)));
  }

  #farewellTo(session: ServerEndpoint): GoAwayPayload | undefined {
    if (this.#isKept(session)) return undefined;
    const more = this.#features.map((feature) => guard(session, () => feature.farewell?.(session)));
    return Object.assign(this.#goAway(returnDelay(this.#returnWithinMs)), ...more);
  }

  /**
   * Each client that moves opens a connection, and if thousands do so at once, clients that are talking have to wait.
   * So the drain asks a few at a time, and all of them within half of the time that there is; those with streams are
   * first, since they leave when these end.
   *
   * @returns stops it.
   */
  #tellInTurn(movers: readonly ServerEndpoint[], timeoutMs: number): () => void {
    if (this.#isFinishing) return () => {};
    const hasStreams = ({ core }: ServerEndpoint) => Number(core.channel.openStreams > 0);
    const waiting = movers.toSorted((a, b) => hasStreams(b) - hasStreams(a));
    const atOnce = Math.max(AT_ONCE, Math.ceil(waiting.length / Math.max(1, timeoutMs / 2 / LOOK_MS)));
    const tell = () => {
      for (const session of waiting.splice(0, atOnce)) {
        const goAway = session.hasEnded ? undefined : this.#farewellTo(session);
        if (goAway !== undefined) session.sendGoAway(goAway);
      }
    };
    tell();
    return repeat(LOOK_MS, tell, this.#logger);
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
