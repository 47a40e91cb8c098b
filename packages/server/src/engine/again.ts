import { setTimeout as pause } from 'node:timers/promises';
import { isProtocolError } from '@parlance/protocol';

/** How often {@link again} makes a call, and the pause before it makes it again, in milliseconds. */
const ATTEMPTS = 8;
const RETRY_MS = 250;

/**
 * Makes a call of an engine again that was not answered, or whose connection was lost, while no session waits for it.
 *
 * @throws {Error} the error of the last of 8 attempts; any other one at once.
 */
export async function again<Result>(call: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await call();
    } catch (error) {
      const isPassing = isProtocolError(error) && ['timeout', 'connection_failed'].includes(error.code);
      if (!isPassing || attempt === ATTEMPTS) throw error;
      await pause(RETRY_MS);
    }
  }
}
