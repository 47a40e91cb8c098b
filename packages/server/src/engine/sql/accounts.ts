import type { CapacityRequest } from '../engine.js';
import { ask, type Dialect, type SqlCall } from './call.js';
import { forCount, listsOf, repeated, rowsOf } from './many.js';

/** Rows that one step of a sweep looks at. */
const SWEEP_ROWS = 500;

/** A session's reservation of bytes. */
export interface Reservation {
  readonly account: string;
  readonly sessionId: string;
  readonly capacity: CapacityRequest;
}

/** A row of `accounts` is what calls about one account wait for, in a database with several transactions at a time. */
export const accountTables = ({ whole, forUpdate, keyed }: Dialect): readonly string[] => [
  `CREATE TABLE rooms (account TEXT NOT NULL, session TEXT NOT NULL, bytes ${whole} NOT NULL,
    ends_at ${whole} NOT NULL, PRIMARY KEY (account, session))${keyed}`,
  ...(forUpdate === '' ? [] : [`CREATE TABLE accounts (id TEXT PRIMARY KEY, ends_at ${whole} NOT NULL)`]),
];

/** Bytes that the records of sessions of each principal have reserved. */
export class AccountCalls {
  readonly #lock: ((count: number) => string) | undefined;
  readonly #totals: (count: number) => string;
  readonly #own: (count: number) => string;
  readonly #put: (count: number) => string;
  readonly #over: string;
  readonly #removeOver: (count: number) => string;
  readonly #accountsOver: string | undefined;
  readonly #release = 'DELETE FROM rooms WHERE account = ? AND session = ?';

  constructor({ now, forUpdate }: Dialect) {
    if (forUpdate !== '') {
      this.#lock = forCount(
        (count) => `INSERT INTO accounts (id, ends_at) VALUES ${repeated(`(?, ${now} + ?)`, count)}
          ON CONFLICT (id) DO UPDATE SET ends_at = excluded.ends_at`,
      );
      this.#accountsOver = `SELECT id FROM accounts WHERE ends_at <= ${now} LIMIT ${SWEEP_ROWS}`;
    }
    this.#totals = forCount(
      (count) => `SELECT account, sum(bytes) AS bytes FROM rooms
        WHERE account IN (${repeated('?', count)}) AND ends_at > ${now} GROUP BY account`,
    );
    this.#own = forCount(
      (count) => `SELECT account, session, bytes FROM rooms
        WHERE (account, session) IN (VALUES ${repeated('(?, ?)', count)}) AND ends_at > ${now}`,
    );
    this.#put = forCount(
      (count) => `INSERT INTO rooms (account, session, bytes, ends_at)
        VALUES ${repeated(`(?, ?, ?, ${now} + ?)`, count)}
        ON CONFLICT (account, session) DO UPDATE SET bytes = excluded.bytes, ends_at = excluded.ends_at`,
    );
    this.#over = `SELECT account, session, ends_at - ${now} AS left_ms FROM rooms
      WHERE (account, session) > (?, ?) ORDER BY account, session LIMIT ${SWEEP_ROWS}`;
    this.#removeOver = forCount(
      (count) => `DELETE FROM rooms
        WHERE (account, session) IN (VALUES ${repeated('(?, ?)', count)}) AND ends_at <= ${now}`,
    );
  }

  /**
   * Reserves bytes for many sessions with few statements, one after the other.
   *
   * @param all at most one of each session.
   * @returns for each of them what it has, or `undefined`.
   */
  *reserve(all: readonly Reservation[]): SqlCall<readonly (number | undefined)[]> {
    const accounts = [...new Set(all.map(({ account }) => account))].toSorted();
    if (this.#lock !== undefined) {
      const ttlMs = Math.max(...all.map(({ capacity }) => capacity.ttlMs));
      for (const some of rowsOf(accounts))
        yield* ask(this.#lock(some.length), ...some.flatMap((account) => [account, ttlMs]));
    }
    const totals = new Map<string, number>();
    for (const some of listsOf(accounts))
      for (const { account, bytes } of yield* ask(this.#totals(some.length), ...some))
        totals.set(String(account), Number(bytes));
    const owns = new Map<string, number>();
    for (const some of rowsOf(all)) {
      const values = some.flatMap(({ account, sessionId }) => [account, sessionId]);
      for (const { account, session, bytes } of yield* ask(this.#own(some.length), ...values))
        owns.set(`${account} ${session}`, Number(bytes));
    }
    const reserved = all.map(({ account, sessionId, capacity: { bytes, maxBytes } }) => {
      const old = owns.get(`${account} ${sessionId}`) ?? 0;
      const total = totals.get(account) ?? 0;
      if (bytes > old && total - old + bytes > maxBytes) return undefined;
      const now = Math.max(old, bytes);
      totals.set(account, total - old + now);
      return now;
    });
    const granted = all.flatMap((each, i) => {
      const bytes = reserved[i];
      return bytes === undefined ? [] : [[each.account, each.sessionId, bytes, each.capacity.ttlMs] as const];
    });
    for (const some of rowsOf(granted)) yield* ask(this.#put(some.length), ...some.flat());
    return reserved;
  }

  *release(account: string, sessionId: string): SqlCall<void> {
    yield* ask(this.#release, account, sessionId);
  }

  /**
   * Gives back some of those whose time is over.
   *
   * @param after where the last step has ended, as `account session`, `' '` at first.
   * @returns where this one has, `' '` after the last one.
   */
  *sweep(after: string): SqlCall<string> {
    const accounts = this.#accountsOver;
    // A call that only reads needs no transaction.
    if (accounts !== undefined && (yield* ask(accounts)).length > 0)
      yield* ask(`DELETE FROM accounts WHERE id IN (${accounts})`);
    const at = after.indexOf(' ');
    const rows = yield* ask(this.#over, after.slice(0, at), after.slice(at + 1));
    for (const some of rowsOf(rows.filter(({ left_ms }) => Number(left_ms) <= 0))) {
      const names = some.flatMap(({ account, session }) => [String(account), String(session)]);
      yield* ask(this.#removeOver(some.length), ...names);
    }
    const last = rows.at(-1);
    return rows.length < SWEEP_ROWS ? ' ' : `${last?.['account']} ${last?.['session']}`;
  }
}
