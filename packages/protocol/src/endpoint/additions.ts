import { catchLate } from '../base/callbacks.js';
import { ProtocolError } from '../base/errors.js';
import { EVENTS } from './call-options.js';
import type { Listeners } from './listeners.js';
import type { Session, SessionEvents } from './session.js';
import { addVerbs } from './verbs.js';

/** The additions of a server's features, and of a client's modules, to sessions. */

/** The addition of one of them. Its author may have no compiler, so nothing of it is certain. */
interface Added {
  readonly name: string;
  readonly verbs?: object | undefined;
  readonly events?: readonly string[] | undefined;
}

type Verb = (...args: unknown[]) => unknown;

/** A session, with the listeners of its application. */
interface Port {
  readonly listeners: Pick<Listeners, 'add'>;
}

/**
 * Adds methods and events to one session, or to the prototype of sessions.
 *
 * @param portOf a session, as the methods get it.
 * @throws {ProtocolError} `invalid_option`, without changes: for a name that sessions have already, or that two features add; for a method that is
 * not a function, and for events that are not a list.
 */
export function extendSession(
  target: Pick<Session, 'on'>,
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
  const methods: Record<string, Verb> = {};
  const events: string[] = [];
  for (const { name: owner, verbs, events: named = [] } of added) {
    for (const [name, verb] of Object.entries(verbs ?? {})) {
      // `await` would take a session with a method `then` for a promise.
      claim(owner, 'method', name, name in target || name === 'then');
      if (typeof verb !== 'function') throw invalid(`${owner}: the method ${name} is not a function`);
      methods[name] = guarded(verb as Verb);
    }
    if (!Array.isArray(named)) throw invalid(`${owner}: events must be a list of names`);
    for (const name of named.map(String)) {
      claim(owner, 'event', name, Object.hasOwn(EVENTS, name));
      events.push(name);
    }
  }
  addVerbs(target, portOf, methods);
  if (events.length > 0) addEvents(target, portOf, events);
}

/** Has `session.on` take other events as well. */
function addEvents(
  target: Pick<Session, 'on'>,
  portOf: (session: never) => Port,
  events: readonly string[],
): void {
  const { on } = target;
  target.on = function <Name extends keyof SessionEvents>(
    this: never,
    name: Name,
    listener: (event: SessionEvents[Name]) => unknown,
  ): () => void {
    if (events.includes(name)) return portOf(this).listeners.add(name, listener);
    return on.call(this, name, listener as never);
  };
}

/** A caller that does not wait for its result has no unhandled rejection. */
function guarded(verb: Verb): Verb {
  return (...args) => {
    const result = verb(...args);
    catchLate(result, () => {});
    return result;
  };
}

function invalid(message: string): ProtocolError {
  return new ProtocolError('invalid_option', message);
}
