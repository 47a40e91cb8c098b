import { createHash } from 'node:crypto';
import { keyOf } from '../../base/keys.js';
import { ask, type Dialect, type Row, type SqlCall } from './call.js';

/**
 * The tables of kept replies. The key of a reply is its ID; owners and names, which may be long and of any characters,
 * stand as digests. `rank` orders the replies of one owner; `name` is the digest of owner and name, of which the newest reply
 * that has it is in `reply_names`.
 *
 * The last parts of a reply are in its own row (`tail`, from number `tail_from` on), so that a small part costs no row; those
 * before are in rows of some KiB, each of which says how many bytes are before it (`at`). A part stands after its length.
 *
 * Locks are taken in this order: a reply that is not over, its owner, those of the owner that are over, parts and names.
 */
export function logTables({ bytes, whole, keyed }: Dialect): readonly string[] {
  return [
    `CREATE TABLE reply_owners (
      owner TEXT PRIMARY KEY, bytes ${whole} NOT NULL, replies ${whole} NOT NULL, rank ${whole} NOT NULL)${keyed}`,
    `CREATE TABLE replies (
      id TEXT PRIMARY KEY, owner TEXT NOT NULL, name TEXT, head TEXT NOT NULL, rank ${whole} NOT NULL, shared_at ${whole},
      source TEXT NOT NULL, writer TEXT NOT NULL, epoch ${whole} NOT NULL,
      parts ${whole} NOT NULL, size ${whole} NOT NULL, charge ${whole} NOT NULL, noted ${whole} NOT NULL,
      written_at ${whole} NOT NULL, followed_at ${whole}, ends_at ${whole} NOT NULL,
      ended_at ${whole}, ended_by TEXT, why TEXT, failure ${bytes}, end_metadata ${bytes},
      tail_from ${whole} NOT NULL, tail ${bytes} NOT NULL)`,
    'CREATE UNIQUE INDEX replies_by_owner ON replies (owner, rank)',
    'CREATE INDEX replies_by_end ON replies (ends_at)',
    'CREATE INDEX replies_shared ON replies (shared_at, rank) WHERE shared_at IS NOT NULL',
    `CREATE TABLE reply_names (name TEXT PRIMARY KEY, id TEXT NOT NULL UNIQUE)${keyed}`,
    `CREATE TABLE reply_parts (
      id TEXT NOT NULL, from_part ${whole} NOT NULL, at ${whole} NOT NULL, bytes ${bytes} NOT NULL,
      PRIMARY KEY (id, from_part))`,
    `CREATE TABLE reply_metadata (
      id TEXT NOT NULL, part ${whole} NOT NULL, bytes ${bytes} NOT NULL, PRIMARY KEY (id, part))${keyed}`,
    `CREATE TABLE reply_proofs (
      session TEXT PRIMARY KEY, owner TEXT NOT NULL, hashes TEXT NOT NULL, ends_at ${whole} NOT NULL)`,
    'CREATE INDEX reply_proofs_by_end ON reply_proofs (ends_at)',
  ];
}

/** Replies and proofs that one step of a sweep forgets, about. */
const STEP = 100;

/** Different for different lists of texts, of any characters and length. */
export function digestOf(...texts: readonly string[]): string {
  return createHash('sha256')
    .update(keyOf(...texts))
    .digest('base64url');
}

/** A reply that is not over; `undefined` if there is none. It is locked. */
export function* lockReply(dialect: Dialect, id: string): SqlCall<Row | undefined> {
  const [found] = yield* ask(
    `SELECT parts, size, charge, noted, epoch, writer, followed_at, ended_at, ended_by, why, tail_from, tail,
      ${dialect.now} AS now
    FROM replies WHERE id = ? AND ends_at > ${dialect.now}${dialect.forUpdate}`,
    keyOf(id),
  );
  return found;
}

/** Forgets replies, of which more than one owner has some only if the owners are locked. @returns how many. */
export function* forget(
  dialect: Dialect,
  where: string,
  ...values: readonly (string | number)[]
): SqlCall<number> {
  const found = yield* ask(`SELECT 1 AS one FROM replies WHERE ${where}${dialect.forUpdate}`, ...values);
  if (found.length === 0) return 0;
  const owners = `owner IN (SELECT owner FROM replies WHERE ${where})`;
  const own = `FROM replies WHERE replies.owner = reply_owners.owner AND ${where}`;
  yield* ask(
    `UPDATE reply_owners SET bytes = bytes - (SELECT SUM(charge) ${own}), replies = replies - (SELECT COUNT(*) ${own})
    WHERE ${owners}`,
    ...[...values, ...values, ...values],
  );
  for (const table of ['reply_parts', 'reply_metadata', 'reply_names'])
    yield* ask(`DELETE FROM ${table} WHERE id IN (SELECT id FROM replies WHERE ${where})`, ...values);
  yield* ask(`DELETE FROM reply_owners WHERE replies = 0 AND ${owners}`, ...values);
  yield* ask(`DELETE FROM replies WHERE ${where}`, ...values);
  return found.length;
}

/** Forgets some replies of an owner whose time is over. The owner is locked before. @returns how many. */
export function* forgetOver(dialect: Dialect, owner: string): SqlCall<number> {
  const until = yield* overUntil(dialect, 'owner = ?', owner);
  return until === undefined ? 0 : yield* forget(dialect, 'owner = ? AND ends_at <= ?', owner, until);
}

/** Forgets some of what is over. @returns `''`. */
export function* sweepLogs(dialect: Dialect): SqlCall<string> {
  const isOver = `ends_at <= ${dialect.now}`;
  const proofs = `SELECT session FROM reply_proofs WHERE ${isOver} LIMIT ${STEP}`;
  // A call that only reads needs no transaction. A proof that another transaction renews meanwhile is not over.
  if ((yield* ask(proofs)).length > 0)
    yield* ask(`DELETE FROM reply_proofs WHERE session IN (${proofs}) AND ${isOver}`);
  const until = yield* overUntil(dialect, '1 = 1');
  if (until === undefined) return '';
  const owners = 'SELECT owner FROM replies WHERE ends_at <= ?';
  yield* ask(
    `SELECT 1 AS one FROM reply_owners WHERE owner IN (${owners}) ORDER BY owner${dialect.forUpdate}`,
    until,
  );
  yield* forget(dialect, 'ends_at <= ?', until);
  return '';
}

/** The time of the last reply of one step that is over; `undefined` if none is. */
function* overUntil(
  { now }: Dialect,
  where: string,
  ...values: readonly string[]
): SqlCall<number | undefined> {
  const over = yield* ask(
    `SELECT ends_at FROM replies WHERE ${where} AND ends_at <= ${now} ORDER BY ends_at LIMIT ${STEP}`,
    ...values,
  );
  const last = over.at(-1);
  return last && Number(last['ends_at']);
}
