import type { ListedNode } from '../engine.js';
import { ask, type Dialect, type Row, type SqlCall } from './call.js';

/** What one node sees when it has renewed its lease. */
interface Renewed {
  readonly nodes: readonly ListedNode[];
  readonly now: number;
  /** The node was not there. */
  readonly isNew: boolean;
}

/** The table of leases. It may be lost: it is created whenever a database is opened. */
export const leaseTables = ({ createVolatile, whole }: Dialect): readonly string[] => [
  `${createVolatile} leases (incarnation TEXT PRIMARY KEY, record TEXT NOT NULL, ends_at ${whole} NOT NULL)`,
];

/** Leases of nodes. */
export class LeaseCalls {
  readonly #has = 'SELECT 1 AS one FROM leases WHERE incarnation = ?';
  readonly #withdraw = 'DELETE FROM leases WHERE incarnation = ?';
  readonly #put: string;
  readonly #sweep: string;
  readonly #all: string;
  readonly #one: string;

  constructor({ now }: Dialect) {
    const columns = `incarnation, record, ends_at - ${now} AS lease_ms`;
    this.#put = `INSERT INTO leases (incarnation, record, ends_at) VALUES (?, ?, ${now} + ?)
      ON CONFLICT (incarnation) DO UPDATE SET record = excluded.record, ends_at = excluded.ends_at`;
    this.#sweep = `DELETE FROM leases WHERE ends_at <= ${now}`;
    this.#all = `SELECT ${columns}, ${now} AS now_ms FROM leases WHERE ends_at > ${now}`;
    this.#one = `SELECT ${columns} FROM leases WHERE incarnation = ? AND ends_at > ${now}`;
  }

  *renew(incarnation: string, record: string, leaseMs: number): SqlCall<Renewed> {
    const isNew = (yield* ask(this.#has, incarnation)).length === 0;
    yield* ask(this.#put, incarnation, record, leaseMs);
    yield* ask(this.#sweep);
    // Its own lease is there.
    const rows = yield* ask(this.#all);
    return { nodes: rows.map(listed), now: Number(rows[0]?.['now_ms']), isNew };
  }

  /** @param by the node that asks, if it has announced itself. */
  *find(incarnation: string, by: string): SqlCall<ListedNode | 'forgotten' | undefined> {
    if (by !== '' && (yield* ask(this.#has, by)).length === 0) return 'forgotten';
    const [row] = yield* ask(this.#one, incarnation);
    return row && listed(row);
  }

  *withdraw(incarnation: string): SqlCall<void> {
    yield* ask(this.#withdraw, incarnation);
  }
}

const listed = ({ incarnation, record, lease_ms }: Row): ListedNode => ({
  incarnation: String(incarnation),
  record: String(record),
  leaseMs: Number(lease_ms),
});
