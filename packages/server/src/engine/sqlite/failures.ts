import { isProtocolError, ProtocolError } from '@parlance/protocol';

/** Result codes of SQLite, and how it names them if the library does not give the code. */
const CODES: Readonly<Record<string, number>> = {
  'database is locked': 5,
  'database table is locked': 6,
  'attempt to write a readonly database': 8,
  'database disk image is malformed': 11,
  'database or disk is full': 13,
  'unable to open database file': 14,
  'file is not a database': 26,
};
const FULL = 13;

const IN_USE = 'another process uses the file, and only one can';
/** Failures that last until an operator repairs the file. */
const UNSUITABLE: Readonly<Record<number, string>> = {
  5: IN_USE,
  6: IN_USE,
  8: 'the file cannot be written',
  11: 'the file is damaged; put a backup in its place, or remove it together with its -wal file',
  14: 'the file cannot be opened',
  26: 'the file is damaged, or is not a database of SQLite',
};

/** @returns {ProtocolError} `unsupported`, or `connection_failed` if it may succeed the next time. */
export function failure(path: string, cause: unknown): Error {
  if (isProtocolError(cause)) return cause;
  const { errcode, message } = Object(cause) as { readonly errcode?: unknown; readonly message?: unknown };
  // The last eight bits of an extended code say the most.
  const code = typeof errcode === 'number' ? errcode & 0xff : CODES[String(message)];
  const unsuitable = code === undefined ? undefined : UNSUITABLE[code];
  if (unsuitable !== undefined) return refusal(path, unsuitable, cause);
  const why = code === FULL ? 'the disk is full' : String(message ?? cause).slice(0, 200);
  return new ProtocolError('connection_failed', `SQLite: ${path}: ${why}`, { cause });
}

export function refusal(path: string, why: string, cause?: unknown): ProtocolError {
  return new ProtocolError('unsupported', `SQLite: ${path}: ${why}`, { cause });
}
