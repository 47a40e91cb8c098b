import { ProtocolError } from '../../base/errors.js';
import { assertOptions, type OptionKinds } from '../../base/options.js';
import type { AsJson } from '../as-json.js';
import type { Message } from '../messages/message.js';
import type { RequestContext } from '../requests/handler-context.js';
import type { Session } from '../session.js';
import type { InputOf, OutputOf, Schema } from './schema.js';

/** What both ends know about the requests that one of them answers. */

/** One kind of request. All values travel as JSON. */
export interface Procedure {
  /** What the caller sends. @default nothing */
  readonly input?: Schema | undefined;
  /** What the handler returns. @default nothing */
  readonly output?: Schema | undefined;
  /** What the handler yields, before it returns. @default the procedure has no parts */
  readonly parts?: Schema | undefined;
}

export type Procedures = Readonly<Record<string, Procedure>>;

/** The procedures that one end has and the other calls, by their names. */
export class Contract<P extends Procedures> {
  readonly procedures: P;

  /** @throws {ProtocolError} `invalid_argument`, `invalid_option`. */
  constructor(procedures: P) {
    for (const name of Object.keys(procedures)) {
      if (!isName(name)) throw invalid(`"${name.slice(0, 64)}" is not a name: ${NAME}`);
      const procedure: Procedure = procedures[name] ?? {};
      assertOptions(procedure, MEMBERS, name);
      for (const part of ['input', 'output', 'parts'] as const) {
        const schema: unknown = procedure[part];
        if (schema === undefined || isSchema(schema)) continue;
        throw invalid(`${name}.${part} is not a schema: it has no "~standard" of version 1`);
      }
    }
    this.procedures = Object.freeze({ ...procedures });
  }
}

const MEMBERS: OptionKinds<Procedure> = { input: 'any', output: 'any', parts: 'any' };
const NAME = 'expected 1 to 64 letters, digits, $, _, - and ., and not "then"';
const isName = (name: string): boolean =>
  /^[\w$.-]{1,64}$/.test(name) && name !== 'then' && name !== '__proto__';

function isSchema(value: unknown): value is Schema {
  const isObject = (typeof value === 'object' && value !== null) || typeof value === 'function';
  if (!isObject || !('~standard' in value)) return false;
  const standard = value['~standard'] as Partial<Schema['~standard']> | null | undefined;
  return standard?.version === 1 && typeof standard.validate === 'function';
}

function invalid(message: string): ProtocolError {
  return new ProtocolError('invalid_argument', `defineContract: ${message}`);
}

/**
 * Defines the requests that one end answers, for `serve` there and `contractClient` at the other.
 *
 * @param procedures by name: 1 to 64 letters, digits, `$`, `_`, `-` and `.`. Their schemas may come from any library that
 * implements Standard Schema.
 * @throws {ProtocolError} `invalid_argument` for another name, or if a schema is not one; `invalid_option` for an unknown
 * member of a procedure.
 */
export function defineContract<P extends Procedures>(procedures: P & OnlyMembers<P>): Contract<P> {
  return new Contract(procedures);
}

/** @throws {ProtocolError} `invalid_argument` for anything that `defineContract` has not made. */
export function assertContract(contract: unknown, caller: string): void {
  // Another copy of the package may have made it, so its class does not decide.
  const procedures = (contract as Partial<Contract<Procedures>> | null | undefined)?.procedures;
  if (typeof procedures === 'object' && procedures !== null) return;
  throw new ProtocolError(
    'invalid_argument',
    `${caller}: a contract is expected, which defineContract({ … }) makes of procedures`,
  );
}

/** Refuses members that a procedure does not have. */
type OnlyMembers<P extends Procedures> = {
  readonly [Name in keyof P]: { readonly [Member in Exclude<keyof P[Name], keyof Procedure>]: never };
};

type InputSchema<P> = P extends { readonly input: infer S extends Schema } ? S : undefined;
type OutputSchema<P> = P extends { readonly output: infer S extends Schema } ? S : undefined;
type PartsSchema<P> = P extends { readonly parts: infer S extends Schema } ? S : undefined;

type Takes<S> = S extends Schema ? InputOf<S> : undefined;
type Makes<S> = S extends Schema ? OutputOf<S> : undefined;

/** What a caller passes. */
export type CallInput<P extends Procedure> = Takes<InputSchema<P>>;
/** What a caller gets. */
export type CallOutput<P extends Procedure> = AsJson<Makes<OutputSchema<P>>>;
/** What a caller reads, part by part. */
export type CallPart<P extends Procedure> = AsJson<Makes<PartsSchema<P>>>;

/**
 * Answers one procedure, with its input as the schema made it. A procedure with parts is an async generator, which
 * returns the output. Throws as a `RequestHandler`.
 *
 * @param request the request itself: `request.from` is the client that has sent it, for example.
 * @typeParam Of the session of its end.
 */
export type Handler<P extends Procedure, Of extends Session = Session> = (
  input: Makes<InputSchema<P>>,
  context: RequestContext<Of>,
  request: Message,
) => Reply<P>;

type Reply<P extends Procedure> =
  PartsSchema<P> extends Schema
    ? { [Symbol.asyncIterator](): AsyncIterator<Takes<PartsSchema<P>>, Returned<P>> }
    : Returned<P> | Promise<Returned<P>>;

type Returned<P extends Procedure> = OutputSchema<P> extends Schema ? Takes<OutputSchema<P>> : Nothing;

/** So that a handler without an output may return nothing. */
type Nothing = ReturnType<() => void>;

/** A handler for each procedure. */
export type Handlers<P extends Procedures, Of extends Session = Session> = {
  readonly [Name in keyof P]: Handler<P[Name], Of>;
};
