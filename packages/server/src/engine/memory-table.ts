import {
  type EngineTable,
  MAX_CHANGES,
  MAX_LOG,
  type TableChange,
  type TableContent,
  type TableEntry,
  type TablePut,
} from './engine.js';
import type { EntryItem, KeyItem } from './store.js';

/** How long a question for changes waits, in milliseconds. */
const PATIENCE_MS = 500;

/** A table within one process. */
export class MemoryTable implements EngineTable {
  readonly #entries = new Map<string, TableEntry>();
  #log: TableChange[] = [];
  #position = 0;
  #waiting: (() => void)[] = [];
  #key: string | undefined;

  async put(key: string, entry: TableEntry | undefined, expected?: string | null): Promise<TablePut> {
    const held = this.#entries.get(key);
    const isThere = held?.holder === entry?.holder && held?.record === entry?.record;
    if (isThere) return { isDone: true, position: this.#position };
    const holder = held?.holder ?? null;
    if (expected !== undefined && expected !== holder) return { isDone: false, position: this.#position };
    if (entry === undefined) this.#entries.delete(key);
    else this.#entries.set(key, entry);
    const position = ++this.#position;
    this.#log.push({ position, key, entry });
    if (this.#log.length > 2 * MAX_LOG) this.#log = this.#log.slice(-MAX_LOG);
    for (const wake of this.#waiting.splice(0)) wake();
    return { isDone: true, position };
  }

  async read(): Promise<TableContent> {
    return { entries: new Map(this.#entries), position: this.#position };
  }

  async changes(after: number): Promise<readonly TableChange[] | undefined> {
    if (after === this.#position) await this.#news();
    const first = this.#position - this.#log.length;
    if (after < first || after > this.#position) return undefined;
    return this.#log.slice(after - first, after - first + MAX_CHANGES);
  }

  async shareKey(candidate: string): Promise<string> {
    this.#key ??= candidate;
    return this.#key;
  }

  *exports(table: string): Generator<KeyItem | EntryItem> {
    if (this.#key !== undefined) yield { kind: 'key', table, key: this.#key };
    for (const [key, entry] of this.#entries) yield { kind: 'entry', table, key, entry };
  }

  #news(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, PATIENCE_MS);
      timer.unref();
      this.#waiting.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }
}
