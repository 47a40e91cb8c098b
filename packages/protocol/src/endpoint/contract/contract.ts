import { ProtocolError } from '../../base/errors.js';
import { assertOptions, type OptionKinds } from '../../base/options.js';
import type { AsJson } from '../as-json.js';
import type { Message } from '../messages/message.js';
import type { RequestContext } from '../requests/handler-context.js';
import type { Session } from '../session.js';
import type { InputOf, OutputOf, Schema } from './schema.js';

/** The agreement of both ends on the requests that one of them answers, and on the events that they emit to each other. */

/** One kind of request. All values travel as JSON. */
export interface Procedure {
  /** The value that the caller sends. @default nothing */
  readonly input?: Schema | undefined;
  /** The value that the handler returns. @default nothing */
  readonly output?: Schema | undefined;
  /** Each value that the handler yields before it returns. @default the procedure has no parts */
  readonly parts?: Schema | undefined;
}

export type Procedures = Readonly<Record<string, Procedure>>;

/** One kind of event, which either end emits. Its data travel as JSON. */
export interface EventKind {
  /** The data that is emitted. @default the event has no data */
  readonly data?: Schema | undefined;
}

export type EventKinds = Readonly<Record<string, EventKind>>;

/** No events. */
export type NoEvents = Readonly<Record<never, never>>;

/** The procedures that one end has and the other calls, and the events of both, by their names. */
export class Contract<P extends Procedures, E extends EventKinds = NoEvents> {
  readonly procedures: P;
  readonly events: E;

  /** @throws {ProtocolError} `invalid_argument`, `invalid_option`. */
  constructor(procedures: P, events: E) {
    this.procedures = checked(procedures, PROCEDURE_MEMBERS);
    this.events = checked(events, EVENT_MEMBERS);
  }
}

const PROCEDURE_MEMBERS = {
  input: 'any',
  output: 'any',
  parts: 'any',
} as const satisfies OptionKinds<Procedure>;
const EVENT_MEMBERS = { data: 'any' } as const satisfies OptionKinds<EventKind>;

/** @throws {ProtocolError} `invalid_argument`, `invalid_option`. */
function checked<Kinds extends Procedures | EventKinds>(
  given: Kinds,
  members: OptionKinds<Record<string, unknown>>,
): Kinds {
  for (const [name, kind] of Object.entries(given)) {
    if (!isName(name)) throw invalid(`"${name.slice(0, 64)}" is not a name: ${NAME}`);
    const parts: Record<string, unknown> = { ...kind };
    assertOptions(parts, members, name);
    for (const part of Object.keys(members)) {
      const schema = parts[part];
      if (schema === undefined || isSchema(schema)) continue;
      throw invalid(`${name}.${part} is not a schema: it has no "~standard" of version 1`);
    }
  }
  return Object.freeze({ ...given });
}

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

export interface ContractOptions<E extends EventKinds> {
  /** Events that either end emits and the other handles, by name; see `events`. @default none */
  readonly events?: E | undefined;
}

/**
 * Defines the requests that one end answers, for `serve` there and `contractClient` at the other, and the events of both ends, for `events`.
 *
 * @param procedures by name: 1 to 64 letters, digits, `$`, `_`, `-` and `.`. Their schemas may come from any library that
 * implements Standard Schema.
 * @throws {ProtocolError} `invalid_argument` for another name, or if a schema is not one; `invalid_option` for an unknown
 * member of a procedure or an event.
 */
export function defineContract<P extends Procedures, E extends EventKinds = NoEvents>(
  procedures: P & OnlyMembers<P>,
  options: ContractOptions<E> = {},
): Contract<P, E> {
  assertOptions(options, { events: 'object' }, 'defineContract');
  return new Contract(procedures, options.events ?? ({} as E));
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

type DataSchema<K> = K extends { readonly data: infer S extends Schema } ? S : undefined;

type Takes<S> = S extends Schema ? InputOf<S> : undefined;
type Makes<S> = S extends Schema ? OutputOf<S> : undefined;

/** The data that an end emits. */
export type EventInput<K> = Takes<DataSchema<K>>;
/** The data that a handler of the event gets. */
export type EventOutput<K> = Makes<DataSchema<K>>;

/** The value that a caller passes. */
export type CallInput<P extends Procedure> = Takes<InputSchema<P>>;
/** The value that a caller gets. */
export type CallOutput<P extends Procedure> = AsJson<Makes<OutputSchema<P>>>;
/** Each part that a caller reads. */
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
