import type { RemoteAgent } from './remote-session.js';

export interface SpeakingFor {
  /**
   * Whether another node may speak for the session of an agent; `undefined` if the agent is not known here, or not yet: it is
   * forgotten when its node is silent for the length of a lease, and known again when the engine says that it is back.
   */
  readonly maySpeakFor: (agent: RemoteAgent) => boolean | undefined;
  /** It may not. */
  readonly onForged: (agent: RemoteAgent) => void;
}

/** Senders for which another node was not allowed to speak when it introduced them, by number. */
export class NotOwner {
  readonly #options: SpeakingFor;
  readonly #agents = new Map<number, RemoteAgent>();

  constructor(options: SpeakingFor) {
    this.#options = options;
  }

  get size(): number {
    return this.#agents.size;
  }

  /** Returns whether the node may speak for a sender that it introduces. */
  check(number: number, agent: RemoteAgent): boolean {
    const { maySpeakFor, onForged } = this.#options;
    const may = maySpeakFor(agent);
    if (may === true) return true;
    this.#agents.set(number, agent);
    if (may === false) onForged(agent);
    return false;
  }

  has(number: number): boolean {
    return this.#agents.has(number);
  }

  delete(number: number): RemoteAgent | undefined {
    const agent = this.#agents.get(number);
    this.#agents.delete(number);
    return agent;
  }

  /** Takes one out for which the node may speak by now. */
  take(number: number): RemoteAgent | undefined {
    const agent = this.#agents.get(number);
    return agent && this.#options.maySpeakFor(agent) === true ? this.delete(number) : undefined;
  }

  /** Why nothing is taken from a sender; `undefined` if it was never introduced. */
  refusalOf(number: number): readonly [code: string, why: string] | undefined {
    const agent = this.#agents.get(number);
    if (agent === undefined) return undefined;
    return this.#options.maySpeakFor(agent) === false
      ? ['forbidden', 'the node may not speak for the sender']
      : ['peer_gone', 'the sender is not known to the node of its target'];
  }
}
