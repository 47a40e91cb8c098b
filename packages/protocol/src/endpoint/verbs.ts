import { ProtocolError } from '../base/errors.js';
import { catchLate } from '../base/callbacks.js';
import { EVENTS } from './call-options.js';
import type { Session, SessionEvents } from './session.js';

/** What features of a server, and modules of a client, add to sessions: methods and events. */

/** A session, as a feature or a module has it. */
export interface SessionPort<Of extends Session = Session> {
  /** The same session, as the application has it. */
  readonly session: Of;
  /** Calls the listeners of an event. What one of them throws is logged, and reaches no other. */
  notify<Name extends keyof SessionEvents>(name: Name, event: SessionEvents[Name]): void;
}

/**
 * Methods of sessions, by name, as the interface of the session declares them. Each gets the session before the arguments of the call;
 * what it throws reaches its caller.
 *
 * @typeParam Of the session that applications have.
 * @typeParam Port what a method gets as its first argument.
 */
export type Verbs<Of extends Session = Session, Port = SessionPort<Of>> = {
  readonly [Name in keyof Of]?: Of[Name] extends (...args: infer Args) => infer Result
    ? Verb<Port, Args, Result>['call']
    : never;
};

/** One of {@link Verbs}, as a method. */
export interface Verb<Port, Args extends readonly unknown[], Result> {
  call(session: Port, ...args: Args): Result;
}

/** What one feature or module adds. */
export interface Additions<Of extends Session = Session, Port = SessionPort<Of>> {
  /** Methods of its own. */
  readonly verbs?: Verbs<Of, Port> | undefined;
  /** Names of events of its own, which {@link SessionPort.notify} reports. */
  readonly events?: readonly (keyof SessionEvents)[] | undefined;
}

/** As {@link Additions}, of a feature or module that may have no compiler. */
interface Added {
  readonly name: string;
  readonly verbs?: object | undefined;
  readonly events?: readonly string[] | undefined;
}

/** The events that a session has. */
const KNOWN: unique symbol = Symbol('events');

type Extended = Record<PropertyKey, unknown> & { [KNOWN]?: Readonly<Record<string, true>> };

export function eventsOf(session: object): Readonly<Record<string, true>> {
  return (session as Extended)[KNOWN] ?? EVENTS;
}

/**
 * Adds methods and events to one session, or to the prototype of sessions.
 *
 * @param portOf a session, as the methods get it.
 * @throws {ProtocolError} `invalid_option`, without changes: for a name that sessions have already, or that two features add; for a method that is
 * no function, and a list of events that is none.
 */
export function extendSession<Port>(
  target: object,
  portOf: (session: never) => Port,
  added: readonly Added[],
): void {
  const owners = new Map<string, string>();
  const claim = (owner: string, kind: 'method' | 'event', name: string, isTaken: boolean): void => {
    const key = `${kind} ${JSON.stringify(name).slice(0, 64)}`;
    const other = owners.get(key);
    if (other !== undefined) throw invalid(`${owner} and ${other} both add the ${key} to sessions`);
    if (isTaken) throw invalid(`${owner} cannot add the ${key}: sessions have it already`);
    owners.set(key, owner);
  };
  const methods: PropertyDescriptorMap = {};
  const events: Record<string, true> = { ...eventsOf(target) };
  for (const { name: owner, verbs, events: named = [] } of added) {
    for (const [name, verb] of Object.entries(verbs ?? {})) {
      // A session with `then` would be a promise for whoever awaits it.
      claim(owner, 'method', name, name in target || name === 'then');
      if (typeof verb !== 'function') throw invalid(`${owner}: the method ${name} is not a function`);
      methods[name] = { value: methodOf(name, verb, portOf), configurable: true, writable: true };
    }
    if (!Array.isArray(named)) throw invalid(`${owner}: events must be a list of names`);
    for (const name of named.map(String)) {
      claim(owner, 'event', name, Object.hasOwn(events, name));
      events[name] = true;
    }
  }
  Object.defineProperties(target, { ...methods, [KNOWN]: { value: events, configurable: true } });
}

function methodOf<Port>(
  name: string,
  verb: (session: Port, ...args: never[]) => unknown,
  portOf: (session: never) => Port,
) {
  const method = function (this: never, ...args: never[]): unknown {
    const result = verb(portOf(this), ...args);
    // A caller that does not wait for it has no unhandled rejection.
    catchLate(result, () => {});
    return result;
  };
  return Object.defineProperty(method, 'name', { value: name });
}

function invalid(message: string): ProtocolError {
  return new ProtocolError('invalid_option', message);
}
