import type { SessionEvents } from './session.js';

type Listener = (event: never) => void;

/** Who is told what becomes of a session. */
export class Listeners {
  #byName: Map<keyof SessionEvents, Set<Listener>> | undefined;

  /** Returns what takes the listener away again. */
  add<Name extends keyof SessionEvents>(
    name: Name,
    listener: (event: SessionEvents[Name]) => void,
  ): () => void {
    this.#byName ??= new Map();
    const listeners = this.#byName.get(name) ?? new Set();
    this.#byName.set(name, listeners);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  /** @param onThrown is given what a listener throws, which concerns no other one. */
  tell<Name extends keyof SessionEvents>(
    name: Name,
    event: SessionEvents[Name],
    onThrown: (error: unknown) => void,
  ): void {
    for (const listener of this.#byName?.get(name) ?? []) {
      try {
        (listener as (event: SessionEvents[Name]) => void)(event);
      } catch (error) {
        onThrown(error);
      }
    }
  }
}
