import { catchLate } from './guard.js';
import type { SessionEvents } from './session.js';

type Listener = (event: never) => unknown;

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

  /** @param onThrown is given what a listener throws, at once or later, which concerns no other one. */
  tell<Name extends keyof SessionEvents>(
    name: Name,
    event: SessionEvents[Name],
    onThrown: (error: unknown) => void,
  ): void {
    for (const listener of this.#byName?.get(name) ?? []) {
      try {
        catchLate((listener as (event: SessionEvents[Name]) => unknown)(event), onThrown);
      } catch (error) {
        onThrown(error);
      }
    }
  }
}
