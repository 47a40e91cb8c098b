import { notify } from '../base/callbacks.js';
import { ProtocolError } from '../base/errors.js';
import { loggable } from './loggable.js';
import type { Logger } from './ports.js';
import type { SessionEvents } from './session.js';

/** One call of {@link Listeners.add}: what is added twice is called twice, and each of the two is removed by itself. */
interface Added {
  readonly listener: (event: never) => unknown;
}

/** The application's listeners for the events of a session. */
export class Listeners {
  #byName: Map<keyof SessionEvents, Set<Added>> | undefined;

  /** Returns a function that removes the listener. @throws {ProtocolError} `invalid_argument` if it is not a function. */
  add<Name extends keyof SessionEvents>(
    name: Name,
    listener: (event: SessionEvents[Name]) => unknown,
  ): () => void {
    if (typeof listener !== 'function')
      throw new ProtocolError('invalid_argument', `on: the listener of "${name}" is not a function`);
    const added: Added = { listener };
    this.#byName ??= new Map();
    const listeners = this.#byName.get(name) ?? new Set();
    this.#byName.set(name, listeners);
    listeners.add(added);
    return () => listeners.delete(added);
  }

  /**
   * Calls the listeners that are there now, but for those that are removed meanwhile. An error that one throws, at once or later, is logged
   * and does not reach the others.
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
    const listeners = this.#byName?.get(name);
    // A copy: one that adds itself again would be called again for ever.
    for (const added of [...(listeners ?? [])])
      if (listeners?.has(added)) notify(() => added.listener(event as never), onThrown);
  }
}
