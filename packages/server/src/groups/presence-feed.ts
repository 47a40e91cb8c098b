import type { Membership } from './local-group.js';

/** `moved` and `waits`: it is not here any more, and another node has it, or will have it from its record. */
export type PresenceState = 'joined' | 'suspended' | 'left' | 'moved' | 'waits';

/** A member that its principal has in a group, as its node says. */
export interface PresenceEntry {
  /** Of its session. */
  readonly id: string;
  /** How often that has moved: what a later node says counts. */
  readonly epoch: number;
  readonly principal: string;
  readonly state: PresenceState;
  /** JSON. */
  readonly data: string | undefined;
  readonly dataAt: number;
  /** The session outlives its node. */
  readonly isKept: boolean;
}

/** A receiver of the presence in a group: this node, or another one. */
export interface PresenceSink {
  /** Returns `false` if it takes nothing for now. */
  tell(name: string, entries: readonly PresenceEntry[]): boolean;
}

/** The other nodes, as presence uses them. */
export interface PresenceSource {
  /** Whether the node counts as alive. */
  isAlive(node: string): boolean;
  /** This node wants to know who is in a group at other nodes, or does not any more. */
  follow(name: string): void;
  unfollow(name: string): void;
  /** How long a session whose node is gone may wait for another one, in milliseconds. */
  readonly keptMs: number;
}

/** How long changes are collected, in milliseconds: a client that comes back sooner was never away. */
const COALESCE_MS = 200;

/** Tells sinks about the members of this node: the last state of each session, once. */
export class PresenceFeed {
  /** By group and sink: the changes since the sink was last notified, by session. */
  readonly #watched = new Map<string, Map<PresenceSink, Map<string, PresenceEntry>>>();
  readonly #later: (task: () => void) => void;
  #isDue = false;

  /** @param later runs a task after {@link COALESCE_MS}. */
  constructor(later = (task: () => void) => void setTimeout(task, COALESCE_MS).unref()) {
    this.#later = later;
  }

  /** `undefined` for a session without a principal. */
  static entryOf(
    { session, data, dataAt }: Membership,
    how?: PresenceState | undefined,
  ): PresenceEntry | undefined {
    const { id, epoch, principal, isAnonymous, isDurable: isKept } = session;
    if (principal === undefined || isAnonymous) return undefined;
    const state = how ?? (session.state === 'suspended' ? 'suspended' : 'joined');
    return { id, epoch, principal, state, data, dataAt, isKept };
  }

  /** @param members of the group at present. */
  watch(name: string, sink: PresenceSink, members: Iterable<Membership>): void {
    const changed = new Map<string, PresenceEntry>();
    for (const membership of members) {
      const entry = PresenceFeed.entryOf(membership);
      if (entry !== undefined) changed.set(entry.id, entry);
    }
    const sinks = this.#watched.get(name) ?? new Map<PresenceSink, Map<string, PresenceEntry>>();
    this.#watched.set(name, sinks.set(sink, changed));
    this.#schedule();
  }

  unwatch(name: string, sink: PresenceSink): void {
    const sinks = this.#watched.get(name);
    sinks?.delete(sink);
    if (sinks?.size === 0) this.#watched.delete(name);
  }

  /** Groups that a sink watches. */
  namesOf(sink: PresenceSink): readonly string[] {
    return [...this.#watched].filter(([, sinks]) => sinks.has(sink)).map(([name]) => name);
  }

  /** @param entryOf is called if anyone wants to know. */
  tell(name: string, entryOf: () => PresenceEntry | undefined): void {
    const sinks = this.#watched.get(name);
    const entry = sinks && entryOf();
    if (sinks === undefined || entry === undefined) return;
    for (const changed of sinks.values()) changed.set(entry.id, entry);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    this.#later(() => this.flush());
  }

  /** Tells all sinks what has changed. Changes that a sink does not take are told again together with later ones. */
  flush(): void {
    this.#isDue = false;
    for (const [name, sinks] of this.#watched)
      for (const [sink, changed] of sinks) {
        if (changed.size === 0) continue;
        if (sink.tell(name, [...changed.values()])) changed.clear();
        else this.#schedule();
      }
  }
}
