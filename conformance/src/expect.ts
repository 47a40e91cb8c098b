import { isDeepStrictEqual } from 'node:util';
import { isProtocolError } from './subject.js';

/**
 * Expectations of the runner. An expectation that does not hold throws a {@link Mismatch}, which fails its
 * case.
 */

/** The result contradicts the vectors or the rules of the protocol. */
export class Mismatch extends Error {
  override readonly name = 'Mismatch';
}

/** The outcome of a call: a value, or a refusal with a `ProtocolError`. */
export type Outcome<T> =
  | { readonly accepted: true; readonly value: T }
  | { readonly accepted: false; readonly code: string; readonly message: string };

/** The verdict that a vector demands of a decoder or encoder. */
export const VERDICTS = ['accept', 'reject', 'either'] as const;
export type Verdict = (typeof VERDICTS)[number];

export function fail(what: string): never {
  throw new Mismatch(what);
}

export function holds(condition: boolean, what: string): asserts condition {
  if (!condition) fail(what);
}

/** Deep equality of value and type. */
export function same(actual: unknown, expected: unknown, what: string): void {
  if (isDeepStrictEqual(actual, expected)) return;
  fail(`${what}: expected ${shown(expected, actual)}, got ${shown(actual, expected)}`);
}

/** Runs a call; it may throw nothing but a `ProtocolError`. */
export function outcomeOf<T>(run: () => T): Outcome<T> {
  try {
    return { accepted: true, value: run() };
  } catch (error) {
    // A failed expectation within the call is not an outcome of the call.
    if (error instanceof Mismatch) throw error;
    if (isProtocolError(error)) return { accepted: false, code: error.code, message: error.message };
    throw foreign(error);
  }
}

/** The result of a call that must succeed. */
export function accepted<T>(run: () => T, what: string): T {
  const outcome = outcomeOf(run);
  return outcome.accepted ? outcome.value : fail(`${what} was refused: ${outcome.code}, ${outcome.message}`);
}

/** A call that must throw a `ProtocolError`. */
export function refused(run: () => unknown, what: string): void {
  holds(!outcomeOf(run).accepted, `${what} was accepted`);
}

/** Compares an outcome to a verdict. */
export function judged(outcome: Outcome<unknown>, verdict: Verdict, what: string): void {
  if (verdict === 'reject') holds(!outcome.accepted, `${what} was accepted`);
  if (verdict === 'accept' && !outcome.accepted) {
    fail(`${what} was refused: ${outcome.code}, ${outcome.message}`);
  }
}

/** An error that no peer may be able to cause. */
function foreign(error: unknown): Mismatch {
  const shownError = error instanceof Error ? (error.stack ?? String(error)) : String(error);
  return new Mismatch(`not a ProtocolError: ${shownError}`, { cause: error });
}

const MAX_SHOWN = 120;

/**
 * A value in readable form; long texts and bytes are cut to the part where they begin to differ from `other`.
 */
function shown(value: unknown, other: unknown): string {
  const text = textOf(value);
  if (text.length <= MAX_SHOWN) return text;
  const reference = textOf(other);
  let at = 0;
  while (at < text.length && text[at] === reference[at]) at++;
  const from = Math.max(0, Math.min(at - 20, text.length - MAX_SHOWN));
  return `${from > 0 ? `…[${from}]` : ''}${text.slice(from, from + MAX_SHOWN)}…`;
}

function textOf(value: unknown): string {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex');
  return (
    JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? `${part}n` : part)) ??
    String(value)
  );
}
