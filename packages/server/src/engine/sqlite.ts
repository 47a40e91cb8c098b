import { closeSync, openSync } from 'node:fs';
import { ProtocolError } from '@parlance/protocol';
import { assertOptions } from '@parlance/protocol/internal';
import type { Engine } from './engine.js';
import { SqlConnection } from './sql/connection.js';
import { sqlReplies } from './sql/logs.js';
import { sqlStore } from './sql/store.js';
import { SqliteDatabase } from './sqlite/database.js';
import { loadLibrary } from './sqlite/library.js';

export interface SqliteOptions {
  /**
   * When a call is done. `'normal'`: when the system has it, so that it outlives the process, however that ends; a loss of power
   * takes about the last second. `'full'`: when the disk has it as well.
   *
   * @default 'normal'
   */
  readonly synchronous?: 'normal' | 'full' | undefined;
}

export interface SqliteEngine extends Engine {
  /**
   * Writes a copy of the file while servers use it. They stand still meanwhile: some tenths of a second for 100 MB.
   *
   * @param file is new; its folder exists. Only its owner may read it.
   * @throws {ProtocolError} `invalid_option` if there is such a file; `unsupported`, `connection_failed`.
   */
  backup(file: string): Promise<void>;
}

/**
 * Keeps what outlives a process in a file, with SQLite, for one process on one machine. Several servers of one process may have the same
 * file; another process is refused. The file is created if there is none. It is opened when a server starts.
 *
 * @throws {ProtocolError} `invalid_option`; `unsupported` if neither Node has SQLite nor the package is installed that has it.
 */
export function sqlite(file: string, options: SqliteOptions = {}): SqliteEngine {
  assertOptions(options, { synchronous: 'text' }, 'sqlite');
  const { synchronous = 'normal' } = options;
  if (typeof file !== 'string' || file === '' || file.includes('\0'))
    throw new ProtocolError('invalid_option', 'sqlite: give the path of a file');
  if (file === ':memory:' || file.startsWith('file:'))
    throw new ProtocolError('invalid_option', 'sqlite: give the path of a file; nothing survives in memory');
  if (synchronous !== 'normal' && synchronous !== 'full')
    throw new ProtocolError('invalid_option', "sqlite: synchronous must be 'normal' or 'full'");
  loadLibrary();
  const open = () => new SqliteDatabase(file, synchronous === 'full');
  return {
    connect: () => new SqlConnection(open()),
    connectLogs: () => sqlReplies(open()),
    connectStore: () => sqlStore(open()),
    async backup(to) {
      const database = open();
      try {
        createNew(to);
        await database.copyTo(to);
      } finally {
        await database.close();
      }
    },
  };
}

/** @throws {ProtocolError} `invalid_option`. */
function createNew(file: string): void {
  try {
    closeSync(openSync(file, 'wx', 0o600));
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw new ProtocolError('invalid_option', `backup: ${file} cannot be created (${code})`, { cause });
  }
}
