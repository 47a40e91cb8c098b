import type { SessionStore } from '@parlance/client';

/** The storage of a page, which the next page of it finds. */
export class MemoryStore implements SessionStore {
  readonly entries = new Map<string, string>();
  getItem(key: string): string | null | Promise<string | null> {
    return this.entries.get(key) ?? null;
  }
  setItem(key: string, value: string): void | Promise<void> {
    this.entries.set(key, value);
  }
  removeItem(key: string): void {
    this.entries.delete(key);
  }
  /** The entry of the last page. */
  get entry() {
    const [text] = this.entries.values();
    return text === undefined ? undefined : JSON.parse(text);
  }
  /** The store of a page that was duplicated, or that is loaded again after a crash. */
  copy(): MemoryStore {
    const store = new MemoryStore();
    for (const [key, value] of this.entries)
      store.entries.set(key, value.replace('"detached":false', '"detached":true'));
    return store;
  }
}
