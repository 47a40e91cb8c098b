import { useState } from 'react';

/** Milliseconds: components see at most one of several changes that follow each other within a frame. */
const FRAME_MS = 16;

/** Something outside of React that components look at. It works while one does; its states are never changed. */
export abstract class View<State extends object> {
  /** As components see it. */
  #shown: State;
  #latest: State;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #watchers = new Set<() => void>();
  #isWorking = false;

  constructor(state: State) {
    this.#shown = state;
    this.#latest = state;
  }

  /** Begins the work. */
  protected abstract begin(): void;
  /** Ends it: no component looks any more. */
  protected abstract end(): void;

  readonly getState = (): State => this.#shown;

  /** As `useSyncExternalStore` calls it. */
  readonly watch = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    this.work();
    return () => {
      this.#watchers.delete(watcher);
      this.#endUnlessWatched();
    };
  };

  /** Begins, if it has not begun: a component that is just being mounted may ask for work before it looks. */
  protected work(): void {
    if (this.#isWorking) return;
    this.#isWorking = true;
    this.begin();
    this.#endUnlessWatched();
  }

  protected get isWorking(): boolean {
    return this.#isWorking;
  }

  /** Later, because strict mode unmounts a component and mounts it again at once. */
  #endUnlessWatched(): void {
    setTimeout(() => {
      if (this.#watchers.size > 0 || !this.#isWorking) return;
      this.#isWorking = false;
      this.end();
    });
  }

  protected get latest(): State {
    return this.#latest;
  }

  protected set(change: Partial<State>): void {
    this.#latest = { ...this.#latest, ...change };
    this.#show();
  }

  /** As {@link set}, but components see it a frame later. */
  protected setSoon(change: Partial<State>): void {
    this.#latest = { ...this.#latest, ...change };
    this.#timer ??= setTimeout(() => this.#show(), FRAME_MS);
  }

  #show(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#shown = this.#latest;
    for (const watcher of [...this.#watchers]) watcher();
  }
}

/** The view that `create` has made for these keys. That of `useMemo` is made again when the code changes in development (Fast Refresh). */
export function useView<Made>(create: () => Made, ...keys: readonly unknown[]): Made {
  let [kept, keep] = useState(() => ({ keys, made: create() }));
  if (kept.keys.some((key, i) => key !== keys[i])) {
    kept = { keys, made: create() };
    keep(kept);
  }
  return kept.made;
}
