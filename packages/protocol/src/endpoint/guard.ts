import type { Clock, Sweepable } from '../platform/clock.js';
import { loggable } from './loggable.js';
import type { Logger } from './ports.js';

/**
 * The guard at every edge: what is thrown within one session ends that session, and reaches neither the
 * event loop nor another session.
 *
 * An edge is a place where nothing of the session's own is further up the stack: the event of a socket, a
 * timer, the continuation of a promise, a call from another session.
 */

/** What a fault ends. */
export interface Crashable {
  /** Ends it with `internal` and a log line. Never throws. */
  crash(error: unknown): void;
}

/** Runs what belongs to one session. `undefined` if it threw, and then the session is over. */
export function guard<Result>(session: Crashable, task: () => Result): Result | undefined {
  try {
    return task();
  } catch (error) {
    session.crash(error);
    return undefined;
  }
}

/** The same for work that is not waited for. */
export function guardLater(session: Crashable, work: Promise<unknown>): void {
  work.catch((error: unknown) => session.crash(error));
}

/** Runs one of several steps that must all be taken, and returns what it threw. */
export function attempt(step: () => void): { readonly error: unknown } | undefined {
  try {
    step();
    return undefined;
  } catch (error) {
    return { error };
  }
}

/**
 * A function of the application that is not waited for may be asynchronous all the same, and then nothing
 * catches what it throws.
 *
 * @param outcome what the function has returned.
 */
export function catchLate(outcome: unknown, onThrown: (error: unknown) => void): void {
  if (typeof outcome !== 'object' || outcome === null) return;
  Promise.resolve(outcome).catch(onThrown);
}

/** The clock of one session: what its timers throw ends it. */
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
 * A logger that never throws and never rejects: a line that cannot be written is worth no session. There is
 * no place left to report that to.
 */
export function guardLogger(logger: Logger): Logger {
  const guarded = {} as Record<(typeof LEVELS)[number], Logger['info']>;
  for (const level of LEVELS) {
    guarded[level] = (fields, message) => {
      try {
        catchLate(logger[level](fields, message) as unknown, ignore);
      } catch {}
    };
  }
  return guarded;
}

const ignore = () => {};

/** The log line of a session that is ended by its guard. */
export function logCrash(logger: Logger, session: string | undefined, error: unknown): void {
  const fields = { event: 'session.crashed', session, err: loggable(error) };
  attempt(() => logger.error(fields, 'the session failed and is ended'));
}
