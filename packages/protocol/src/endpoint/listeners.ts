import { notify } from '../base/callbacks.js';
import { loggable } from './loggable.js';
import type { Logger } from './ports.js';
import type { SessionEvents } from './session.js';

type Listener = (event: never) => unknown;

/** The application's listeners for the events of a session. */
export class Listeners {
  #byName: Map<keyof SessionEvents, Set<Listener>> | undefined;

  /** Returns a function that removes the listener. */
  add<Name extends keyof SessionEvents>(
    name: Name,
    listener: (event: SessionEvents[Name]) => unknown,
  ): () => void {
    this.#byName ??= new Map();
    const listeners = this.#byName.get(name) ?? new Set();
    this.#byName.set(name, listeners);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  /**
   * Calls the listeners. An error that one throws, at once or later, is logged and does not reach the others.
   */
  notify<Name extends keyof SessionEvents>(
    name: Name,
    event: SessionEvents[Name],
    session: { readonly id: string; readonly logger: Logger },
  ): void {
    const onThrown = (error: unknown) => {
      const fields = { event: 'listener.failed', session: session.id, err: loggable(error) };
      session.logger.error(fields, `a listener of "${name}" threw`);
    };
    for (const listener of this.#byName?.get(name) ?? [])
      notify(() => (listener as (event: SessionEvents[Name]) => unknown)(event), onThrown);
  }
}
