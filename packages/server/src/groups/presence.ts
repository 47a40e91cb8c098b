import { ProtocolError } from '@parlance/protocol';
import type { Presence, PresenceChange } from './group.js';
import type { PresenceEntry } from './presence-feed.js';
import { readData } from './state.js';

/** How long a session that has moved may be nowhere, in milliseconds. One that has left is remembered for as long. */
const MOVING_MS = 15_000;
/** Members of all nodes, in one group. */
const MAX_ENTRIES = 100_000;

interface Known extends PresenceEntry {
  readonly node: string;
  /** When it counts as gone: a clock reading. */
  readonly until: number;
}

/** The presence in one group, at all nodes, as one node knows it. */
export class PresenceView {
  readonly #now: () => number;
  readonly #keptMs: number;
  /** By session. */
  readonly #known = new Map<string, Known>();
  readonly #principals = new Map<string, Map<string, Known>>();
  /** Each watcher keeps the last state that it was told of a principal. */
  readonly watchers = new Set<PresenceWatch>();

  constructor(now: () => number, keptMs: number) {
    this.#now = now;
    this.#keptMs = keptMs;
  }

  get principals(): Iterable<string> {
    return this.#principals.keys();
  }

  /** A node says what has become of its members. */
  apply(node: string, entries: readonly PresenceEntry[]): void {
    for (const entry of entries) {
      const known = this.#known.get(entry.id);
      const isStale =
        known && (entry.epoch < known.epoch || (entry.epoch === known.epoch && node !== known.node));
      const isGone = entry.state !== 'joined' && entry.state !== 'suspended';
      // Its next node has reported it already, or this node does not know it.
      if (isStale === true || (known === undefined && (isGone || this.#known.size >= MAX_ENTRIES))) continue;
      this.#set({ ...entry, ...this.#lastOf(entry, known), node });
    }
  }

  /** One that moves is as it was, until its next node says how it is. */
  #lastOf({ state, isKept }: PresenceEntry, known: Known | undefined): Pick<Known, 'state' | 'until'> {
    const now = this.#now();
    if (state === 'left') return { state, until: now + MOVING_MS };
    if (state === 'moved') return { state: known?.state ?? 'joined', until: now + MOVING_MS };
    if (state === 'waits') return { state: 'suspended', until: now + (isKept ? this.#keptMs : MOVING_MS) };
    return { state, until: Infinity };
  }

  #set(known: Known): void {
    const { id, principal } = known;
    this.#known.set(id, known);
    const sessions = this.#principals.get(principal) ?? new Map<string, Known>();
    if (known.state === 'left') sessions.delete(id);
    else sessions.set(id, known);
    if (sessions.size === 0) this.#principals.delete(principal);
    else this.#principals.set(principal, sessions);
    for (const watcher of this.watchers) watcher.handleChange(principal);
  }

  /** A node has died. */
  handleGone(node: string): void {
    const now = this.#now();
    for (const known of [...this.#known.values()]) {
      if (known.node !== node || known.until !== Infinity) continue;
      if (known.isKept) this.#set({ ...known, state: 'suspended', until: now + this.#keptMs });
      else this.#set({ ...known, state: 'left', until: now + MOVING_MS });
    }
  }

  /** A node is asked again: its members are as they were until it tells, and those that it does not name have left. */
  doubt(node: string): void {
    const until = this.#now() + MOVING_MS;
    for (const known of [...this.#known.values()])
      if (known.node === node && known.until === Infinity) this.#set({ ...known, until });
  }

  /** Nodes that have members, as far as is known. */
  get places(): ReadonlySet<string> {
    return new Set([...this.#known.values()].map(({ node }) => node));
  }

  handleTick(): void {
    const now = this.#now();
    for (const known of [...this.#known.values()]) {
      if (known.until > now) continue;
      if (known.state === 'left') this.#known.delete(known.id);
      else this.#set({ ...known, state: 'left', until: now + MOVING_MS });
    }
  }

  /** `undefined` if none of its sessions is in the group. */
  of(principal: string): Presence | undefined {
    const sessions = this.#principals.get(principal);
    if (sessions === undefined) return undefined;
    const all = [...sessions.values()];
    const state = all.some((known) => known.state === 'joined') ? 'joined' : 'suspended';
    const shown = all.reduce((best, each) => (each.dataAt > best.dataAt ? each : best));
    return { principal, state, data: shown.data === undefined ? undefined : readData(shown.data) };
  }
}

/** Reads changes of a view. One that is slow gets the last state of each principal. */
export class PresenceWatch implements AsyncIterableIterator<readonly PresenceChange[]> {
  readonly #view: PresenceView;
  readonly #onReturn: () => void;
  readonly #changed = new Set<string>();
  /** The last state that was told of each principal, as text. */
  readonly #told = new Map<string, string>();
  #wake: (() => void) | undefined;
  #isFirst = true;
  #isOver = false;
  #isReading = false;

  constructor(view: PresenceView, onReturn: () => void) {
    this.#view = view;
    this.#onReturn = onReturn;
    for (const principal of view.principals) this.#changed.add(principal);
  }

  handleChange(principal: string): void {
    this.#changed.add(principal);
    this.#wake?.();
  }

  async next(): Promise<IteratorResult<readonly PresenceChange[]>> {
    if (this.#isReading)
      throw new ProtocolError('invalid_argument', 'presence: read one change after the other');
    this.#isReading = true;
    try {
      while (!this.#isOver) {
        const changes = this.#take();
        if (changes.length > 0 || this.#isFirst) {
          this.#isFirst = false;
          return { done: false, value: changes };
        }
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        this.#wake = undefined;
      }
      return { done: true, value: undefined };
    } finally {
      this.#isReading = false;
    }
  }

  #take(): PresenceChange[] {
    const changes: PresenceChange[] = [];
    for (const principal of this.#changed) {
      const presence = this.#view.of(principal);
      const text = presence && JSON.stringify([presence.state, presence.data]);
      const told = this.#told.get(principal);
      if (text === told) continue;
      if (presence === undefined) this.#told.delete(principal);
      else this.#told.set(principal, text as string);
      changes.push(presence ?? { principal, state: 'left', data: undefined });
    }
    this.#changed.clear();
    return changes;
  }

  async return(): Promise<IteratorResult<readonly PresenceChange[]>> {
    this.end();
    return { done: true, value: undefined };
  }

  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#onReturn();
    this.#wake?.();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
