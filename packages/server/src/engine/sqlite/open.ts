import { accessSync, closeSync, constants, openSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Dialect } from '../sql/call.js';
import { leaseTables } from '../sql/leases.js';
import { STEPS } from '../sql/schema.js';
import { failure, refusal } from './failures.js';
import { type Database, loadLibrary } from './library.js';

export const DIALECT: Dialect = {
  bytes: 'BLOB',
  whole: 'INTEGER',
  lists: undefined,
  forUpdate: '',
  keyed: ' WITHOUT ROWID',
  now: "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
  // They are gone with the process, and no other one can live beside it: so its leases are over as soon as the file can be opened.
  createVolatile: 'CREATE TEMP TABLE IF NOT EXISTS',
  size: 'SELECT page_count * page_size AS bytes FROM pragma_page_count(), pragma_page_size()',
};

/** In the header of the file, so that no database of another application is taken for ours: `Parl`. */
const APPLICATION_ID = 0x50_61_72_6c;
/** A file is looked through when it is opened if it has at most so many pages (of 4 KiB). */
const MAX_CHECKED_PAGES = 32_768;
/** Bytes of the file of what was written last, to which it shrinks. */
const MAX_WAL_BYTES = 16 * 1024 * 1024;

/** @throws {ProtocolError} `unsupported`, as {@link failure}. */
export function openDatabase(path: string): Database {
  createFile(path);
  let database: Database | undefined;
  try {
    const { DatabaseSync } = loadLibrary();
    database = new DatabaseSync(path);
    prepare(path, database);
    return database;
  } catch (error) {
    database?.close();
    throw failure(path, error);
  }
}

/** All is in one file then, and another connection may open it. Never throws. */
export function closeDatabase(database: Database): void {
  try {
    // The package for Node 20 gives the lock back only when its statements are collected as garbage.
    database.exec('PRAGMA journal_mode = DELETE; PRAGMA locking_mode = NORMAL; SELECT 1 FROM sqlite_schema');
  } catch {
    // Its files have all writes nevertheless.
  }
  try {
    database.close();
  } catch {
    // It is closed.
  }
}

/** Only its owner may read it. SQLite gives its other files the same mode. */
function createFile(path: string): void {
  try {
    // Only if it is new: closing a file that is open elsewhere in this process would end the lock of that.
    closeSync(openSync(path, 'wx', 0o600));
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT') throw refusal(path, 'its folder does not exist', cause);
    if (code !== 'EEXIST') throw refusal(path, `it cannot be created (${code})`, cause);
  }
  for (const each of [path, dirname(path)]) {
    try {
      accessSync(each, constants.R_OK | constants.W_OK);
    } catch (cause) {
      throw refusal(
        path,
        each === path ? 'the file cannot be written' : 'its folder cannot be written',
        cause,
      );
    }
  }
}

function prepare(path: string, database: Database): void {
  const read = (text: string): number => Number(Object.values(Object(database.prepare(text).all()[0]))[0]);
  // First: then the first access takes the lock, which the system gives back however the process ends.
  database.exec(
    'PRAGMA locking_mode = EXCLUSIVE; PRAGMA temp_store = MEMORY; PRAGMA auto_vacuum = INCREMENTAL',
  );
  const isEmpty = read('SELECT count(*) FROM sqlite_schema') === 0;
  if (!isEmpty && read('PRAGMA application_id') !== APPLICATION_ID)
    throw refusal(path, 'it is a database of another application');
  const version = read('PRAGMA user_version');
  if (version > STEPS.length) {
    const why = `it was written by a newer version (schema ${version}, known up to ${STEPS.length})`;
    throw refusal(path, why);
  }
  if (read('PRAGMA page_count') <= MAX_CHECKED_PAGES) {
    const [found] = database.prepare('PRAGMA quick_check(1)').all();
    const result = String(Object.values(Object(found))[0]);
    if (result !== 'ok')
      throw refusal(path, `the file is damaged (${result.slice(0, 100)}); replace it with a backup`);
  }
  database.exec(
    `PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = ${MAX_WAL_BYTES}`,
  );
  const steps = STEPS.slice(version).flatMap((step) => step(DIALECT));
  const marks = [`PRAGMA application_id = ${APPLICATION_ID}`, `PRAGMA user_version = ${STEPS.length}`];
  database.exec(['BEGIN IMMEDIATE', ...steps, ...marks, 'COMMIT', ...leaseTables(DIALECT)].join(';\n'));
}
