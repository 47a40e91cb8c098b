import { isThenable } from '../../base/callbacks.js';
import { ProtocolError } from '../../base/errors.js';
import { unlessAborted } from '../../base/when-aborted.js';
import type { Issue } from './issues.js';
import { readIssues } from './issues.js';

/**
 * A schema of any library that implements Standard Schema, such as zod, valibot or arktype.
 *
 * @typeParam Input what it takes.
 * @typeParam Output what it makes of that.
 */
export interface Schema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Validated<Output> | Promise<Validated<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

type Validated<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly { readonly message: string }[] };

type Types<S extends Schema> = NonNullable<S['~standard']['types']>;
/** The value that a schema takes. */
export type InputOf<S extends Schema> = Types<S>['input'];
/** The value that a schema returns. */
export type OutputOf<S extends Schema> = Types<S>['output'];

/** A value as a schema has changed it, or why the schema refuses it. */
export type Checked =
  | { readonly value: unknown; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] };

/**
 * Runs a schema, which is code of the application. Answers at once if the schema does.
 *
 * @param what the subject of messages, such as `sum: the schema of its input`.
 * @throws {ProtocolError} `internal` if it throws or returns nonsense; the reason of the signal after an abort. A promise rejects with them.
 */
export function check(
  schema: Schema,
  value: unknown,
  signal: AbortSignal,
  what: string,
): Checked | Promise<Checked> {
  const threw = (cause: unknown): ProtocolError =>
    new ProtocolError('internal', `${what} threw an error`, { cause });
  let outcome: unknown;
  let isLater: boolean;
  try {
    outcome = schema['~standard'].validate(value);
    isLater = isThenable(outcome);
  } catch (cause) {
    throw threw(cause);
  }
  if (!isLater) return checkedOf(outcome, what);
  return unlessAborted(settled(outcome as PromiseLike<unknown>), signal).then(
    (result) => checkedOf(result, what),
    (cause: unknown) => {
      throw signal.aborted ? signal.reason : threw(cause);
    },
  );
}

function checkedOf(result: unknown, what: string): Checked {
  try {
    const { issues, value: checked } = result as { issues?: unknown; value?: unknown };
    return issues === undefined ? { value: checked } : { issues: readIssues(issues) };
  } catch (cause) {
    throw new ProtocolError('internal', `${what} returned neither a value nor issues`, { cause });
  }
}

/** A promise of this runtime for anything that the schema has returned. */
async function settled(outcome: PromiseLike<unknown>): Promise<unknown> {
  return await outcome;
}
