import type { DatedEffect } from '../durable/effects.js';
import type { Failure } from './allowed.js';

/** Which nodes ran handlers and had sessions, and which replies are kept no longer, as the lines of the nodes say. */
export class Places {
  readonly #handlers = new Map<string, number[]>();
  readonly #owners = new Map<string, number[]>();
  readonly #unkept = new Set<string>();
  readonly #keptIdOf: (question: string) => string | undefined;

  constructor(effects: readonly DatedEffect[], keptIdOf: (question: string) => string | undefined) {
    this.#keptIdOf = keptIdOf;
    for (const { pid, effect } of effects) {
      const [kind, subject] = effect;
      if (kind === 'start') push(this.#handlers, subject, pid);
      if (kind === 'begin') push(this.#owners, subject, pid);
      if (kind === 'unkept') this.#unkept.add(subject);
    }
  }

  of(failure: Omit<Failure, 'handlers' | 'owners' | 'isUnkept'>): Failure {
    const { question = '', session } = failure;
    return {
      ...failure,
      handlers: this.#handlers.get(question) ?? [],
      owners: this.#owners.get(session) ?? [],
      isUnkept: this.#unkept.has(this.#keptIdOf(question) ?? ''),
    };
  }
}

function push(map: Map<string, number[]>, key: string, value: number): void {
  map.set(key, [...(map.get(key) ?? []), value]);
}
