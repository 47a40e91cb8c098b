import { keyOf } from '../../base/keys.js';
import {
  type AppendOutcome,
  batchCharge,
  type ClaimOutcome,
  type EngineBounds,
  type EngineEnd,
  type EngineHead,
  endCharge,
  framedLength,
  headCharge,
  type KeepOutcome,
  NO_BYTES,
  type OpenOutcome,
  type ReplyBatch,
  type ReplyKey,
} from '../logs/logs.js';
import { headText } from '../logs/redis-head.js';
import { encodeItems, sourceText } from '../logs/redis-values.js';
import { ask, type Dialect, type Row, type SqlCall, type SqlValue } from './call.js';
import { digestOf, forget, forgetOver, lockReply } from './log-tables.js';

/** The calls of kept replies that change them. See `log-tables.ts` for what is there. */

/** Bytes of parts that stand in the row of their reply, and of those in a row of their own; one that is larger is alone. */
const TAIL_SIZE = 1024;
const ROW_SIZE = 4096;

export function* openReply(
  dialect: Dialect,
  head: EngineHead,
  bounds: EngineBounds,
  liveMs: number,
): SqlCall<OpenOutcome> {
  const { name, share, startedAt, by = '', epoch = 0, source } = head;
  const id = keyOf(head.id);
  const owner = digestOf(head.owner);
  const [found] = yield* ask(
    `SELECT ends_at, ${dialect.now} AS now FROM replies WHERE id = ?${dialect.forUpdate}`,
    id,
  );
  if (found !== undefined) {
    if (Number(found['ends_at']) > Number(found['now'])) return 'done';
    yield* forget(dialect, 'id = ?', id);
  }
  const charge = headCharge(head);
  const charged = yield* chargeOwner(dialect, owner, { bytes: charge, replies: 1 }, bounds);
  if (typeof charged === 'string') return charged;
  const nameKey = name === undefined ? null : digestOf(head.owner, name);
  yield* ask(
    `INSERT INTO replies (id, owner, name, head, rank, shared_at, source, writer, epoch, parts, size, charge, noted,
      written_at, ends_at, tail_from, tail)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?, 0, ${dialect.now}, ${dialect.now} + ?, 0, ?)`,
    ...[id, owner, nameKey, headText(head), charged, share === undefined ? null : Math.floor(startedAt)],
    ...[sourceText(source), by, epoch, charge, wholeMs(liveMs), NO_BYTES],
  );
  if (nameKey !== null)
    yield* ask(
      'INSERT INTO reply_names (name, id) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET id = excluded.id',
      nameKey,
      id,
    );
  return 'done';
}

export function* claimReply(
  dialect: Dialect,
  { id, epoch = 0 }: ReplyKey,
  by: string,
  liveMs: number,
): SqlCall<ClaimOutcome> {
  const found = yield* lockReply(dialect, id);
  if (found === undefined) return { outcome: 'gone' };
  const before = Number(found['epoch']);
  if (before > epoch || (before === epoch && found['writer'] !== by)) return { outcome: 'ended' };
  const why = found['why'];
  if (found['ended_at'] !== null && why !== 'orphaned') return { outcome: why === 'given_up' ? why : 'over' };
  const [parts, offset] = [Number(found['parts']), Number(found['size'])];
  yield* ask(
    `UPDATE replies SET writer = ?, epoch = ?, written_at = ${dialect.now}, ends_at = ${dialect.now} + ?,
      ended_at = NULL, ended_by = NULL, why = NULL, failure = NULL, end_metadata = NULL
    WHERE id = ?`,
    ...[by, epoch, wholeMs(liveMs), keyOf(id)],
  );
  return { outcome: 'done', parts, offset };
}

export function* appendParts(
  dialect: Dialect,
  batch: ReplyBatch,
  bounds: EngineBounds,
): SqlCall<AppendOutcome> {
  const { from, offset, records, metadata, epoch = 0 } = batch;
  const id = keyOf(batch.id);
  const found = yield* lockReply(dialect, batch.id);
  if (found === undefined) return 'gone';
  if (found['ended_at'] !== null || found['epoch'] !== epoch) return refusalOf(found);
  if (found['parts'] === from + records.length) return 'done';
  if (found['parts'] !== from || found['size'] !== offset) return 'behind';
  const more = batchCharge(batch);
  const charged = yield* charge(dialect, found, batch.owner, more, bounds);
  if (charged !== undefined) return charged;
  const { rows, tailFrom, tail } = placed(found, records, offset);
  yield* insert('reply_parts (id, from_part, at, bytes)', id, rows);
  yield* insert('reply_metadata (id, part, bytes)', id, metadata);
  yield* ask(
    `UPDATE replies SET parts = ?, size = ?, charge = charge + ?, noted = ?, written_at = ${dialect.now}, tail_from = ?,
      tail = ?
    WHERE id = ?`,
    from + records.length,
    records.reduce((sum, record) => sum + framedLength(record), offset),
    more,
    metadata.at(-1)?.[0] ?? Number(found['noted']),
    tailFrom,
    tail,
    id,
  );
  return 'done';
}

export function* endReply(
  dialect: Dialect,
  { owner, id, parts, by, end, ttlMs, epoch = 0, why }: EngineEnd,
  bounds: EngineBounds,
): SqlCall<{ readonly outcome: AppendOutcome /** Another node, to be told. */; readonly writer?: string }> {
  const found = yield* lockReply(dialect, id);
  if (found === undefined) return { outcome: 'gone' };
  if (found['epoch'] !== epoch) return { outcome: 'ended' };
  if (found['ended_at'] !== null) return { outcome: found['ended_by'] === by ? 'done' : refusalOf(found) };
  if (parts !== undefined && found['parts'] !== parts) return { outcome: 'behind' };
  const more = endCharge(end);
  const refusal = more === 0 ? undefined : yield* charge(dialect, found, owner, more, bounds);
  if (refusal !== undefined) return { outcome: refusal };
  const { at, failure = null, metadata = null } = end;
  yield* ask(
    `UPDATE replies SET ended_at = ?, ended_by = ?, why = ?, failure = ?, end_metadata = ?, charge = charge + ?,
      ends_at = ${dialect.now} + ?
    WHERE id = ?`,
    ...[Math.floor(at), by, why ?? null, failure, metadata, more, wholeMs(ttlMs), keyOf(id)],
  );
  const writer = String(found['writer']);
  return { outcome: 'done', ...(writer !== '' && writer !== by && { writer }) };
}

export function* keepReply(
  dialect: Dialect,
  { id, epoch = 0 }: ReplyKey,
  liveMs: number,
): SqlCall<KeepOutcome> {
  const found = yield* lockReply(dialect, id);
  if (found === undefined) return { outcome: 'gone' };
  if (found['ended_at'] !== null || found['epoch'] !== epoch) return { outcome: refusalOf(found) };
  yield* ask(
    `UPDATE replies SET written_at = ${dialect.now}, ends_at = ${dialect.now} + ? WHERE id = ?`,
    wholeMs(liveMs),
    keyOf(id),
  );
  const followedAt = found['followed_at'];
  const followedMs = followedAt === null ? Infinity : Number(found['now']) - Number(followedAt);
  return { outcome: 'done', followedMs };
}

/** The reply takes no more of this writer. */
function refusalOf(found: Row): 'ended' | 'stopped' {
  return found['ended_at'] !== null && found['why'] === 'stopped' ? 'stopped' : 'ended';
}

function* charge(
  dialect: Dialect,
  found: Row,
  owner: string,
  bytes: number,
  bounds: EngineBounds,
): SqlCall<'reply_too_large' | 'over_budget' | undefined> {
  if (Number(found['charge']) + bytes > bounds.maxReplyBytes) return 'reply_too_large';
  const charged = yield* chargeOwner(dialect, digestOf(owner), { bytes, replies: 0 }, bounds);
  return typeof charged === 'string' ? 'over_budget' : undefined;
}

/** The charge of an owner. */
interface Charge {
  readonly bytes: number;
  readonly replies: 0 | 1;
}

/**
 * Charges an owner. Replies that are over make room only if room is needed.
 *
 * @returns the owner's last rank, a new one for a new reply; or the bound that was met, and nothing is charged.
 */
function* chargeOwner(
  dialect: Dialect,
  owner: string,
  { bytes, replies }: Charge,
  { maxReplies, maxOwnerBytes }: EngineBounds,
): SqlCall<number | 'too_many_replies' | 'over_budget'> {
  // A parameter is a safe number.
  const maxBytes = Math.min(maxOwnerBytes, Number.MAX_SAFE_INTEGER);
  const most = Math.min(maxReplies, Number.MAX_SAFE_INTEGER);
  for (;;) {
    const [charged] = yield* ask(
      `UPDATE reply_owners SET bytes = bytes + ?, replies = replies + ?,
        rank = CASE WHEN rank < ${dialect.now} THEN ${dialect.now} ELSE rank + 1 END
      WHERE owner = ? AND bytes <= ? AND replies <= ? RETURNING rank`,
      ...[bytes, replies, owner, maxBytes - bytes],
      replies === 0 ? Number.MAX_SAFE_INTEGER : most - replies,
    );
    if (charged !== undefined) return Number(charged['rank']);
    const [held] = yield* ask(
      `SELECT bytes, replies FROM reply_owners WHERE owner = ?${dialect.forUpdate}`,
      owner,
    );
    const isOver = replies + Number(held?.['replies'] ?? 0) > maxReplies;
    const isFull = isOver || bytes + Number(held?.['bytes'] ?? 0) > maxOwnerBytes;
    if (!isFull) {
      // Another transaction has changed the owner since the update. The next round charges it.
      if (held === undefined)
        yield* ask('INSERT INTO reply_owners (owner, bytes, replies, rank) VALUES (?, 0, 0, 0)', owner);
    } else if (held === undefined || (yield* forgetOver(dialect, owner)) === 0)
      return isOver ? 'too_many_replies' : 'over_budget';
  }
}

/** Places new parts after those that are there: into rows, and the rest into the tail. */
function placed(found: Row, records: readonly Uint8Array[], offset: number) {
  let tail: Uint8Array[] = [found['tail'] as Uint8Array];
  let [tailFrom, length] = [Number(found['tail_from']), (found['tail'] as Uint8Array).length];
  let [part, at] = [Number(found['parts']), offset];
  const rows: (readonly [from: number, at: number, bytes: Uint8Array])[] = [];
  const close = (): void => {
    rows.push([tailFrom, at - length, Buffer.concat(tail)]);
    [tail, tailFrom, length] = [[], part, 0];
  };
  for (const record of records) {
    const framed = encodeItems([record]);
    if (length > 0 && length + framed.length > ROW_SIZE) close();
    tail.push(framed);
    length += framed.length;
    at += framed.length;
    part++;
  }
  if (length > TAIL_SIZE) close();
  return { rows, tailFrom, tail: Buffer.concat(tail) };
}

/** @param columns the first of which has the same value in all rows. */
function* insert(columns: string, key: string, rows: readonly (readonly SqlValue[])[]): SqlCall<void> {
  const [first] = rows;
  if (first === undefined) return;
  const row = `(?${', ?'.repeat(first.length)})`;
  const values = rows.flatMap((each) => [key, ...each]);
  yield* ask(`INSERT INTO ${columns} VALUES ${rows.map(() => row).join(', ')}`, ...values);
}

function wholeMs(ms: number): number {
  return Math.max(1, Math.ceil(ms));
}
