import type { Session, SessionEvents } from './session.js';

/** Methods and events that features of a server, and modules of a client, add to sessions. */

/** A session, as a feature or a module has it. */
export interface SessionPort<Of extends Session = Session> {
  /** The same session, as the application has it. */
  readonly session: Of;
  /** Calls the listeners of an event. An error that one of them throws is logged, and reaches no other. */
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

/** The additions of one feature or module. */
export interface Additions<Of extends Session = Session, Port = SessionPort<Of>> {
  /** Methods of its own. */
  readonly verbs?: Verbs<Of, Port> | undefined;
  /** Names of events of its own, which {@link SessionPort.notify} reports. */
  readonly events?: readonly (keyof SessionEvents)[] | undefined;
}

/**
 * Adds methods to one session, or to the prototype of sessions.
 *
 * @param portOf a session, as the methods get it.
 */
export function addVerbs<Port>(target: object, portOf: (session: never) => Port, verbs: object): void {
  for (const [name, verb] of Object.entries(verbs)) {
    Object.assign(target, {
      [name](this: never, ...args: unknown[]): unknown {
        return verb(portOf(this), ...args);
      },
    });
  }
}
