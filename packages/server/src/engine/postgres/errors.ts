import { isProtocolError, ProtocolError } from '@parlance/protocol';

/** Serialization failure, deadlock, unique violation. */
const IN_THE_WAY = new Set(['40001', '40P01', '23505']);
/** A statement or a lock took too long. */
const LATE = new Set(['57014', '55P03']);
/** The schema or a table is missing. */
const MISSING = new Set(['3F000', '42P01']);
/** The server is a replica, or shuts down: another one has to be found. */
const UNUSABLE = new Set(['25006', '57P01', '57P02', '57P03']);

/** The server's code of an error: five characters. `undefined` if the error is not from the server. */
function stateOf(error: unknown): string | undefined {
  const { code } = Object(error) as { readonly code?: unknown };
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

/** Another transaction was in the way: the same one may succeed now. */
export const isInTheWay = (error: unknown): boolean => IN_THE_WAY.has(stateOf(error) ?? '');

export const isMissing = (error: unknown): boolean => MISSING.has(stateOf(error) ?? '');

/** The server takes no writes. */
export const isUnusable = (error: unknown): boolean => UNUSABLE.has(stateOf(error) ?? '');

/** The connection can be used no more: it is lost, or its server takes no writes. */
export function isBroken(error: unknown): boolean {
  const state = stateOf(error);
  if (state === undefined) return !isProtocolError(error);
  return isUnusable(error) || state.startsWith('08');
}

/** Messages of the server and of the system do not show the password, but never the URL either. */
export function failed(cause: unknown): Error {
  if (isProtocolError(cause)) return cause;
  const why = cause instanceof Error ? cause.message || cause.name : String(cause);
  const code = LATE.has(stateOf(cause) ?? '') || isInTheWay(cause) ? 'timeout' : 'connection_failed';
  return new ProtocolError(code, `Postgres: ${why.slice(0, 200)}`, { cause });
}

export function unsuitable(message: string, cause?: unknown): ProtocolError {
  return new ProtocolError('unsupported', message, { cause });
}

export const tooLate = (ms: number) =>
  new ProtocolError('timeout', `Postgres did not answer within ${ms} ms`);
export const closed = () => new ProtocolError('connection_failed', 'Postgres: the connection was closed');
