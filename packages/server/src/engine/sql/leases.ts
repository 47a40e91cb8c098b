import type { ListedNode } from '../engine.js';
import { ask, type Dialect, type Row, type SqlCall } from './call.js';

/** The state that a node sees when it has renewed its lease. */
interface Renewed {
  readonly nodes: readonly ListedNode[] | undefined;
  readonly version: string;
  readonly now: number;
  /** The node was not there. */
  readonly isNew: boolean;
}

/** The table of leases. It may be lost: it is created whenever a database is opened. */
export const leaseTables = ({ createVolatile, whole }: Dialect): readonly string[] => [
  `${createVolatile} leases (incarnation TEXT PRIMARY KEY, record TEXT NOT NULL,
    ends_at ${whole} NOT NULL, changed_at ${whole} NOT NULL)`,
];

/** Leases of nodes. */
export class LeaseCalls {
  readonly #has = 'SELECT 1 AS one FROM leases WHERE incarnation = ?';
  readonly #withdraw = 'DELETE FROM leases WHERE incarnation = ?';
  readonly #put: string;
  readonly #sweep: string;
  readonly #all: string;
  readonly #one: string;
  readonly #state: string;

  constructor({ now }: Dialect) {
    const columns = `incarnation, record, ends_at - ${now} AS lease_ms`;
    // The time at which a record has changed grows with each change, also within one millisecond.
    this.#put = `INSERT INTO leases (incarnation, record, ends_at, changed_at) VALUES (?, ?, ${now} + ?, ${now})
      ON CONFLICT (incarnation) DO UPDATE SET record = excluded.record, ends_at = excluded.ends_at,
      changed_at = CASE WHEN leases.record = excluded.record THEN leases.changed_at
        WHEN excluded.changed_at > leases.changed_at THEN excluded.changed_at ELSE leases.changed_at + 1 END`;
    this.#sweep = `DELETE FROM leases WHERE ends_at <= ${now}`;
    this.#all = `SELECT ${columns} FROM leases WHERE ends_at > ${now}`;
    this.#one = `SELECT ${columns} FROM leases WHERE incarnation = ? AND ends_at > ${now}`;
    this.#state = `SELECT ${now} AS now_ms, CAST(COUNT(*) AS TEXT) AS count,
      CAST(COALESCE(SUM(changed_at), 0) AS TEXT) AS changes FROM leases WHERE ends_at > ${now}`;
  }

  *renew(incarnation: string, record: string, leaseMs: number, known?: string): SqlCall<Renewed> {
    const isNew = (yield* ask(this.#has, incarnation)).length === 0;
    yield* ask(this.#put, incarnation, record, leaseMs);
    yield* ask(this.#sweep);
    const [state] = yield* ask(this.#state);
    const version = `${state?.['count']}.${state?.['changes']}`;
    const nodes = version === known && !isNew ? undefined : (yield* ask(this.#all)).map(listed);
    return { nodes, version, now: Number(state?.['now_ms']), isNew };
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
