import { textsOf } from '../../base/keys.js';
import { again } from '../again.js';
import { readHead } from '../logs/redis-head.js';
import { writerOf } from '../logs/redis-values.js';
import type { EngineItem, EngineStore, ReplyItem } from '../store.js';
import { ask, type Row, type SqlCall, type SqlDatabase, type SqlValue } from './call.js';
import { fieldsIn } from './sessions.js';

/** Rows that one statement reads, of those that are small, and of heads of replies. */
const ROWS = 500;
const HEADS = 50;

/** All that is in a database, which is closed with it. */
export function sqlStore(database: SqlDatabase): EngineStore {
  const { dialect } = database;
  const { now } = dialect;
  const lives = `ends_at > ${now}`;

  const readOnce = (text: string, ...values: readonly SqlValue[]): Promise<readonly Row[]> =>
    database.run((): SqlCall<readonly Row[]> => ask(text, ...values));
  const read: typeof readOnce = (...statement) => again(() => readOnce(...statement));

  /** All rows, some at a time, in the order of the columns of a key. */
  async function* pages(
    { columns, from, where = '1 = 1', key, limit = ROWS }: Pages,
    start: readonly SqlValue[],
  ): AsyncGenerator<Row> {
    const text = `SELECT ${columns} FROM ${from} WHERE (${key.join(', ')}) > (${key.map(() => '?').join(', ')}) AND ${where}
      ORDER BY ${key.join(', ')} LIMIT ${limit}`;
    for (let after = start; ; ) {
      const rows = await read(text, ...after);
      yield* rows;
      const last = rows.at(-1);
      if (last === undefined || rows.length < limit) return;
      after = key.map((name) => last[name] as SqlValue);
    }
  }

  async function* sessions(): AsyncGenerator<EngineItem> {
    const columns = `id, owner, epoch, written, ends_at - ${now} AS left_ms`;
    const where = `owner <> '' AND bytes > 0 AND ${lives}`;
    for await (const row of pages({ columns, from: 'sessions', where, key: ['id'] }, [''])) {
      const id = String(row['id']);
      const fields = fieldsIn(await read('SELECT name, value FROM fields WHERE session = ?', id));
      yield {
        ...{ kind: 'session', id, owner: String(row['owner']), epoch: Number(row['epoch']) },
        ...{ number: Number(row['written']), fields, ttlMs: Number(row['left_ms']) },
      };
    }
  }

  async function* capacities(): AsyncGenerator<EngineItem> {
    const columns = `account, session, bytes, ends_at - ${now} AS left_ms`;
    const rows = pages({ columns, from: 'rooms', where: lives, key: ['account', 'session'] }, ['', '']);
    for await (const { account, session, bytes, left_ms } of rows) {
      const reserved = { bytes: Number(bytes), ttlMs: Number(left_ms) };
      yield { kind: 'capacity', account: String(account), session: String(session), ...reserved };
    }
  }

  async function* tables(): AsyncGenerator<EngineItem> {
    for (const { name, shared_key } of await read('SELECT name, shared_key FROM tables ORDER BY name'))
      if (shared_key !== null) yield { kind: 'key', table: String(name), key: String(shared_key) };
    const columns = 'name, entry, holder, record';
    const rows = pages({ columns, from: 'entries', key: ['name', 'entry'] }, ['', '']);
    for await (const { name, entry, holder, record } of rows) {
      const held = { holder: String(holder), record: String(record) };
      yield { kind: 'entry', table: String(name), key: String(entry), entry: held };
    }
  }

  async function* replies(): AsyncGenerator<EngineItem> {
    const columns = `id, owner, rank, head, source, writer, epoch, ended_at, ended_by, why, failure, end_metadata,
      ends_at - ${now} AS left_ms, CASE WHEN id IN (SELECT id FROM reply_names) THEN 1 ELSE 0 END AS is_named`;
    const rows = { columns, from: 'replies', where: lives, key: ['owner', 'rank'], limit: HEADS };
    for await (const row of pages(rows, ['', -1])) {
      const noted = await read(
        'SELECT part, bytes FROM reply_metadata WHERE id = ? ORDER BY part',
        row['id'] as SqlValue,
      );
      yield replyOf(row, noted);
    }
  }

  async function* proofs(): AsyncGenerator<EngineItem> {
    const columns = `session, owner, hashes, ends_at - ${now} AS left_ms`;
    const rows = pages({ columns, from: 'reply_proofs', where: lives, key: ['session'] }, ['']);
    for await (const { session, owner, hashes, left_ms } of rows)
      yield {
        kind: 'proof',
        session: textsOf(String(session))[0] ?? '',
        owner: String(JSON.parse(String(owner))),
        hashes: String(hashes).split(' '),
        ttlMs: Number(left_ms),
      };
  }

  return {
    async living() {
      const rows = await readOnce(`SELECT incarnation FROM leases WHERE ${lives}`);
      return rows.map(({ incarnation }) => String(incarnation));
    },
    async size() {
      const [row] = await readOnce(dialect.size);
      return Number(row?.['bytes']);
    },
    async *exports() {
      yield* sessions();
      yield* capacities();
      yield* tables();
      yield* replies();
      yield* proofs();
    },
    close: () => database.close(),
  };
}

interface Pages {
  readonly columns: string;
  readonly from: string;
  readonly where?: string;
  readonly key: readonly string[];
  readonly limit?: number;
}

/** @throws {ProtocolError} `bad_message` if no node has written it so. */
function replyOf(row: Row, noted: readonly Row[]): ReplyItem {
  const { by, epoch, source } = writerOf([0, row['writer'], row['epoch'], row['source']]);
  const at = row['ended_at'];
  const why = row['why'];
  return {
    kind: 'reply',
    head: { ...readHead(Buffer.from(String(row['head']))), by, epoch, source },
    metadata: noted.map(({ part, bytes }) => [Number(part), bytesOf(bytes) ?? new Uint8Array(0)] as const),
    end:
      at === null
        ? undefined
        : {
            by: String(row['ended_by']),
            ...(why !== null && { why: String(why) as 'orphaned' }),
            end: { at: Number(at), failure: bytesOf(row['failure']), metadata: bytesOf(row['end_metadata']) },
          },
    isNamed: row['is_named'] === 1,
    ttlMs: Number(row['left_ms']),
  };
}

const bytesOf = (value: SqlValue | undefined): Uint8Array | undefined =>
  value instanceof Uint8Array ? new Uint8Array(value) : undefined;
