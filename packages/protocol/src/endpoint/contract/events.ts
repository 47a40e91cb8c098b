import { called, isThenable } from '../../base/callbacks.js';
import { Extension } from '../../base/constants.js';
import { isProtocolError, ProtocolError, RequestError } from '../../base/errors.js';
import { assertObject, unknownName } from '../../base/options.js';
import { truncateUnits } from '../../base/text.js';
import { NONE } from '../call-options.js';
import type { Message } from '../messages/message.js';
import type { Metadata } from '../messages/metadata.js';
import { refuse } from '../messages/undecodable.js';
import type { RequestContext } from '../requests/handler-context.js';
import type { RequestHandler } from '../requests/responder.js';
import type { RequestOptions, Session } from '../session.js';
import { bodyOf, jsonOf, withMetadata } from './client.js';
import {
  assertContract,
  type Contract,
  type EventInput,
  type EventKind,
  type EventKinds,
  type EventOutput,
  type Procedures,
} from './contract.js';
import { asContractError, ContractError } from './error.js';
import { check } from './schema.js';

/** Events with an acknowledgement: a use of requests, for a feature of a server and a module of a client. */

/**
 * The events that `session.emit` and `session.handle` know, for the compiler: extend it with {@link EventsOf} a contract.
 *
 * @default names and data of any kind
 */
// biome-ignore lint/suspicious/noEmptyInterface: applications extend it
export interface EmittedEvents {}

/** The events of a contract, such as `EventsOf<typeof contract>`. */
export type EventsOf<Of> = Of extends Contract<Procedures, infer E> ? E : never;

export type EventName = [keyof EmittedEvents] extends [never] ? string : keyof EmittedEvents & string;
type Kind<Name> = Name extends keyof EmittedEvents ? EmittedEvents[Name] : { readonly data: undefined };
type Input<Name> = Name extends keyof EmittedEvents ? EventInput<Kind<Name>> : unknown;
type Output<Name> = Name extends keyof EmittedEvents ? EventOutput<Kind<Name>> : unknown;
type Arguments<Name> =
  undefined extends Input<Name>
    ? [data?: Input<Name>, options?: RequestOptions]
    : [data: Input<Name>, options?: RequestOptions];

/**
 * Handles an event, with its data as the schema made them. When it has returned, or its promise has resolved, `emit` of the other end
 * resolves. Throws as a `RequestHandler`.
 *
 * @param message the event itself: `message.from` is the client that has emitted it, for example.
 * @typeParam Of the session of its end.
 */
export type EventHandler<K extends EventKind, Of extends Session = Session> = (
  data: EventOutput<K>,
  context: RequestContext<Of>,
  message: Message,
) => unknown;

/** Handlers of some events. */
export type EventHandlers<E extends EventKinds, Of extends Session = Session> = {
  readonly [Name in keyof E]?: EventHandler<E[Name], Of> | undefined;
};

declare module '../session.js' {
  interface Session {
    /**
     * Emits an event of the contract that `events()` was given. Resolves when the handlers of the other end have returned.
     *
     * In a durable session, a client's event is handled once, also if the server dies meanwhile: `emit` resolves then when the next
     * process has handled it.
     *
     * @param data the event's data, then the options of `request`. Without `timeoutMs`, the call waits for as long as its session lives.
     * @throws {ProtocolError | RequestError} the error of the handler; a `ContractError` with `unhandled` if there is none, and with
     * `invalid_input` if the schema refuses the data; `session_lost` if the session was lost before it is known whether the event was
     * handled; the other errors of `request`.
     */
    emit<Name extends EventName>(name: Name, ...data: Arguments<Name>): Promise<void>;
    /**
     * Handles an event of this session, beside the handlers that `events()` was given. An event that comes when there is no handler is
     * refused with `unhandled`.
     *
     * @returns a function that removes the handler.
     * @throws {ProtocolError} `invalid_argument` if the contract has no such event, or the handler is not a function.
     */
    handle<Name extends EventName>(
      name: Name,
      handler: (data: Output<Name>, context: RequestContext, message: Message) => unknown,
    ): () => void;
  }
}

type AnyHandler = (data: unknown, context: RequestContext, message: Message) => unknown;

/** The metadata that name an event, at both ends: the acknowledgement has the name as well. */
const EVENT = 'event';
/** Of an event in a durable session, which may come twice. */
const EVENT_ID = 'eventId';
/** Events of one session that are remembered. */
const MAX_REMEMBERED = 256;
const MAX_ID = 64;

/** An event that is emitted. */
export interface Emission {
  readonly name: string;
  /** In durable sessions. */
  readonly id: string | undefined;
  readonly data: unknown;
}

/** Emits an event, once. Rejects as `session.emit`. */
export async function emitOnce(
  session: Pick<Session, 'request'>,
  { name, id, data }: Emission,
  options: RequestOptions = NONE,
): Promise<void> {
  const own: Metadata = id === undefined ? { [EVENT]: name } : { [EVENT]: name, [EVENT_ID]: id };
  let answer: Message;
  try {
    answer = await session.request(bodyOf(data), withMetadata(own, options));
  } catch (error) {
    // An end that has neither events nor a handler for requests of this kind answers with these codes.
    const isOther =
      error instanceof RequestError &&
      error.side === 'remote' &&
      (error.code === 'unsupported' || error.code === 'unknown_procedure');
    throw isOther ? unhandled(name, error) : asContractError(error, name);
  }
  // Its handler of requests has answered it as any other one.
  if (answer.metadata[EVENT] !== name) throw unhandled(name, undefined);
}

const unhandled = (name: string, cause: unknown): ContractError =>
  new ContractError('unhandled', name, { side: 'remote', cause });

/** Whether the process that had an event died before the event was handled, or before that was recorded. */
export const hasDied = (error: unknown): boolean =>
  isProtocolError(error) && !(error instanceof RequestError) && error.code === 'interrupted';

let prefix: string | undefined;
let count = 0;

/** The events of one session. */
export class EventsOfSession {
  #handlers: Map<string, Set<AnyHandler>> | undefined;
  /** The outcomes of events that have an ID, oldest first. */
  #remembered: Map<string, unknown> | undefined;

  add(name: string, handler: AnyHandler): () => void {
    this.#handlers ??= new Map();
    const handlers = this.#handlers.get(name) ?? new Set();
    this.#handlers.set(name, handlers);
    // One that is added twice is called twice, and removed by itself.
    const own: AnyHandler = (...event) => handler(...event);
    handlers.add(own);
    return () => void handlers.delete(own);
  }

  handlersOf(name: string): Iterable<AnyHandler> {
    return this.#handlers?.get(name) ?? [];
  }

  /** Handles an event unless that was done. */
  once(id: string, handle: () => unknown): unknown {
    this.#remembered ??= new Map();
    const all = this.#remembered;
    if (all.has(id)) return all.get(id);
    let outcome: unknown;
    try {
      outcome = handle();
    } catch (error) {
      outcome = called(() => Promise.reject(error));
    }
    all.set(id, outcome);
    if (all.size > MAX_REMEMBERED) all.delete(all.keys().next().value as string);
    return outcome;
  }
}

/** One end of the events of a contract. */
export class EventsEnd {
  readonly #kinds: EventKinds;
  readonly #handlers = new Map<string, AnyHandler>();

  /** @throws {ProtocolError} `invalid_argument` without a contract; `invalid_option` for handlers that are none, or of no event. */
  constructor(contract: Contract<Procedures, EventKinds>, handlers: EventHandlers<EventKinds> = {}) {
    assertContract(contract, 'events');
    // Another version of the package may have made it.
    this.#kinds = (contract as Partial<typeof contract>).events ?? {};
    assertObject(handlers, 'events: handlers');
    for (const [name, handler] of Object.entries(handlers)) {
      if (!Object.hasOwn(this.#kinds, name))
        throw unknownName('event', name, Object.keys(this.#kinds), 'events');
      if (handler === undefined) continue;
      if (typeof handler !== 'function')
        throw new ProtocolError('invalid_option', `events: the handler of "${name}" is not a function`);
      this.#handlers.set(name, handler as AnyHandler);
    }
  }

  /** @throws {ProtocolError} `invalid_argument`; `session_closed` before the session is established. */
  emission({ negotiated }: Pick<Session, 'negotiated'>, name: string, data: unknown): Emission {
    this.#assertName(name);
    if (negotiated.extensions[Extension.DURABLE] === undefined) return { name, id: undefined, data };
    // No secret: it tells the events of this process from those of the one before.
    prefix ??= Math.random().toString(36).slice(2);
    return { name, id: `${prefix}-${(++count).toString(36)}`, data };
  }

  /** @throws {ProtocolError} `invalid_argument`. */
  handle(events: EventsOfSession, name: string, handler: unknown): () => void {
    this.#assertName(name);
    if (typeof handler === 'function') return events.add(name, handler as AnyHandler);
    throw new ProtocolError('invalid_argument', `handle: the handler of "${name}" is not a function`);
  }

  /** The requests that are events, before other handlers. */
  wrap(next: RequestHandler, eventsOf: (session: Session) => EventsOfSession | undefined): RequestHandler {
    return (message, context) => {
      const { [EVENT]: name, [EVENT_ID]: id } = context.metadata;
      if (typeof name !== 'string') return next(message, context);
      const events = eventsOf(context.session);
      const handle = () => this.#answer(name, events, message, context);
      context.setMetadata({ [EVENT]: name });
      // At the node that continues after a death. It is recorded together with what a handler does before it first waits.
      context.ifProcessDies('again');
      const hasId = typeof id === 'string' && id.length <= MAX_ID;
      return (hasId && events !== undefined ? events.once(id, handle) : handle()) as '' | Promise<''>;
    };
  }

  /** Answers at once if the schema and the handlers do. */
  #answer(
    name: string,
    events: EventsOfSession | undefined,
    message: Message,
    context: RequestContext,
  ): '' | Promise<''> {
    const kind = Object.hasOwn(this.#kinds, name) ? this.#kinds[name] : undefined;
    const general = this.#handlers.get(name);
    const handlers = [...(general === undefined ? [] : [general]), ...(events?.handlersOf(name) ?? [])];
    if (kind === undefined || handlers.length === 0)
      throw refuse(new ContractError('unhandled', truncateUnits(name, MAX_ID)));
    const value = jsonOf(message);
    const call = (data: unknown): '' | Promise<''> =>
      callAll(handlers.map((handler) => () => handler(data, context, message)));
    if (kind.data === undefined) return call(undefined);
    const checked = check(kind.data, value, context.signal, `${name}: the schema of its data`);
    const pass = (found: Awaited<typeof checked>): '' | Promise<''> => {
      if (found.issues === undefined) return call(found.value);
      throw refuse(new ContractError('invalid_input', name, { issues: found.issues }));
    };
    return isThenable(checked) ? checked.then(pass) : pass(checked);
  }

  #assertName(name: string): void {
    if (Object.hasOwn(this.#kinds, name)) return;
    const known = Object.keys(this.#kinds).join(', ');
    throw new ProtocolError(
      'invalid_argument',
      `the contract has no event "${truncateUnits(String(name), MAX_ID)}"; known events: ${known}`,
    );
  }
}

/** Calls all of them. @throws what one has thrown, or all that several have. A promise rejects with it. */
function callAll(calls: readonly (() => unknown)[]): '' | Promise<''> {
  const errors: unknown[] = [];
  const waiting: Promise<void>[] = [];
  for (const call of calls) {
    try {
      const given = call();
      if (isThenable(given)) waiting.push(settled(given, errors));
    } catch (error) {
      errors.push(error);
    }
  }
  const end = (): '' => {
    if (errors.length === 0) return '';
    throw errors.length === 1
      ? errors[0]
      : new AggregateError(errors, 'several handlers of an event have failed');
  };
  return waiting.length === 0 ? end() : Promise.all(waiting).then(end);
}

async function settled(given: PromiseLike<unknown>, errors: unknown[]): Promise<void> {
  try {
    await given;
  } catch (error) {
    errors.push(error);
  }
}
