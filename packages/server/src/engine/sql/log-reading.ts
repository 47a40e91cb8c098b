import { keyOf } from '../../base/keys.js';
import {
  type EngineEntry,
  type EnginePage,
  type EngineState,
  framedLength,
  MAX_SHARED,
  NO_BYTES,
  PAGE_SIZE,
  READ_SIZE,
} from '../logs/logs.js';
import { readHead } from '../logs/redis-head.js';
import { itemsOf, malformed, writerOf } from '../logs/redis-values.js';
import { READ_PARTS, type ReplyPieces } from '../logs/reply.js';
import { ask, type Dialect, type Row, type SqlCall, type SqlValue } from './call.js';
import { digestOf } from './log-tables.js';

/** The calls of kept replies that read them. */

/** Rows of parts that one read looks at: enough for READ_SIZE bytes of rows that are not small. */
const ROWS = 18;

export function* findReply(dialect: Dialect, id: string): SqlCall<EngineEntry | undefined> {
  const [found] = yield* selectEntries(dialect, 'r.id = ?', keyOf(id));
  if (found === undefined) return undefined;
  const entry = entryOf(found);
  if (entry.id !== id) throw malformed();
  return entry;
}

export function* namedReply(dialect: Dialect, owner: string, name: string): SqlCall<EngineEntry | undefined> {
  const newest = 'r.id = (SELECT id FROM reply_names WHERE name = ?)';
  const [found] = yield* selectEntries(dialect, newest, digestOf(owner, name));
  return found && entryOf(found, owner);
}

export function* listReplies(dialect: Dialect, owner: string, before?: number): SqlCall<EnginePage> {
  const where = `r.owner = ? AND r.rank < ? ORDER BY r.rank DESC LIMIT ${PAGE_SIZE + 1}`;
  const found = yield* selectEntries(dialect, where, digestOf(owner), before ?? Number.MAX_SAFE_INTEGER);
  const page = found.slice(0, PAGE_SIZE);
  return {
    entries: page.map((row) => entryOf(row, owner)),
    before: found.length > PAGE_SIZE ? Number(page.at(-1)?.['rank']) : undefined,
  };
}

export function* sharedReplies(dialect: Dialect): SqlCall<readonly string[]> {
  const found = yield* ask(
    `SELECT id FROM replies WHERE shared_at IS NOT NULL AND ends_at > ${dialect.now}
    ORDER BY shared_at DESC, rank DESC LIMIT ${MAX_SHARED}`,
  );
  return found.map(({ id }) => String(id));
}

/** @param isFollowed says that it is. */
export function* stateOf(
  dialect: Dialect,
  id: string,
  isFollowed: boolean,
): SqlCall<EngineState | undefined> {
  const lives = `id = ? AND ends_at > ${dialect.now}`;
  if (isFollowed)
    yield* ask(
      `UPDATE replies SET followed_at = ${dialect.now} WHERE ${lives} AND ended_at IS NULL`,
      keyOf(id),
    );
  const [found] = yield* ask(
    `SELECT parts, ended_at, ${WRITER}, ${dialect.now} AS now FROM replies r WHERE ${lives}`,
    keyOf(id),
  );
  if (found === undefined) return undefined;
  return { parts: Number(found['parts']), hasEnded: found['ended_at'] !== null, ...writtenBy(found) };
}

export function* readParts(dialect: Dialect, id: string, after: number): SqlCall<ReplyPieces | undefined> {
  const [found] = yield* ask(
    `SELECT parts, noted, ended_at, failure, end_metadata, tail_from, tail FROM replies
    WHERE id = ? AND ends_at > ${dialect.now}`,
    keyOf(id),
  );
  if (found === undefined) return undefined;
  const [parts, endedAt] = [Number(found['parts']), found['ended_at']];
  const records = yield* recordsAfter(keyOf(id), found, after);
  // It was forgotten meanwhile.
  if (after < parts && records.length === 0) return undefined;
  const noted = Number(found['noted']) > 0 ? yield* metadataAt(keyOf(id), after) : undefined;
  const end =
    endedAt === null || endedAt === undefined || after + records.length < parts
      ? undefined
      : {
          at: Number(endedAt),
          failure: bytesOf(found['failure']),
          metadata: bytesOf(found['end_metadata']),
        };
  return { records, metadata: noted, end };
}

export function* proveOwner(dialect: Dialect, sessionId: string, hash: string): SqlCall<string | undefined> {
  const [found] = yield* ask(
    `SELECT owner, hashes FROM reply_proofs WHERE session = ? AND ends_at > ${dialect.now}`,
    keyOf(sessionId),
  );
  const isProven = String(found?.['hashes'] ?? '')
    .split(' ')
    .includes(hash);
  return isProven ? String(JSON.parse(String(found?.['owner']))) : undefined;
}

export function* vouchFor(
  dialect: Dialect,
  sessionId: string,
  owner: string,
  hashes: readonly string[],
  ttlMs: number,
): SqlCall<void> {
  yield* ask(
    `INSERT INTO reply_proofs (session, owner, hashes, ends_at) VALUES (?, ?, ?, ${dialect.now} + ?)
    ON CONFLICT (session) DO UPDATE SET owner = excluded.owner, hashes = excluded.hashes, ends_at = excluded.ends_at`,
    ...[keyOf(sessionId), JSON.stringify(owner), hashes.join(' '), Math.max(1, Math.ceil(ttlMs))],
  );
}

const WRITER = 'r.written_at, r.writer, r.epoch, r.source';

function* selectEntries(
  { now }: Dialect,
  where: string,
  ...values: readonly SqlValue[]
): SqlCall<readonly Row[]> {
  return yield* ask(
    `SELECT r.head, r.rank, r.parts, r.ended_at, CASE WHEN r.failure IS NULL THEN 0 ELSE 1 END AS failed, ${WRITER},
      ${now} AS now
    FROM replies r WHERE r.ends_at > ${now} AND ${where}`,
    ...values,
  );
}

/** @throws {ProtocolError} `bad_message` if no node has written it so. */
function entryOf(row: Row, owner?: string): EngineEntry {
  const head = readHead(Buffer.from(String(row['head'])));
  if (owner !== undefined && head.owner !== owner) throw malformed();
  const endedAt = row['ended_at'];
  const failure = row['failed'] === 1 ? NO_BYTES : undefined;
  const hasEnded = endedAt !== null && endedAt !== undefined;
  const end = hasEnded ? { at: Number(endedAt), failure, metadata: undefined } : undefined;
  return { ...head, parts: Number(row['parts']), end, ...writtenBy(row) };
}

function writtenBy(row: Row) {
  const idleMs = Math.max(0, Number(row['now']) - Number(row['written_at']));
  return writerOf([idleMs, row['writer'], row['epoch'], row['source']]);
}

/** Parts after number `after`, as many as one read returns. */
function* recordsAfter(id: string, found: Row, after: number): SqlCall<Uint8Array[]> {
  if (after >= Number(found['parts'])) return [];
  const tailFrom = Number(found['tail_from']);
  const rows = after < tailFrom ? yield* selectRows(id, after) : [];
  // It was forgotten since it was read: what is in the tail does not come next.
  if (after < tailFrom && rows.length === 0) return [];
  const records: Uint8Array[] = [];
  let next = Number(rows[0]?.['from_part'] ?? tailFrom);
  let left = READ_SIZE;
  for (const { from_part, bytes } of [...rows, { from_part: tailFrom, bytes: found['tail'] as Uint8Array }]) {
    // Parts that came since the reply was read are left for the next time.
    if (from_part !== next || next > tailFrom) break;
    for (const record of partsOf(bytes as Uint8Array)) {
      if (next++ < after) continue;
      left -= framedLength(record);
      if (records.length > 0 && (left < 0 || records.length >= READ_PARTS)) return records;
      records.push(record);
    }
  }
  return records;
}

/** The row that has the part after number `after`, and those that begin soon after it. */
function* selectRows(id: string, after: number): SqlCall<readonly Row[]> {
  const first = 'SELECT MAX(from_part) FROM reply_parts WHERE id = ? AND from_part <= ?';
  const some = `SELECT from_part, at, bytes FROM reply_parts WHERE id = ? AND from_part >= (${first})
    ORDER BY from_part LIMIT ${ROWS}`;
  return yield* ask(
    `SELECT from_part, bytes
    FROM (SELECT from_part, bytes, at - MIN(at) OVER () AS distance FROM (${some}) AS some_rows) AS near_rows
    WHERE distance <= ${READ_SIZE} ORDER BY from_part`,
    ...[id, id, after],
  );
}

function* metadataAt(id: string, part: number): SqlCall<Uint8Array | undefined> {
  const [found] = yield* ask(
    'SELECT bytes FROM reply_metadata WHERE id = ? AND part <= ? ORDER BY part DESC LIMIT 1',
    id,
    part,
  );
  return bytesOf(found?.['bytes']);
}

/** @throws {ProtocolError} `bad_message`. */
function partsOf(bytes: Uint8Array): readonly Uint8Array[] {
  try {
    return itemsOf(bytes, Infinity).items;
  } catch (cause) {
    throw malformed(cause);
  }
}

/** A copy, as a driver may give a view of all that it has received. */
function bytesOf(value: SqlValue | undefined): Uint8Array | undefined {
  return value instanceof Uint8Array ? new Uint8Array(value) : undefined;
}
