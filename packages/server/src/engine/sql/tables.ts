import { withResolvers } from '@parlance/protocol/internal';
import {
  type EngineTable,
  MAX_CHANGES,
  MAX_LOG,
  type TableChange,
  type TableContent,
  type TableEntry,
  type TablePut,
} from '../engine.js';
import { ask, type Dialect, type Row, type SqlCall, type SqlDatabase } from './call.js';

/** How long a question for changes waits, in milliseconds. */
const PATIENCE_MS = 1_000;

/** A table is a row with the number of its last change and its key, and its entries and changes are rows as well. */
export const tableTables = ({ whole, keyed }: Dialect): readonly string[] => [
  `CREATE TABLE tables (name TEXT PRIMARY KEY, position ${whole} NOT NULL, shared_key TEXT)`,
  `CREATE TABLE entries (name TEXT NOT NULL, entry TEXT NOT NULL, holder TEXT NOT NULL, record TEXT NOT NULL,
    PRIMARY KEY (name, entry))${keyed}`,
  `CREATE TABLE changes (name TEXT NOT NULL, position ${whole} NOT NULL, entry TEXT NOT NULL, holder TEXT,
    record TEXT NOT NULL, PRIMARY KEY (name, position))${keyed}`,
];

/** The calls of all tables. */
export class TableCalls {
  readonly #state: string;
  readonly #position = 'SELECT position FROM tables WHERE name = ?';
  readonly #create = 'INSERT INTO tables (name, position, shared_key) VALUES (?, ?, ?)';
  readonly #advance = 'UPDATE tables SET position = ? WHERE name = ?';
  readonly #setKey = 'UPDATE tables SET shared_key = ? WHERE name = ?';
  readonly #one = 'SELECT holder, record FROM entries WHERE name = ? AND entry = ?';
  readonly #all = 'SELECT entry, holder, record FROM entries WHERE name = ?';
  readonly #remove = 'DELETE FROM entries WHERE name = ? AND entry = ?';
  readonly #put = `INSERT INTO entries (name, entry, holder, record) VALUES (?, ?, ?, ?)
    ON CONFLICT (name, entry) DO UPDATE SET holder = excluded.holder, record = excluded.record`;
  readonly #log = 'INSERT INTO changes (name, position, entry, holder, record) VALUES (?, ?, ?, ?, ?)';
  readonly #prune = 'DELETE FROM changes WHERE name = ? AND position <= ?';
  readonly #changes = `SELECT position, entry, holder, record FROM changes WHERE name = ? AND position > ?
    ORDER BY position LIMIT ${MAX_CHANGES}`;

  constructor({ forUpdate }: Dialect) {
    this.#state = `SELECT position, shared_key FROM tables WHERE name = ?${forUpdate}`;
  }

  *put(
    name: string,
    key: string,
    entry: TableEntry | undefined,
    expected?: string | null,
  ): SqlCall<TablePut> {
    const [state] = yield* ask(this.#state, name);
    const position = Number(state?.['position'] ?? 0);
    const [row] = yield* ask(this.#one, name, key);
    const held = row && entryOf(row);
    if (held?.holder === entry?.holder && held?.record === entry?.record) return { isDone: true, position };
    if (expected !== undefined && expected !== (held?.holder ?? null)) return { isDone: false, position };
    const next = position + 1;
    if (state === undefined) yield* ask(this.#create, name, next, null);
    else yield* ask(this.#advance, next, name);
    if (entry === undefined) yield* ask(this.#remove, name, key);
    else yield* ask(this.#put, name, key, entry.holder, entry.record);
    yield* ask(this.#log, name, next, key, entry?.holder ?? null, entry?.record ?? '');
    yield* ask(this.#prune, name, next - MAX_LOG);
    return { isDone: true, position: next };
  }

  *read(name: string): SqlCall<TableContent> {
    // First, as what is put meanwhile comes again with the changes.
    const [state] = yield* ask(this.#position, name);
    const rows = yield* ask(this.#all, name);
    const entries = rows.flatMap((row) => {
      const entry = entryOf(row);
      return entry === undefined ? [] : [[String(row['entry']), entry] as const];
    });
    return { entries: new Map(entries), position: Number(state?.['position'] ?? 0) };
  }

  *changes(name: string, after: number): SqlCall<readonly TableChange[] | undefined> {
    const [state] = yield* ask(this.#position, name);
    const position = Number(state?.['position'] ?? 0);
    if (after === position) return [];
    if (after > position) return undefined;
    const rows = yield* ask(this.#changes, name, after);
    const changes = rows.map((row) => ({
      position: Number(row['position']),
      key: String(row['entry']),
      entry: entryOf(row),
    }));
    return changes[0]?.position === after + 1 ? changes : undefined;
  }

  *shareKey(name: string, candidate: string): SqlCall<string> {
    const [state] = yield* ask(this.#state, name);
    const key = state?.['shared_key'];
    if (typeof key === 'string') return key;
    if (state === undefined) yield* ask(this.#create, name, 0, candidate);
    else yield* ask(this.#setKey, candidate, name);
    return candidate;
  }
}

/** `undefined` if it is that of a change that has removed it. */
const entryOf = ({ holder, record }: Row): TableEntry | undefined =>
  typeof holder === 'string' ? { holder, record: String(record) } : undefined;

/** A table in a database, as one node uses it. */
export class SqlTable implements EngineTable {
  readonly #name: string;
  readonly #database: SqlDatabase;
  readonly #calls: TableCalls;
  readonly #topic: string;

  constructor(name: string, database: SqlDatabase, calls: TableCalls) {
    this.#name = name;
    this.#database = database;
    this.#calls = calls;
    this.#topic = `table:${name}`;
  }

  async put(key: string, entry: TableEntry | undefined, expected?: string | null): Promise<TablePut> {
    const put = await this.#database.run(() => this.#calls.put(this.#name, key, entry, expected));
    if (put.isDone) this.#database.wake(this.#topic);
    return put;
  }

  read(): Promise<TableContent> {
    return this.#database.run(() => this.#calls.read(this.#name));
  }

  async changes(after: number): Promise<readonly TableChange[] | undefined> {
    const question = () => this.#database.run(() => this.#calls.changes(this.#name, after));
    // Before the question, so that no change comes between the two.
    const news = this.#news();
    try {
      const changes = await question();
      // A caller that gets none asks again.
      if (changes?.length !== 0 || !(await news.come)) return changes;
    } finally {
      news.forget();
    }
    return await question();
  }

  shareKey(candidate: string): Promise<string> {
    return this.#database.run(() => this.#calls.shareKey(this.#name, candidate));
  }

  /** `come` resolves with `true` at the next change, or with `false` after a while. */
  #news(): { readonly come: Promise<boolean>; forget(): void } {
    const { promise, resolve } = withResolvers<boolean>();
    const timer = setTimeout(() => resolve(false), PATIENCE_MS);
    timer.unref();
    const stop = this.#database.watch(this.#topic, (hint) => {
      if (hint !== undefined) resolve(true);
    });
    return {
      come: promise,
      forget() {
        clearTimeout(timer);
        stop();
      },
    };
  }
}
