import type { Logger } from '@parlance/protocol';
import { systemClock } from '@parlance/protocol/internal';

/** Lines of one event in a minute, and at once. */
export const MAX_LINES = 60;
const MINUTE_MS = 60_000;

/**
 * A log in which other nodes cause at most {@link MAX_LINES} warnings and errors of one event in a minute. The next one
 * says in `omitted` how many were left out.
 */
export function limitedLog(logger: Logger, now: () => number = () => systemClock.now()): Logger {
  const events = new Map<unknown, { left: number; at: number; omitted: number }>();
  const limited =
    (level: 'warn' | 'error'): Logger['warn'] =>
    (fields, message) => {
      const { event } = fields;
      const time = now();
      const state = events.get(event) ?? { left: MAX_LINES, at: time, omitted: 0 };
      events.set(event, state);
      state.left = Math.min(MAX_LINES, state.left + ((time - state.at) * MAX_LINES) / MINUTE_MS);
      state.at = time;
      if (state.left < 1) {
        state.omitted++;
        return;
      }
      const { omitted } = state;
      state.left--;
      state.omitted = 0;
      logger[level](omitted === 0 ? fields : { ...fields, omitted }, message);
    };
  return {
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: limited('warn'),
    error: limited('error'),
  };
}
