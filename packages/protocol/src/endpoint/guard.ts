import { notify } from '../base/callbacks.js';
import type { Clock, Sweepable } from '../platform/clock.js';
import { loggable } from './loggable.js';
import type { Logger } from './ports.js';

/**
 * The guards of a session: an error that is thrown within it ends this session, and reaches neither the event
 * loop nor another session.
 *
 * A guard is needed wherever no caller up the stack belongs to the session: in the event of a socket, a
 * timer, the continuation of a promise, a call from another session.
 */

/** A session that a fault ends. */
export interface Crashable {
  /** Ends the session with `internal`, and logs the error. Never throws. */
  crash(error: unknown): void;
}

/** Runs a task of one session. Returns `undefined` if it threw, which ends the session. */
export function guard<Result>(session: Crashable, task: () => Result): Result | undefined {
  try {
    return task();
  } catch (error) {
    session.crash(error);
    return undefined;
  }
}

/** As {@link guard} for work that is not awaited. */
export function guardLater(session: Crashable, work: Promise<unknown>): void {
  work.catch((error: unknown) => session.crash(error));
}

/** Runs one of several steps that must all be taken. Returns the error if it threw. */
export function attempt(step: () => void): { readonly error: unknown } | undefined {
  try {
    step();
    return undefined;
  } catch (error) {
    return { error };
  }
}

/** The clock of one session: an error in one of its timers ends the session. */
export class GuardedClock implements Clock {
  readonly #clock: Clock;
  readonly #session: Crashable;

  constructor(clock: Clock, session: Crashable) {
    this.#clock = clock;
    this.#session = session;
  }

  get timeOrigin(): number {
    return this.#clock.timeOrigin;
  }
  now(): number {
    return this.#clock.now();
  }
  after(ms: number, task: () => void): () => void {
    return this.#clock.after(ms, () => void guard(this.#session, task));
  }
  soon(item: Sweepable): void {
    this.#clock.soon(item);
  }
  yield(): Promise<void> {
    return this.#clock.yield();
  }
}

const LEVELS = ['debug', 'info', 'warn', 'error'] as const;

/**
 * Wraps a logger so that it never throws or rejects: a log line that cannot be written must not end a
 * session.
 *
 * @param report called as well with each line about an error, unless it is for debugging.
 */
export function guardLogger(logger: Logger, report?: Logger['warn']): Logger {
  const guarded = {} as Record<(typeof LEVELS)[number], Logger['info']>;
  for (const level of LEVELS) {
    guarded[level] = (fields, message) => {
      notify(() => logger[level](fields, message));
      if (fields['err'] !== undefined && level !== 'debug') attempt(() => report?.(fields, message));
    };
  }
  return guarded;
}

/** Logs the fault that ended a session. */
export function logCrash(logger: Logger, session: string | undefined, error: unknown): void {
  const fields = { event: 'session.crashed', session, err: loggable(error) };
  attempt(() => logger.error(fields, 'the session ended because of a fault'));
}
