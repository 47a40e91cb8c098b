import type { Timers } from './limits.js';

/**
 * Whether the peer is still there: a PING after silence, repeated while nothing answers. Anything
 * received is a sign of life.
 */
export interface Liveness {
  /** Milliseconds between the last PING and its PONG. */
  readonly roundTripMs: number | undefined;
  handleReceived(now: number): void;
  /** A new connection: what was asked on the one before it is answered by nobody. */
  restart(now: number): void;
  handlePong(now: number): void;
  /**
   * What is due at `now`: nothing, a PING, or giving the connection up.
   *
   * @param isWaiting something was sent and not acknowledged, so silence means more.
   */
  check(now: number, isWaiting: boolean): 'alive' | 'ping' | 'lost';
  /** When `check` has something to say. */
  nextCheck(isWaiting: boolean): number;
}

/** Silence after which a PING is sent while something waits to be acknowledged. */
const WAITING_PING_MS = 5_000;
/** Missed PONGs in a row after which a connection counts as lost. */
const MAX_MISSED_PONGS = 3;

export function createLiveness(timers: Timers): Liveness {
  let lastReceived = 0;
  let pingSentAt = 0;
  let pongDue = Infinity;
  let missed = 0;
  let roundTripMs: number | undefined;

  const interval = (isWaiting: boolean) =>
    isWaiting ? Math.min(WAITING_PING_MS, timers.pingIntervalMs) : timers.pingIntervalMs;

  const ping = (now: number): 'ping' => {
    pingSentAt = now;
    pongDue = now + timers.pongTimeoutMs;
    return 'ping';
  };

  return {
    get roundTripMs() {
      return roundTripMs;
    },

    handleReceived(now) {
      lastReceived = now;
      missed = 0;
    },

    restart(now) {
      lastReceived = now;
      missed = 0;
      pongDue = Infinity;
    },

    handlePong(now) {
      if (pongDue !== Infinity) roundTripMs = now - pingSentAt;
      pongDue = Infinity;
    },

    check(now, isWaiting) {
      if (pongDue === Infinity) return now - lastReceived >= interval(isWaiting) ? ping(now) : 'alive';
      if (now < pongDue) return 'alive';
      // Something else has come since the PING: the peer lives, its PONG may come later.
      if (lastReceived > pingSentAt) {
        pongDue = Infinity;
        return 'alive';
      }
      missed++;
      return missed < MAX_MISSED_PONGS ? ping(now) : 'lost';
    },

    nextCheck: (isWaiting) => (pongDue === Infinity ? lastReceived + interval(isWaiting) : pongDue),
  };
}
