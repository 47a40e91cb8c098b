import type {
  NeedsCapacity,
  SessionMove,
  SessionReading,
  SessionRecord,
  SessionWrite,
  SessionWritten,
} from '../engine.js';
import { isOf, RELEASED_MS, refusalOf } from '../session-rules.js';
import { ask, type Dialect, type Row, type SqlCall } from './call.js';
import { amongOf, batchesOf, forCount, listsOf, repeated, rowsOf } from './many.js';

/** Rows that one step of a sweep looks at. */
const SWEEP_ROWS = 500;

interface Entry extends SessionRecord {
  /** The number of the last write; 0 before the first of a node. */
  readonly written: number;
  /** Names and values of the fields. */
  readonly bytes: number;
}

/** Follows the rows of new fields. */
const REPLACED = 'ON CONFLICT (session, name) DO UPDATE SET value = excluded.value';

/** A name and a value. */
type Field = readonly [name: Buffer, value: Uint8Array];

/**
 * A session is a row: the node that has it (`''` if it is known to be over), how often it has moved, the number of the last
 * write of its node, and the bytes of its fields. Names of fields are bytes, as texts of some databases cannot have every character.
 */
export const sessionTables = ({ bytes, whole, keyed }: Dialect): readonly string[] => [
  `CREATE TABLE sessions (id TEXT PRIMARY KEY, owner TEXT NOT NULL, epoch ${whole} NOT NULL,
    written ${whole} NOT NULL, bytes ${whole} NOT NULL, ends_at ${whole} NOT NULL)${keyed}`,
  `CREATE TABLE fields (session TEXT NOT NULL, name ${bytes} NOT NULL, value ${bytes} NOT NULL,
    PRIMARY KEY (session, name))${keyed}`,
];

/** The nodes of sessions that have moved, and the records of others. */
export class SessionCalls {
  readonly #dialect: Dialect;
  readonly #record: string;
  readonly #entry: string;
  readonly #insert: string;
  readonly #update: string;
  readonly #prolong: string;
  readonly #entries: (count: number) => string;
  readonly #keep: (count: number) => string;
  readonly #add: (isOne: string) => string;
  readonly #again: (count: number) => string;
  readonly #over: string;
  readonly #allFields = 'SELECT name, value FROM fields WHERE session = ?';
  readonly #remove = forCount((count) => `DELETE FROM sessions WHERE id IN (${repeated('?', count)})`);
  readonly #removeFields = forCount(
    (count) => `DELETE FROM fields WHERE session IN (${repeated('?', count)})`,
  );
  readonly #setFields = forCount(
    (count) => `INSERT INTO fields (session, name, value) VALUES ${repeated('(?, ?, ?)', count)} ${REPLACED}`,
  );

  constructor(dialect: Dialect) {
    const { now, forUpdate } = dialect;
    this.#dialect = dialect;
    this.#record = `SELECT owner, epoch FROM sessions WHERE id = ? AND ends_at > ${now}`;
    const columns = `owner, epoch, written, bytes, ends_at - ${now} AS left_ms`;
    this.#entry = `SELECT ${columns} FROM sessions WHERE id = ?${forUpdate}`;
    this.#insert = `INSERT INTO sessions (id, owner, epoch, written, bytes, ends_at)
      VALUES (?, ?, ?, ?, ?, ${now} + ?)`;
    this.#update = `UPDATE sessions SET owner = ?, epoch = ?, written = ?, bytes = ?, ends_at = ${now} + ? WHERE id = ?`;
    this.#prolong = `UPDATE sessions SET ends_at = ${now} + ? WHERE id = ?`;
    this.#entries = forCount(
      (count) => `SELECT id, ${columns} FROM sessions WHERE id IN (${repeated('?', count)})
        ORDER BY id${forUpdate}`,
    );
    this.#keep = forCount(
      (count) => `UPDATE sessions SET ends_at = ${now} + ? WHERE id IN (${repeated('?', count)})`,
    );
    this.#add = forCount(
      (isOne) => `UPDATE sessions SET written = ?, bytes = bytes + ?, ends_at = ${now} + ?
        WHERE id = ? AND owner = ? AND epoch = ? AND ends_at > ${now} AND written < ? AND written >= ?
          AND (written > 0 OR bytes > 0) AND bytes <= ?
          AND NOT EXISTS (SELECT 1 FROM fields WHERE session = ? AND name ${isOne})
        RETURNING id`,
    );
    this.#again = forCount(
      (count) => `INSERT INTO sessions (id, owner, epoch, written, bytes, ends_at)
        VALUES ${repeated(`(?, ?, ?, 0, 0, ${now} + ?)`, count)}`,
    );
    this.#over = `SELECT id, ends_at - ${now} AS left_ms FROM sessions WHERE id > ? ORDER BY id LIMIT ${SWEEP_ROWS}`;
  }

  *move(sessionId: string, { from, epoch, to, ttlMs }: SessionMove): SqlCall<SessionRecord> {
    const found = yield* this.#find(sessionId);
    const isHeld = found !== undefined && found.owner !== '';
    if (isHeld && !isOf(found, from, epoch)) return { owner: found.owner, epoch: found.epoch };
    return yield* this.#put(sessionId, found, { owner: to, epoch: epoch + 1 }, ttlMs);
  }

  *find(sessionId: string): SqlCall<SessionRecord | undefined> {
    const [row] = yield* ask(this.#record, sessionId);
    return row && row['owner'] !== '' ? recordOf(row) : undefined;
  }

  /** Some sessions of one node; as many as stand in one list cost three statements. */
  *keep(owner: string, epochs: ReadonlyMap<string, number>, ttlMs: number): SqlCall<readonly string[]> {
    const lost: string[] = [];
    for (const ids of listsOf([...epochs.keys()].toSorted())) {
      const rows = yield* ask(this.#entries(ids.length), ...ids);
      const found = new Map(rows.map((row) => [String(row['id']), row]));
      const kept: string[] = [];
      const absent: string[] = [];
      for (const id of new Set(ids)) {
        const row = found.get(id);
        if (row === undefined || isOver(row)) absent.push(id);
        else if (isOf(recordOf(row), owner, epochs.get(id) ?? 0)) kept.push(id);
        else lost.push(id);
      }
      yield* this.#forget(...rows.filter(isOver).map(({ id }) => String(id)));
      for (const some of listsOf(kept)) yield* ask(this.#keep(some.length), ttlMs, ...some);
      for (const some of rowsOf(absent)) {
        const values = some.flatMap((id) => [id, owner, epochs.get(id) ?? 0, ttlMs]);
        yield* ask(this.#again(some.length), ...values);
      }
    }
    return lost;
  }

  *write(sessionId: string, write: SessionWrite): SqlCall<SessionWritten | NeedsCapacity> {
    const { owner, epoch, number, ttlMs, maxBytes = Infinity } = write;
    const set = [...write.set].map(([name, value]) => [Buffer.from(name), value] as const);
    if (yield* this.#hasAdded(sessionId, write, set)) return 'written';
    const found = yield* this.#find(sessionId);
    const refusal = refusalOf(found, write);
    if (refusal !== undefined) return refusal;
    const isRepeated = found !== undefined && isOf(found, owner, epoch) && found.written >= number;
    if (isRepeated) {
      yield* ask(this.#prolong, ttlMs, sessionId);
      return 'written';
    }
    const isReplaced = write.replaces === true && found !== undefined;
    const before = isReplaced ? 0 : (found?.bytes ?? 0);
    const remove = write.remove.map((name) => Buffer.from(name));
    let needed = before + bytesOf(set);
    if (before > 0) needed -= yield* this.#takenBy(sessionId, [...set.map(([name]) => name), ...remove]);
    if (needed > before && needed > maxBytes) return { needed };
    if (isReplaced) yield* ask(this.#removeFields(1), sessionId);
    if (found === undefined) yield* ask(this.#insert, sessionId, owner, epoch, number, needed, ttlMs);
    else yield* ask(this.#update, owner, epoch, number, needed, ttlMs, sessionId);
    yield* this.#set(sessionId, set);
    if (before > 0)
      for (const [isOne, names] of amongOf(this.#dialect, remove))
        yield* ask(`DELETE FROM fields WHERE session = ? AND name ${isOne}`, sessionId, ...names);
    return 'written';
  }

  /**
   * Writes a commit that only adds fields, as most do, with two statements.
   *
   * @returns whether it was one, and nothing was in its way.
   */
  *#hasAdded(sessionId: string, write: SessionWrite, set: readonly Field[]): SqlCall<boolean> {
    const { owner, epoch, number, after = 0, ttlMs, maxBytes = Number.MAX_SAFE_INTEGER } = write;
    if (write.isFirst || write.replaces === true || write.remove.length > 0) return false;
    const [among, ...more] = amongOf(
      this.#dialect,
      set.map(([name]) => name),
    );
    if (among === undefined || more.length > 0) return false;
    const [isOne, names] = among;
    const added = bytesOf(set);
    const head = [number, added, ttlMs, sessionId, owner, epoch, number, after, maxBytes - added] as const;
    const [row] = yield* ask(this.#add(isOne), ...head, sessionId, ...names);
    if (row === undefined) return false;
    yield* this.#set(sessionId, set);
    return true;
  }

  *#set(sessionId: string, fields: readonly Field[]): SqlCall<void> {
    const { lists } = this.#dialect;
    if (lists !== undefined && fields.length > 1) {
      const text = `INSERT INTO fields (session, name, value) SELECT ?, ${lists.rows}, ${lists.rows} ${REPLACED}`;
      for (const some of batchesOf(fields)) {
        const [names, values] = [some.map(([name]) => name), some.map(([, value]) => value)];
        yield* ask(text, sessionId, lists.of(names), lists.of(values));
      }
      return;
    }
    for (const some of rowsOf(fields)) {
      const values = some.flatMap(([name, value]) => [sessionId, name, value]);
      yield* ask(this.#setFields(some.length), ...values);
    }
  }

  *read(sessionId: string, names: readonly string[]): SqlCall<SessionReading | undefined> {
    const record = yield* this.find(sessionId);
    if (record === undefined) return undefined;
    const fields = new Map<string, Uint8Array>();
    const bytes = names.map((name) => Buffer.from(name));
    for (const [isOne, some] of amongOf(this.#dialect, bytes))
      addFields(fields, yield* ask(`${this.#allFields} AND name ${isOne}`, sessionId, ...some));
    return { ...record, fields };
  }

  *claim(sessionId: string, { from, epoch, to, ttlMs }: SessionMove): SqlCall<SessionReading | undefined> {
    const found = yield* this.#find(sessionId);
    if (found === undefined) return undefined;
    const isRepeated = isOf(found, to, epoch + 1) && found.written === 0;
    if (!isRepeated && !isOf(found, from, epoch)) return undefined;
    const record = yield* this.#put(sessionId, found, { owner: to, epoch: epoch + 1 }, ttlMs);
    return { ...record, fields: fieldsIn(yield* ask(this.#allFields, sessionId)) };
  }

  *release(sessionId: string, owner: string, epoch: number): SqlCall<void> {
    const found = yield* this.#find(sessionId);
    if (found === undefined || !isOf(found, owner, epoch)) return;
    // A node that stood still must not take it for lost.
    const isRemembered = epoch > 0 && found.bytes > 0;
    if (!isRemembered) return yield* this.#forget(sessionId);
    yield* ask(this.#removeFields(1), sessionId);
    yield* ask(this.#update, '', epoch, 0, 0, RELEASED_MS, sessionId);
  }

  /**
   * Forgets some of those that are over.
   *
   * @param after where the last step has ended, `''` at first.
   * @returns where this one has, `''` after the last session.
   */
  *sweep(after: string): SqlCall<string> {
    const rows = yield* ask(this.#over, after);
    const over = rows.filter(isOver).map(({ id }) => String(id));
    for (const some of listsOf(over)) {
      // Locked now. One that was written or claimed since it was looked at stays.
      const found = yield* ask(this.#entries(some.length), ...some);
      yield* this.#forget(...found.filter(isOver).map(({ id }) => String(id)));
    }
    return rows.length < SWEEP_ROWS ? '' : String(rows.at(-1)?.['id']);
  }

  /** To change it. One whose time is over is forgotten. */
  *#find(sessionId: string): SqlCall<Entry | undefined> {
    const [row] = yield* ask(this.#entry, sessionId);
    if (row === undefined) return undefined;
    if (!isOver(row))
      return { ...recordOf(row), written: Number(row['written']), bytes: Number(row['bytes']) };
    yield* this.#forget(sessionId);
    return undefined;
  }

  *#put(sessionId: string, found: Entry | undefined, record: SessionRecord, ttlMs: number) {
    const { owner, epoch } = record;
    if (found === undefined) yield* ask(this.#insert, sessionId, owner, epoch, 0, 0, ttlMs);
    else yield* ask(this.#update, owner, epoch, 0, found.bytes, ttlMs, sessionId);
    return record;
  }

  *#forget(...sessionIds: readonly string[]): SqlCall<void> {
    for (const some of listsOf(sessionIds)) {
      yield* ask(this.#removeFields(some.length), ...some);
      yield* ask(this.#remove(some.length), ...some);
    }
  }

  /** Bytes that fields of these names have. A name may come twice. */
  *#takenBy(sessionId: string, names: readonly Buffer[]): SqlCall<number> {
    let taken = 0;
    for (const [isOne, some] of amongOf(this.#dialect, names)) {
      const sum = `SELECT coalesce(sum(length(name) + length(value)), 0) AS bytes FROM fields
        WHERE session = ? AND name ${isOne}`;
      const [row] = yield* ask(sum, sessionId, ...some);
      taken += Number(row?.['bytes']);
    }
    return taken;
  }
}

const bytesOf = (fields: readonly Field[]): number =>
  fields.reduce((sum, [name, value]) => sum + name.length + value.length, 0);

/** The fields of rows that have `name` and `value`. */
export function fieldsIn(rows: readonly Row[]): Map<string, Uint8Array> {
  const fields = new Map<string, Uint8Array>();
  addFields(fields, rows);
  return fields;
}

function addFields(fields: Map<string, Uint8Array>, rows: readonly Row[]): void {
  for (const { name, value } of rows)
    if (name instanceof Uint8Array && value instanceof Uint8Array) fields.set(textOf(name), value);
}

const textOf = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();

const recordOf = ({ owner, epoch }: Row): SessionRecord => ({ owner: String(owner), epoch: Number(epoch) });

const isOver = ({ left_ms }: Row): boolean => Number(left_ms) <= 0;
