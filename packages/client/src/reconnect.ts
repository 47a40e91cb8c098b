import { ProtocolError } from '@parlance/protocol';
import { assertOptions } from '@parlance/protocol/internal';

/** When to try again after a connection was lost. */
export interface ReconnectOptions {
  /** @default 100 */
  readonly minDelayMs?: number | undefined;
  /** @default 10,000 */
  readonly maxDelayMs?: number | undefined;
}

export interface Backoff {
  /** Milliseconds until the next attempt. */
  next(): number;
  /** An attempt has succeeded. */
  reset(): void;
}

const DEFAULTS = { minDelayMs: 100, maxDelayMs: 10_000 };

/**
 * Full jitter: anything between nothing and a bound that doubles with every attempt, so that clients
 * that lost the same server do not come back at the same moment.
 *
 * @param random a number from 0 up to 1.
 * @throws {ProtocolError} `invalid_option`.
 */
export function createBackoff(options: ReconnectOptions = {}, random: () => number = Math.random): Backoff {
  assertOptions(options, { minDelayMs: 'number', maxDelayMs: 'number' }, 'reconnect');
  const { minDelayMs = DEFAULTS.minDelayMs, maxDelayMs = DEFAULTS.maxDelayMs } = options;
  if (!(minDelayMs > 0) || !(maxDelayMs >= minDelayMs)) {
    throw new ProtocolError(
      'invalid_option',
      `reconnect: minDelayMs is more than 0 and at most maxDelayMs, not ${minDelayMs} and ${maxDelayMs}`,
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
