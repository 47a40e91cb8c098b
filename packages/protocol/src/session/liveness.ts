import type { Timers } from '../base/limits.js';

/** Silence after which a PING is sent while something waits to be acknowledged. */
const WAITING_PING_MS = 5_000;
/** Missed PONGs in a row after which a connection counts as lost. */
const MAX_MISSED_PONGS = 3;

/**
 * Whether the peer is still there: a PING after silence, repeated while nothing answers. Anything
 * received is a sign of life.
 */
export class Liveness {
  /** Milliseconds between the last PING and its PONG. */
  roundTripMs: number | undefined;
  readonly #timers: Timers;
  #lastReceived = 0;
  #pingSentAt = 0;
  #pongDue = Infinity;
  #missed = 0;
  #unanswered = 0;

  constructor(timers: Timers) {
    this.#timers = timers;
  }

  /** PINGs of this connection whose PONG has not come. */
  get unanswered(): number {
    return this.#unanswered;
  }

  handleReceived(now: number): void {
    this.#lastReceived = now;
    this.#missed = 0;
  }

  /** A new connection: what was asked on the one before it is answered by nobody. */
  restart(now: number): void {
    this.handleReceived(now);
    this.#pongDue = Infinity;
    this.#unanswered = 0;
  }

  handlePong(now: number): void {
    if (this.#unanswered > 0) this.#unanswered--;
    if (this.#pongDue !== Infinity) this.roundTripMs = now - this.#pingSentAt;
    this.#pongDue = Infinity;
  }

  /**
   * What is due at `now`: nothing, a PING, or giving the connection up.
   *
   * @param isWaiting something was sent and not acknowledged, so silence means more.
   */
  check(now: number, isWaiting: boolean): 'alive' | 'ping' | 'lost' {
    if (now < this.nextCheck(isWaiting)) return 'alive';
    if (this.#pongDue === Infinity) return this.#ping(now);
    // Something else has come since the PING: the peer lives, its PONG may come later.
    if (this.#lastReceived > this.#pingSentAt) {
      this.#pongDue = Infinity;
      return 'alive';
    }
    this.#missed++;
    return this.#missed < MAX_MISSED_PONGS ? this.#ping(now) : 'lost';
  }

  /** When `check` has something to say. */
  nextCheck(isWaiting: boolean): number {
    if (this.#pongDue !== Infinity) return this.#pongDue;
    const { pingIntervalMs } = this.#timers;
    return this.#lastReceived + (isWaiting ? Math.min(WAITING_PING_MS, pingIntervalMs) : pingIntervalMs);
  }

  #ping(now: number): 'ping' {
    this.#unanswered++;
    this.#pingSentAt = now;
    this.#pongDue = now + this.#timers.pongTimeoutMs;
    return 'ping';
  }
}
