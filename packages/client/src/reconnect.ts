import { assertOptions, ProtocolError } from '@parlance/protocol/client';
/** Delays between attempts to reconnect after a connection was lost. */
export interface ReconnectOptions {
  /** Upper bound of the first delay, in milliseconds. @default 100 */
  readonly minDelayMs?: number | undefined;
  /** Upper bound of every delay, in milliseconds. @default 10,000 */
  readonly maxDelayMs?: number | undefined;
}

export interface Backoff {
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
 * @throws {ProtocolError} `invalid_option` if the delays are invalid.
 */
export function createBackoff(
  given: ReconnectOptions | true = {},
  random: () => number = Math.random,
): Backoff {
  const options = given === true ? {} : given;
  assertOptions(options, { minDelayMs: 'number', maxDelayMs: 'number' }, 'reconnect');
  const { minDelayMs = DEFAULTS.minDelayMs, maxDelayMs = DEFAULTS.maxDelayMs } = options;
  if (!(minDelayMs > 0) || !(maxDelayMs >= minDelayMs)) {
    throw new ProtocolError(
      'invalid_option',
      `reconnect: minDelayMs must be above 0 and at most maxDelayMs, not ${minDelayMs} and ${maxDelayMs}`,
    );
  }
  let bound = minDelayMs;
  return {
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
