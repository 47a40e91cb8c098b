type OnWake = (hint: string | undefined) => void;

/** The watchers of topics in this process. */
export class Wakes {
  readonly #watching = new Map<string, Set<OnWake>>();

  wake(topic: string, hint = ''): void {
    for (const onWake of [...(this.#watching.get(topic) ?? [])]) onWake(hint);
  }

  /** @param isSure whether each wake is heard from now on, which `onWake` is told. @default it is */
  watch(topic: string, onWake: OnWake, isSure = true): () => void {
    const watching = this.#watching.get(topic) ?? new Set();
    this.#watching.set(topic, watching);
    // Of one who watches twice, each has an entry of its own.
    const entry: OnWake = (hint) => onWake(hint);
    watching.add(entry);
    if (isSure) queueMicrotask(() => watching.has(entry) && entry(undefined));
    return () => {
      watching.delete(entry);
      if (watching.size === 0 && this.#watching.get(topic) === watching) this.#watching.delete(topic);
    };
  }

  /** A wake may have been lost, or each is heard from now on. */
  miss(): void {
    for (const watching of [...this.#watching.values()])
      for (const onWake of [...watching]) onWake(undefined);
  }
}
