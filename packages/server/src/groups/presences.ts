import { systemClock, whenAborted } from '@parlance/protocol/internal';
import type { PresenceChange } from './group.js';
import type { Groups } from './groups.js';
import { PresenceView, PresenceWatch } from './presence.js';
import type { PresenceEntry, PresenceSink } from './presence-feed.js';

/** The groups whose presence this node watches. */
export class Presences {
  readonly #groups: Groups;
  /** Names this node. */
  readonly #own: string;
  readonly #now: () => number;
  readonly #views = new Map<string, PresenceView>();
  readonly #sink: PresenceSink;

  constructor(groups: Groups, own: string, now = () => systemClock.now()) {
    this.#groups = groups;
    this.#own = own;
    this.#now = now;
    this.#sink = {
      tell: (name, entries) => {
        this.apply(own, name, entries);
        return true;
      },
    };
  }

  watch(name: string, signal: AbortSignal | undefined): AsyncIterableIterator<readonly PresenceChange[]> {
    const view = this.#views.get(name) ?? this.#open(name);
    const watch = new PresenceWatch(view, () => {
      free();
      view.watchers.delete(watch);
      if (view.watchers.size === 0) this.#close(name);
    });
    view.watchers.add(watch);
    const free = whenAborted(signal, () => watch.end());
    if (signal?.aborted === true) watch.end();
    return watch;
  }

  #open(name: string): PresenceView {
    const { feed, nodes, local } = this.#groups;
    const view = new PresenceView(this.#now, nodes?.presence.keptMs ?? 0);
    this.#views.set(name, view);
    feed.watch(name, this.#sink, local.get(name)?.members.values() ?? []);
    // Those of this node are known at once.
    feed.flush();
    nodes?.presence.follow(name);
    return view;
  }

  #close(name: string): void {
    this.#views.delete(name);
    this.#groups.feed.unwatch(name, this.#sink);
    this.#groups.nodes?.presence.unfollow(name);
  }

  has(name: string): boolean {
    return this.#views.has(name);
  }

  /** Groups that are watched here. */
  get names(): Iterable<string> {
    return this.#views.keys();
  }

  /** A node says what has become of its members. */
  apply(node: string, name: string, entries: readonly PresenceEntry[]): void {
    this.#views.get(name)?.apply(node, entries);
  }

  /** A node is asked again for its members. */
  doubt(node: string): void {
    for (const view of this.#views.values()) view.doubt(node);
  }

  handleTick(): void {
    const presence = this.#groups.nodes?.presence;
    for (const view of this.#views.values()) {
      for (const node of view.places)
        if (node !== this.#own && presence?.isAlive(node) === false) view.handleGone(node);
      view.handleTick();
    }
  }

  /** The server closes. */
  close(): void {
    for (const view of [...this.#views.values()]) for (const watch of [...view.watchers]) watch.end();
  }
}
