import { chmodSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { ProtocolError } from '@parlance/protocol';
import type { SessionStore } from '../../session/options.js';
import { takeFile } from './lock.js';

/** A file in which sessions of Node survive their process. */

/** Entries are short; a file that is larger is another one. */
const MAX_SIZE = 1024 * 1024;

/** The stores of this process, by their files: sessions of one process may share one. */
const open = new Map<string, FileStore>();

/** See {@link file}. */
export interface FileStore extends SessionStore, Disposable {
  readonly isExclusive: true;
  /** Lets other processes have the file; the end of this process does so as well. Nothing is stored any more. */
  close(): void;
}

/**
 * Keeps sessions in a file, for the option `store` of `connect`: the next process that connects with it takes the session up, also after
 * `kill -9`, within the server's `resumeWindowMs`. Each frame is on file before it is acknowledged. The file has a
 * resume token, which is a secret, so it is made with mode 0600.
 *
 * @param path of the file, which is made if it is not there. `PATH.lock` beside it names the process that has it.
 * @throws {ProtocolError} `unsupported` if another process has the file; `invalid_argument` if it cannot be read or written, or is
 * the file of something else.
 */
export function file(path: string): FileStore {
  if (typeof path !== 'string' || path === '')
    throw new ProtocolError('invalid_argument', 'file: the path of a file is expected');
  const place = resolve(path);
  const known = open.get(place);
  if (known !== undefined) return known;
  const release = takeFile(place);
  try {
    const store = new EntriesInFile(place, () => {
      open.delete(place);
      release();
    });
    open.set(place, store);
    return store;
  } catch (error) {
    release();
    throw error;
  }
}

class EntriesInFile implements FileStore {
  readonly isExclusive = true;
  readonly #place: string;
  readonly #entries: Map<string, string>;
  readonly #onClosed: () => void;
  #isClosed = false;

  /** @throws {ProtocolError} `invalid_argument`. */
  constructor(place: string, onClosed: () => void) {
    this.#place = place;
    this.#onClosed = onClosed;
    this.#entries = new Map(Object.entries(read(place)));
    // Says at once if it cannot be written.
    try {
      this.#write();
    } catch (cause) {
      throw unusable(place, 'it cannot be written', cause);
    }
  }

  getItem(key: string): string | null {
    return this.#entries.get(key) ?? null;
  }

  setItem(key: string, value: string): void {
    this.#entries.set(key, value);
    this.#write();
  }

  removeItem(key: string): void {
    if (this.#entries.delete(key)) this.#write();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#onClosed();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** The file is whole at each moment. */
  #write(): void {
    if (this.#isClosed) throw new Error('the store is closed');
    const next = `${this.#place}.next`;
    writeFileSync(next, JSON.stringify(Object.fromEntries(this.#entries)), { mode: 0o600 });
    // A file that was left there keeps its mode.
    chmodSync(next, 0o600);
    renameSync(next, this.#place);
  }
}

/** @throws {ProtocolError} `invalid_argument`. */
function read(place: string): Readonly<Record<string, string>> {
  let text: string;
  try {
    text = readFileSync(place, 'utf8');
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw unusable(place, 'it cannot be read', cause);
  }
  try {
    const entries: unknown = text.length > MAX_SIZE ? undefined : JSON.parse(text);
    if (typeof entries === 'object' && entries !== null && !Array.isArray(entries)) {
      const isOurs = ([key, value]: readonly [string, unknown]) =>
        key.startsWith('parlance:') && typeof value === 'string';
      if (Object.entries(entries).every(isOurs)) return entries as Readonly<Record<string, string>>;
    }
  } catch {
    // It is the file of something else.
  }
  throw unusable(place, 'it is not a file of sessions', undefined);
}

function unusable(place: string, why: string, cause: unknown): ProtocolError {
  const { code } = Object(cause) as { readonly code?: string };
  return new ProtocolError(
    'invalid_argument',
    `file: ${place}: ${why}${code === undefined ? '' : ` (${code})`}`,
    {
      cause,
    },
  );
}
