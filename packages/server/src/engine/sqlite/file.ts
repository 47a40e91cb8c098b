import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { SqlCall } from '../sql/call.js';
import { Sweeper } from '../sql/sweeper.js';
import { Wakes } from '../sql/wakes.js';
import { failure } from './failures.js';
import { Flusher } from './flusher.js';
import type { Database } from './library.js';
import { closeDatabase, DIALECT, openDatabase } from './open.js';
import { Ticks } from './ticks.js';

/** How often what was written is put on the disk, and free pages are given back, in milliseconds. */
const UPKEEP_MS = 1_000;
/** Pages that are given back at a time, if more than these are free, and more than a quarter of all. */
const FREED_PAGES = 256;

/** Files that are open in this process, by device and inode. */
const openFiles = new Map<string, SqliteFile>();

/** The database in one file, which all engines of this process share that have the same file. */
export class SqliteFile {
  readonly dialect = DIALECT;
  readonly wakes = new Wakes();
  readonly #path: string;
  readonly #key: string;
  readonly #database: Database;
  readonly #ticks: Ticks;
  readonly #flusher: Flusher;
  readonly #sweeper: Sweeper;
  readonly #upkeep: ReturnType<typeof setInterval>;
  #users = 0;

  /**
   * Opens it, unless it is open. Each one who does has to {@link leave} it.
   *
   * @throws {ProtocolError} `unsupported` if it cannot be used; `connection_failed`.
   */
  static enter(file: string): SqliteFile {
    const path = resolve(file);
    const known = openFiles.get(keyOf(path) ?? '');
    const opened = known ?? new SqliteFile(path, openDatabase(path));
    opened.#users++;
    return opened;
  }

  private constructor(path: string, database: Database) {
    this.#path = path;
    this.#key = keyOf(path) ?? path;
    this.#database = database;
    this.#flusher = new Flusher(`${path}-wal`);
    this.#ticks = new Ticks(database, (error) => failure(path, error));
    this.#ticks.onWritten = () => this.#flusher.mark();
    this.#sweeper = new Sweeper(this);
    this.#upkeep = setInterval(() => this.#keepUp(), UPKEEP_MS);
    this.#upkeep.unref();
    openFiles.set(this.#key, this);
  }

  run<Result>(begin: () => SqlCall<Result>): Promise<Result> {
    return this.#ticks.run(begin);
  }

  /** Resolves when all calls that have resolved are on the disk. @throws {ProtocolError} `connection_failed`. */
  async flush(): Promise<void> {
    try {
      await this.#flusher.flush();
    } catch (error) {
      throw failure(this.#path, error);
    }
  }

  /** Writes all that is in it to a new file. Nothing else happens meanwhile. @throws {ProtocolError} */
  copyTo(path: string): void {
    try {
      this.#ticks.end();
      this.#database.prepare('VACUUM INTO ?').all(path);
    } catch (error) {
      throw failure(path, error);
    }
  }

  /** Closes it with its last user. Never rejects. */
  async leave(): Promise<void> {
    if (--this.#users > 0) return;
    openFiles.delete(this.#key);
    this.#sweeper.stop();
    clearInterval(this.#upkeep);
    this.#ticks.end();
    closeDatabase(this.#database);
    await this.#flusher.close();
  }

  #keepUp(): void {
    // Callers that wait for the flush learn that it has failed.
    this.#flusher.flush().catch(() => {});
    try {
      const [free, all] = ['freelist_count', 'page_count'].map((name) => this.#read(`PRAGMA ${name}`));
      if (free === undefined || all === undefined || free <= FREED_PAGES || 4 * free <= all) return;
      // The file itself becomes smaller with the second one.
      this.#database.exec(`PRAGMA incremental_vacuum(${FREED_PAGES}); PRAGMA wal_checkpoint(PASSIVE)`);
    } catch {
      // Tried again.
    }
  }

  #read(text: string): number {
    return Number(Object.values(Object(this.#database.prepare(text).all()[0]))[0]);
  }
}

/** Links to one file have one key. */
function keyOf(path: string): string | undefined {
  const found = statSync(path, { throwIfNoEntry: false, bigint: true });
  return found && `${found.dev}:${found.ino}`;
}
