import { close, fdatasync, openSync } from 'node:fs';
import { promisify } from 'node:util';

const toDisk = promisify(fdatasync);

/**
 * Puts what was written on the disk, so that it outlives a loss of power. SQLite would hold up the event loop for that; this is
 * done beside it. A transaction is on the disk as soon as the file is that it was added to (`-wal`).
 */
export class Flusher {
  readonly #path: string;
  #file: number | undefined;
  #isDirty = false;
  #last: Promise<void> = Promise.resolve();
  /** It has not begun. */
  #next: Promise<void> | undefined;

  /** @param path of the file that transactions are added to. */
  constructor(path: string) {
    this.#path = path;
  }

  /** A transaction was added. */
  mark(): void {
    this.#isDirty = true;
  }

  /**
   * Resolves when all that was marked is on the disk. One flush at a time, for all who have asked meanwhile; after one that has
   * failed, all fail: the system may have forgotten what it could not write.
   */
  flush(): Promise<void> {
    if (this.#next !== undefined) return this.#next;
    if (!this.#isDirty) return this.#last;
    const next = this.#last.then(() => {
      this.#next = undefined;
      this.#isDirty = false;
      this.#file ??= openSync(this.#path, 'r+');
      return toDisk(this.#file);
    });
    next.catch(() => {});
    this.#next = next;
    this.#last = next;
    return next;
  }

  /** Call it when SQLite has closed the file. */
  async close(): Promise<void> {
    await this.#last.catch(() => {});
    if (this.#file !== undefined) close(this.#file, () => {});
  }
}
