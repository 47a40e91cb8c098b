import type { Logger } from '@parlance/protocol';
import { systemClock } from '@parlance/protocol/internal';

/** Lines of one event in a minute, and at once. */
export const MAX_LINES = 60;
const MINUTE_MS = 60_000;
/** Keys that are remembered. */
const MAX_KEYS = 10_000;

/** Of a line of the log; `undefined` for one that is always written. */
type KeyOf = (fields: Readonly<Record<string, unknown>>) => unknown;

/**
 * A log in which at most {@link MAX_LINES} warnings and errors of one key are written in a minute. The next one says in
 * `omitted` how many were left out. Its functions return what those of the logger do, which may reject.
 *
 * @param keyOf by default the event: all other nodes together cause so many lines of it.
 */
export function limitedLog(
  logger: Logger,
  now: () => number = () => systemClock.now(),
  keyOf: KeyOf = ({ event }) => event,
): Logger {
  const keys = new Map<unknown, { left: number; at: number; omitted: number }>();
  const limited =
    (level: 'warn' | 'error'): Logger['warn'] =>
    (fields, message) => {
      const key = keyOf(fields);
      if (key === undefined) return logger[level](fields, message);
      const time = now();
      const state = keys.get(key) ?? { left: MAX_LINES, at: time, omitted: 0 };
      // The one that was used last is the newest.
      keys.delete(key);
      keys.set(key, state);
      if (keys.size > MAX_KEYS) keys.delete(keys.keys().next().value);
      state.left = Math.min(MAX_LINES, state.left + ((time - state.at) * MAX_LINES) / MINUTE_MS);
      state.at = time;
      if (state.left < 1) {
        state.omitted++;
        return;
      }
      const { omitted } = state;
      state.left--;
      state.omitted = 0;
      return logger[level](omitted === 0 ? fields : { ...fields, omitted }, message);
    };
  return {
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: limited('warn'),
    error: limited('error'),
  };
}

/** The same for each session: its peer can cause as many lines as it sends messages. */
export function limitedBySession(logger: Logger, now?: () => number): Logger {
  return limitedLog(logger, now, ({ event, session }) =>
    typeof session === 'string' ? `${event} ${session}` : undefined,
  );
}
