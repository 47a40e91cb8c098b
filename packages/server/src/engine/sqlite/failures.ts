import { isProtocolError, ProtocolError } from '@parlance/protocol';

/** Result codes of SQLite, of which extended ones are the last eight bits. */
const BUSY = 5;
const LOCKED = 6;
const READONLY = 8;
const CORRUPT = 11;
const FULL = 13;
const CANTOPEN = 14;
const NOTADB = 26;

/** For good: until someone has done something about the file. */
const UNSUITABLE: Readonly<Record<number, string>> = {
  [BUSY]: 'another process uses the file, and only one can',
  [LOCKED]: 'another process uses the file, and only one can',
  [READONLY]: 'the file cannot be written',
  [CORRUPT]: 'the file is damaged; replace it with a backup, or remove it with its -wal file',
  [CANTOPEN]: 'the file cannot be opened',
  [NOTADB]: 'the file is not a database of SQLite, or is damaged',
};

/** @returns {ProtocolError} `unsupported`, or `connection_failed` if it may succeed the next time. */
export function failure(path: string, cause: unknown): Error {
  if (isProtocolError(cause)) return cause;
  const { errcode, message } = Object(cause) as { readonly errcode?: unknown; readonly message?: unknown };
  const code = typeof errcode === 'number' ? errcode & 0xff : undefined;
  const unsuitable = code === undefined ? undefined : UNSUITABLE[code];
  if (unsuitable !== undefined) return refusal(path, unsuitable, cause);
  const why = code === FULL ? 'the disk is full, or the file has its largest size' : String(message ?? cause);
  return new ProtocolError('connection_failed', `SQLite: ${path}: ${why.slice(0, 200)}`, { cause });
}

export function refusal(path: string, why: string, cause?: unknown): ProtocolError {
  return new ProtocolError('unsupported', `SQLite: ${path}: ${why}`, { cause });
}
