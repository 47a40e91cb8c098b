import { ProtocolError } from '@parlance/protocol';
import type { SqlCall, SqlDatabase } from '../sql/call.js';
import { SqliteFile } from './file.js';
import { DIALECT } from './open.js';

/** After the file could not be opened, in milliseconds. */
const RETRY_MS = 500;

/** One connection to a file, which is opened with the first call. */
export class SqliteDatabase implements SqlDatabase {
  readonly dialect = DIALECT;
  readonly #path: string;
  readonly #isFull: boolean;
  #file: SqliteFile | undefined;
  #refused: { readonly error: unknown; readonly until: number } | undefined;
  #isClosed = false;

  /** @param isFull whether calls resolve when the disk has what they have written. */
  constructor(path: string, isFull: boolean) {
    this.#path = path;
    this.#isFull = isFull;
  }

  async run<Result>(begin: () => SqlCall<Result>, isReplicated = false): Promise<Result> {
    if (isReplicated)
      throw new ProtocolError('unsupported', 'SQLite: there is no replica that could confirm');
    const file = this.#open();
    const result = await file.run(begin);
    if (this.#isFull) await file.flush();
    return result;
  }

  wake(topic: string, hint?: string): void {
    this.#file?.wakes.wake(topic, hint);
  }

  watch(topic: string, onWake: (hint: string | undefined) => void): () => void {
    try {
      return this.#open().wakes.watch(topic, onWake);
    } catch {
      // Callers that wait ask again after a while.
      return () => {};
    }
  }

  async isVolatile(): Promise<boolean> {
    return false;
  }

  async copyTo(path: string): Promise<void> {
    this.#open().copyTo(path);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const file = this.#file;
    // Before it waits, as it may be called again meanwhile.
    this.#file = undefined;
    await file?.leave();
  }

  #open(): SqliteFile {
    if (this.#isClosed) throw new ProtocolError('connection_failed', 'SQLite: the connection was closed');
    if (this.#file !== undefined) return this.#file;
    if (this.#refused !== undefined && performance.now() < this.#refused.until) throw this.#refused.error;
    try {
      this.#file = SqliteFile.enter(this.#path);
      return this.#file;
    } catch (error) {
      this.#refused = { error, until: performance.now() + RETRY_MS };
      throw error;
    }
  }
}
