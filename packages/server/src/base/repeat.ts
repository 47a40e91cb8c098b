import type { Logger } from '@parlance/protocol';
import { attempt, loggable } from '@parlance/protocol/internal';

/** Runs `task` at an interval that does not keep the process alive; logs what it throws. Returns how to stop. */
export function repeat(intervalMs: number, task: () => void, logger: Logger): () => void {
  const timer = setInterval(() => {
    const failed = attempt(task);
    if (failed === undefined) return;
    logger.error(
      { event: 'server.failed', err: loggable(failed.error) },
      'a periodic task of the server failed',
    );
  }, intervalMs);
  timer.unref();
  return () => clearInterval(timer);
}

/** Resolves after a time that does not keep the process alive. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms).unref());
}

/**
 * Calls again, after a pause, what has failed.
 *
 * @param mayGoOn whether it is called again.
 * @throws what it has thrown last, if it is not called again.
 */
export async function persist<Value>(
  call: () => Promise<Value>,
  pauseMs: number,
  mayGoOn: (error: unknown) => boolean,
  wait: (ms: number) => Promise<void> = pause,
): Promise<Value> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!mayGoOn(error)) throw error;
    }
    await wait(pauseMs);
  }
}
