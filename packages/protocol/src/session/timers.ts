import type { Timers } from '../base/limits.js';
import type { Outbox } from '../link/outbox.js';
import type { Pacer } from '../link/rates.js';

/** Silence after which a PING is sent while frames wait to be acknowledged. */
const WAITING_PING_MS = 5_000;
/** How long a PONG may take, and how long silence may last, while the connection may be gone: see {@link Liveness.probe}. */
const PROBE_MS = 3_000;
/** PINGs in a row that may stay unanswered before the connection counts as lost. */
const MAX_MISSED_PONGS = 3;
/** How long the PONG of a client that is heard may take, in milliseconds. */
const SILENT_MS = 2_000;

/** The deadline that became due; a session handles one at a time. */
export type Due =
  /** The present state of the lifecycle has lasted its time. */
  | 'state'
  /** The server has not answered the HELLO that asks it to resume the session. */
  | 'answer'
  /** The credentials of the connection have expired. */
  | 'credentials'
  /** No data for the session timeout. */
  | 'idle'
  /** The peer is silent; send a PING. */
  | 'ping'
  /** The peer answers no PING. */
  | 'lost';

/** The deadlines that only one of the two roles has; `Infinity` for those of the other. */
export interface RoleDeadlines {
  /** Client: when the server must have answered a HELLO that resumes the session. */
  readonly answerDue: number;
  /** Server: when the client's credentials expire. */
  readonly credentialsEnd: number;
  /** Server: milliseconds without data after which it closes the session. */
  readonly idleTimeoutMs: number;
  /** Client: the application reads what comes on an open stream, so silence means more. @default false */
  readonly awaitsStreams?: boolean;
}

/** The parts of a session that its deadlines depend on. */
export interface TimedSession {
  readonly isEstablished: boolean;
  /** The connection is lost, and another one may resume the session. */
  readonly isLost: boolean;
  readonly role: RoleDeadlines;
  readonly outbox: Pick<Outbox, 'isPaced'> & { readonly pace: Pick<Pacer, 'readyAt'> | undefined };
  readonly channel: {
    readonly openStreams: number;
    readonly framesUnconfirmed: number;
    nextTimeout(): number;
  };
}

/** The clock of a session and everything that it waits for. */
export class SessionTimers {
  /** The last clock reading; commands of the application that bring none use it. */
  now = 0;
  readonly liveness: Liveness;
  // A number like Infinity would take room for itself in each session.
  /** Clock reading at which the present state times out; `undefined` if it may last. */
  #state: number | undefined;
  /** Clock reading at which closing times out, with or without a connection; `undefined` before that. */
  #closing: number | undefined;
  /** Clock reading of {@link touch}. */
  lastData = 0;

  constructor(timers: Timers) {
    this.liveness = new Liveness(timers);
  }

  /**
   * The milliseconds since the last data, which {@link touch} restores, and those that are left of the present state.
   * A PING under way is forgotten.
   */
  snapshot(): readonly [idleMs: number, leftMs: number] {
    return [this.now - this.lastData, (this.#state ?? Infinity) - this.now];
  }

  /** Readings never go back. */
  tick(now: number): void {
    if (now > this.now) this.now = now;
  }

  /** Data was sent or received; PING and PONG do not count. */
  touch(): void {
    this.lastData = this.now;
  }

  /** The present state ends in `ms`, `Infinity` for one that may last. */
  startState(ms: number): void {
    this.#state = ms === Infinity ? undefined : this.now + ms;
  }

  stopState(): void {
    this.#state = undefined;
  }

  /** Closing ends in `ms`. A suspended session still ends with its window if that is sooner. */
  startClosing(ms: number): void {
    this.#closing = this.now + ms;
    this.#state = Math.min(this.#state ?? Infinity, this.#closing);
  }

  /** A session that resumed while closing has the rest of its closing timeout, and no window any more. */
  resumeClosing(): void {
    this.#state = this.#closing;
  }

  /** The earliest clock reading at which something is due. */
  next(session: TimedSession): number {
    const { isEstablished, isLost, role, channel } = session;
    const next = Math.min(this.#state ?? Infinity, role.answerDue);
    if (isLost) return next;
    const output = Math.min(channel.nextTimeout(), this.#paceDue(session));
    if (!isEstablished) return Math.min(next, output);
    const ping = this.liveness.nextPoll(...this.#patience(session));
    return Math.min(next, output, role.credentialsEnd, this.#idleDeadline(session), ping);
  }

  /** The deadline that is due at `now`. A deadline of the state is reported once. */
  due(now: number, session: TimedSession): Due | undefined {
    const { isEstablished, role } = session;
    if (this.#state !== undefined && now >= this.#state) {
      this.#state = undefined;
      return 'state';
    }
    if (now >= role.answerDue) return 'answer';
    if (!isEstablished) return undefined;
    if (now >= role.credentialsEnd) return 'credentials';
    if (now >= this.#idleDeadline(session)) return 'idle';
    return this.liveness.poll(now, ...this.#patience(session));
  }

  /** Whether silence means more now, and after how much of it. */
  #patience({ role, channel }: TimedSession): [isWaiting: boolean, waitingMs?: number] {
    if (channel.framesUnconfirmed > 0) return [true];
    if (role.awaitsStreams !== true || channel.openStreams === 0) return [false];
    // A model that thinks is asked about less and less often, and so is a watch on which nothing happens.
    return [true, Math.max(WAITING_PING_MS, this.liveness.lastReceived - this.lastData)];
  }

  /** When the peer's rates let the next body be written. */
  #paceDue({ outbox }: TimedSession): number {
    return outbox.isPaced ? (outbox.pace?.readyAt(this.now) ?? Infinity) : Infinity;
  }

  /** An open stream keeps a session from being idle. */
  #idleDeadline({ role, channel }: TimedSession): number {
    return channel.openStreams > 0 ? Infinity : this.lastData + role.idleTimeoutMs;
  }
}

/** Sends a PING after silence and repeats it while nothing answers. Any frame received is a sign of life. */
export class Liveness {
  /** Milliseconds between the last PING and its PONG. */
  roundTripMs: number | undefined;
  readonly #timers: Timers;
  /** Clock reading of the last frame. */
  lastReceived = 0;
  #pingSentAt = 0;
  /** `undefined` if no PONG is awaited. */
  #pongDue: number | undefined;
  #missed = 0;
  #unanswered = 0;
  /** The connection may be gone, until all PINGs are answered. */
  #isDoubted = false;
  /** A PING is due, also beside one that waits for its PONG. */
  #asksNow = false;

  constructor(timers: Timers) {
    this.#timers = timers;
  }

  /** PINGs of this connection whose PONG has not arrived. */
  get unanswered(): number {
    return this.#unanswered;
  }

  handleReceived(now: number): void {
    this.lastReceived = now;
    this.#missed = 0;
  }

  /** How long nothing has come, in milliseconds, if a PING has waited for its PONG for two seconds. */
  silentMs(now: number): number | undefined {
    const isSilent = this.#pongDue !== undefined && this.lastReceived <= this.#pingSentAt;
    return isSilent && now - this.#pingSentAt >= SILENT_MS ? now - this.lastReceived : undefined;
  }

  /** A new connection: a PING of the previous one is never answered. */
  restart(now: number): void {
    this.handleReceived(now);
    this.#pongDue = undefined;
    this.#unanswered = 0;
    this.#isDoubted = false;
    this.#asksNow = false;
  }

  /**
   * The connection may be gone without a word, as when its machine has slept: {@link poll} sends a PING now, and gives the
   * connection up after some 10 s of silence. Other frames prove nothing, as they may have arrived before.
   */
  probe(): void {
    if (this.#isDoubted) return;
    this.#isDoubted = true;
    this.#missed = 0;
    this.#asksNow = true;
  }

  handlePong(now: number): void {
    if (this.#unanswered > 0) this.#unanswered--;
    if (this.#pongDue !== undefined) this.roundTripMs = now - this.#pingSentAt;
    this.#pongDue = undefined;
    if (this.#unanswered === 0) this.#isDoubted = false;
  }

  /**
   * The step to take at `now`: none, send a PING, or give the connection up.
   *
   * @param isWaiting frames were sent and not acknowledged, or are awaited, so silence means more.
   * @param waitingMs after how much of it a PING is sent then.
   */
  poll(now: number, isWaiting: boolean, waitingMs?: number): 'ping' | 'lost' | undefined {
    if (now < this.nextPoll(isWaiting, waitingMs)) return undefined;
    if (this.#pongDue === undefined || this.#asksNow) return this.#ping(now);
    // Another frame has arrived since the PING: the peer lives, its PONG may come later.
    if (this.lastReceived > this.#pingSentAt) {
      this.#pongDue = undefined;
      return undefined;
    }
    this.#missed++;
    return this.#missed < MAX_MISSED_PONGS ? this.#ping(now) : 'lost';
  }

  /** When {@link poll} has something to do. */
  nextPoll(isWaiting: boolean, waitingMs: number = WAITING_PING_MS): number {
    if (this.#asksNow) return -Infinity;
    if (this.#pongDue !== undefined) return this.#pongDue;
    const ms = this.#isDoubted ? PROBE_MS : isWaiting ? waitingMs : Infinity;
    return this.lastReceived + Math.min(ms, this.#timers.pingIntervalMs);
  }

  #ping(now: number): 'ping' {
    this.#asksNow = false;
    this.#unanswered++;
    this.#pingSentAt = now;
    const { pongTimeoutMs } = this.#timers;
    this.#pongDue = now + (this.#isDoubted ? Math.min(PROBE_MS, pongTimeoutMs) : pongTimeoutMs);
    return 'ping';
  }
}
