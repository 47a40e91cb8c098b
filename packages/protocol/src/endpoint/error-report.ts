import { notify, readable } from '../base/callbacks.js';
import { RequestError } from '../base/errors.js';
import { TokenBucket } from '../base/token-bucket.js';
import { originalOf } from './loggable.js';

/** The log line that an error belongs to. */
export interface ErrorContext {
  /** As in the log, such as `request.failed`. */
  readonly event: string;
  /** The failure, in a sentence. */
  readonly message: string;
  /** The ID of the session, if the error belongs to one. */
  readonly session?: string | undefined;
}

/**
 * Called with each error that is thrown by the application's functions, or by what the program depends on, and that
 * no caller sees. It gets the error itself, whose message may quote content; a log gets its type and place only. A
 * {@link RequestError} is an answer, so it is not reported.
 */
export type OnError = (error: unknown, context: ErrorContext) => unknown;

/** Hands the error of a log line to `onError`. An error that `onError` throws itself is dropped. */
export function reportError(
  onError: OnError,
  fields: Readonly<Record<string, unknown>>,
  message: string,
): void {
  const found = originalOf(fields['err']);
  if (found === undefined || readable(found.error) instanceof RequestError) return;
  const { event, session } = fields;
  const context = { event: String(event), message, ...(typeof session === 'string' && { session }) };
  notify(() => onError(found.error, context));
}

/** Errors that are printed at once, and then one in each second. */
const PRINTED_AT_ONCE = 20;
const PRINTED_PER_MS = 1 / 1_000;

/** Prints errors in full, but not more of them than a person reads: a peer may be able to cause them. */
export function createErrorPrinter(
  print: (line: string, error: unknown) => void,
  now: () => number,
): OnError {
  const budget = new TokenBucket(PRINTED_AT_ONCE, PRINTED_PER_MS, now());
  let unprinted = 0;
  return (error, { event, message }) => {
    if (!budget.take(1, now())) {
      unprinted++;
      return;
    }
    const more = unprinted > 0 ? ` (${unprinted} more errors were not printed)` : '';
    unprinted = 0;
    print(`${event}: ${message}${more}`, error);
  };
}
