import type { Timers } from './limits.js';

/**
 * Whether the peer is still there: a PING after silence, repeated while nothing answers. Anything
 * received is a sign of life.
 */
export interface Liveness {
  /** Milliseconds between the last PING and its PONG. */
  readonly roundTripMs: number | undefined;
  handleReceived(now: number): void;
  handlePong(now: number): void;
  /** What is due at `now`: nothing, a PING, or giving the connection up. */
  check(now: number): 'alive' | 'ping' | 'lost';
  /** When `check` has something to say. */
  nextCheck(): number;
}

/** Missed PONGs in a row after which a connection counts as lost. */
const MAX_MISSED_PONGS = 3;

export function createLiveness(timers: Timers): Liveness {
  let lastReceived = 0;
  let pingSentAt = 0;
  let pongDue = Infinity;
  let missed = 0;
  let roundTripMs: number | undefined;

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

    handlePong(now) {
      if (pongDue !== Infinity) roundTripMs = now - pingSentAt;
      pongDue = Infinity;
    },

    check(now) {
      if (pongDue === Infinity) return now - lastReceived >= timers.pingIntervalMs ? ping(now) : 'alive';
      if (now < pongDue) return 'alive';
      // Something else has come since the PING: the peer lives, its PONG may come later.
      if (lastReceived > pingSentAt) {
        pongDue = Infinity;
        return 'alive';
      }
      missed++;
      return missed < MAX_MISSED_PONGS ? ping(now) : 'lost';
    },

    nextCheck: () => (pongDue === Infinity ? lastReceived + timers.pingIntervalMs : pongDue),
  };
}
