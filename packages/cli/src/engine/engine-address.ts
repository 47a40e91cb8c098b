import { accessSync, constants, existsSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { isProtocolError } from '@parlance/protocol';
import type { Engine } from '@parlance/server';
import { InvalidArgumentError } from 'commander';
import { CommandFailure, ExitCode } from '../base/failure.js';

/** The address of an engine, as the command line gives it. */
export type EngineAddress =
  | { readonly kind: 'redis' | 'postgres'; readonly url: string }
  /** A file of SQLite; `folder` is created if it is given. */
  | { readonly kind: 'sqlite'; readonly file: string; readonly folder?: string };

/** The file in a folder that is given alone. */
const FILE = 'parlance.db';

/** Each kind, as it is written. */
export const ENGINE_HELP =
  'redis://HOST:6379, rediss://HOST:6379, postgres://HOST/DATABASE, sqlite:FILE, or a folder';

/** @throws {InvalidArgumentError} it says what to write instead; it never repeats a URL, which may hold a password. */
export function engineAddress(text: string): EngineAddress {
  if (/^rediss?:\/\//i.test(text) && URL.canParse(text) && new URL(text).hostname !== '')
    return { kind: 'redis', url: text };
  // It may name several hosts.
  if (/^postgres(ql)?:\/\/[^/]/i.test(text)) return { kind: 'postgres', url: text };
  const scheme = /^([a-z][a-z\d+.-]+):/i.exec(text)?.[1]?.toLowerCase();
  if (scheme === 'sqlite') return sqliteAddress(text.slice('sqlite:'.length));
  if (scheme !== undefined) throw wrong(scheme);
  if (text === '') throw new InvalidArgumentError(`Write ${ENGINE_HELP}.`);
  const isFile = existsSync(text) && statSync(text).isFile();
  if (isFile || /\.(db|sqlite3?)$/i.test(text))
    throw new InvalidArgumentError(`That is a file and not a folder: write sqlite:${text}.`);
  return { kind: 'sqlite', file: join(text, FILE), folder: text };
}

function sqliteAddress(path: string): EngineAddress {
  if (path === '' || path.startsWith('//') || path === ':memory:')
    throw new InvalidArgumentError(
      'Write sqlite: and the path of a file, such as sqlite:/var/lib/parlance.db.',
    );
  return { kind: 'sqlite', file: path };
}

function wrong(scheme: string): InvalidArgumentError {
  if (/^rediss?$/.test(scheme)) return new InvalidArgumentError(`Write ${scheme}://127.0.0.1:6379.`);
  if (/^postgres(ql)?$/.test(scheme)) return new InvalidArgumentError(`Write ${scheme}://127.0.0.1/app.`);
  if (scheme === 'file') return new InvalidArgumentError('Write sqlite: in place of file:.');
  return new InvalidArgumentError(`There is no engine for ${scheme}: write ${ENGINE_HELP}.`);
}

/** Of several nodes, which a file cannot be. */
export function sharedUrl(text: string): string {
  const address = engineAddress(text);
  if (address.kind !== 'sqlite') return address.url;
  throw new InvalidArgumentError(
    'Nodes share a Redis or a Postgres: write redis://127.0.0.1:6379 or postgres://127.0.0.1/app. For one process, --engine takes a file.',
  );
}

/** A folder, as `--data` has it. */
export function dataFolder(text: string): Extract<EngineAddress, { readonly kind: 'sqlite' }> {
  if (/^[a-z][a-z\d+.-]+:/i.test(text))
    throw new InvalidArgumentError('It takes a folder; use --engine for anything else.');
  return { kind: 'sqlite', file: join(text, FILE), folder: text };
}

/** Whether the file at an address exists; true of an address that is not a file. */
export const isThere = (address: EngineAddress): boolean =>
  address.kind !== 'sqlite' || existsSync(address.file);

/**
 * The engine at an address. A folder is created if there is none.
 *
 * @param name of the flag or the argument.
 * @throws {CommandFailure} one sentence that says what to do.
 */
export async function openEngine(address: EngineAddress, name: string): Promise<Engine> {
  if (address.kind === 'sqlite' && address.folder !== undefined) prepare(address.folder, name);
  try {
    if (address.kind === 'sqlite') return (await import('@parlance/server/sqlite')).sqlite(address.file);
    if (address.kind === 'postgres') return (await import('@parlance/server/postgres')).postgres(address.url);
    return (await import('@parlance/server/redis')).redis({ url: address.url });
  } catch (error) {
    throw isProtocolError(error) ? failure(`${name}: ${error.message}`, error) : error;
  }
}

function prepare(folder: string, name: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw failure(
      `${name}: ${folder} cannot be written (${code}); name a folder that this user may write`,
      cause,
    );
  }
}

function failure(message: string, cause?: unknown): CommandFailure {
  return new CommandFailure(message, ExitCode.USAGE, { cause });
}
