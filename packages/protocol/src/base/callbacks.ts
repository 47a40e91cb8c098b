import { isProtocolError, ProtocolError } from './errors.js';

/**
 * Calls of functions that an application has handed in. Such a function may throw or reject with anything, also with a
 * value that throws itself when it is looked at; it may return anything, settle never or twice, and be asynchronous
 * although its type says that it is not. An error that no one catches ends a process of Node with every session in it.
 *
 * - {@link notify}: its result is not wanted.
 * - {@link ask}: its result is wanted at once.
 * - {@link atOnce}: as `ask`, but the caller is to get what it throws.
 * - {@link called}: the other way round, a call of the application, which may not wait for its result.
 * - A result that may be waited for is awaited within a `try`; what it throws becomes {@link readable} there.
 */

/** Calls a function whose result is not wanted. @param onThrown gets what it throws, now or later, if that can be read. */
export function notify(call: () => unknown, onThrown: (error: unknown) => void = ignore): void {
  ask(call, ignore, onThrown);
}

/**
 * Calls a function that answers at once.
 *
 * @param read makes the answer of what it returned, and throws if that is none.
 * @param onThrown makes the answer if anything throws; also called if the function returned a promise that rejects.
 */
export function ask<Answer>(
  call: () => unknown,
  read: (given: unknown) => Answer,
  onThrown: (error: unknown) => Answer,
): Answer {
  try {
    const given = call();
    catchLate(given, onThrown);
    return read(given);
  } catch (error) {
    return onThrown(readable(error));
  }
}

/** Whether a value is, or may be, a promise of any kind. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return ((typeof value === 'object' && value !== null) || typeof value === 'function') && 'then' in value;
}

/** Returns the result of a function that answers at once. @throws {ProtocolError} `invalid_argument` if it is a promise. */
export function atOnce<Value>(given: Value, name: string): Value {
  if (!isThenable(given)) return given;
  catchLate(given, ignore);
  throw new ProtocolError('invalid_argument', `${name}: the function must not return a promise`);
}

/**
 * Catches the error of what a function returned that is not awaited.
 *
 * @param given the value that the function returned.
 */
export function catchLate(given: unknown, onThrown: (error: unknown) => unknown): void {
  if ((typeof given !== 'object' && typeof given !== 'function') || given === null) return;
  void settled(given, onThrown);
}

/** Never rejects. */
async function settled(given: unknown, onThrown: (error: unknown) => unknown): Promise<void> {
  try {
    // In contrast to its methods, `await` is not the application's.
    await given;
  } catch (error) {
    try {
      onThrown(readable(error));
    } catch {}
  }
}

/**
 * The result of a public call, whose errors all reject it. A caller that waits for it gets them. One that does not wait has no
 * unhandled rejection, which would end a process of Node with every session in it because one client has left.
 */
export function called<Result>(call: () => Promise<Result>): Promise<Result> {
  let result: Promise<Result>;
  try {
    result = call();
  } catch (error) {
    result = Promise.reject(error);
  }
  result.catch(ignore);
  return result;
}

/** Returns the error, or another one if this one throws when it is looked at, as a proxy may. */
export function readable(error: unknown): unknown {
  try {
    if (error instanceof Error)
      void [error.name, error.message, error.stack, error.cause, 'code' in error && error.code];
    return error;
  } catch {
    return new Error('an error that cannot be read', { cause: error });
  }
}

/** How deep an error is looked for that the thrown one was made of. */
const MAX_CAUSES = 8;

/**
 * Whether a function that is to stop, or whose session is over, has thrown because of that: an error of ours, one that calls itself an
 * abort or a cancellation, or one with such a cause. Anything else is a fault of the function, which must not go unreported.
 */
export function comesOfStopping(error: unknown): boolean {
  try {
    for (let at = error, depth = 0; at instanceof Error && depth < MAX_CAUSES; depth++, at = at.cause)
      if (isProtocolError(at) || /abort|cancel/i.test(`${at.name} ${at.constructor.name}`)) return true;
  } catch {}
  return false;
}

function ignore(): void {}
