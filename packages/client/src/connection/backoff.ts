import { assertOptions, ProtocolError } from '@parlance/protocol/client';
import { isPage } from './page-events.js';

/** Delays between attempts to connect again. */
export interface ReconnectOptions {
  /** Upper bound of the first delay, in milliseconds. @default 100 */
  readonly minDelayMs?: number | undefined;
  /** Upper bound of every delay, in milliseconds. @default 10,000 */
  readonly maxDelayMs?: number | undefined;
  /**
   * For how long `connect` tries again if the server cannot be reached or refuses for now, and, if this is stated, also if it says
   * nothing; in milliseconds from its call. 0: one attempt.
   *
   * @default 60,000 with `waitForServer`; else 15,000 in pages and their workers, so that a page outlives the restart of its server, and 0 elsewhere
   */
  readonly connectWithinMs?: number | undefined;
}

export interface Backoff {
  /** See {@link ReconnectOptions.connectWithinMs}. */
  readonly connectWithinMs: number;
  /** Milliseconds until the next attempt. */
  next(): number;
  /** Starts again at the first delay, after a successful attempt. */
  reset(): void;
}

const DEFAULTS = { minDelayMs: 100, maxDelayMs: 10_000 };

/**
 * Exponential backoff with full jitter: each delay is random between zero and a bound that doubles with every
 * attempt, so that clients that lost the same server do not reconnect at the same moment.
 *
 * @param given `true` stands for the defaults.
 * @param random returns a number in [0, 1).
 * @param waits the option `waitForServer`.
 * @throws {ProtocolError} `invalid_option` if the delays are invalid.
 */
export function createBackoff(
  given: ReconnectOptions | true = {},
  random: () => number = Math.random,
  waits = false,
): Backoff {
  const options = given === true ? {} : given;
  assertOptions(
    options,
    { minDelayMs: 'number', maxDelayMs: 'number', connectWithinMs: 'number' },
    'reconnect',
  );
  const { minDelayMs = DEFAULTS.minDelayMs, maxDelayMs = DEFAULTS.maxDelayMs } = options;
  const { connectWithinMs = waits ? 60_000 : isPage() ? 15_000 : 0 } = options;
  if (!(minDelayMs > 0) || !(maxDelayMs >= minDelayMs)) {
    throw new ProtocolError(
      'invalid_option',
      `reconnect: minDelayMs must be above 0 and at most maxDelayMs, not ${minDelayMs} and ${maxDelayMs}`,
    );
  }
  let bound = minDelayMs;
  return {
    connectWithinMs,
    next() {
      const delay = random() * bound;
      bound = Math.min(maxDelayMs, bound * 2);
      return delay;
    },
    reset() {
      bound = minDelayMs;
    },
  };
}
