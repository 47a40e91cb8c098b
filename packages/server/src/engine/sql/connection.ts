import { ProtocolError } from '@parlance/protocol';
import type {
  CapacityRequest,
  EngineConnection,
  ListedNode,
  NeedsCapacity,
  NodeList,
  SessionMove,
  SessionReading,
  SessionRecord,
  SessionWrite,
  SessionWritten,
} from '../engine.js';
import { AccountCalls, type Reservation } from './accounts.js';
import type { SqlCall, SqlDatabase } from './call.js';
import { LeaseCalls } from './leases.js';
import { SessionCalls } from './sessions.js';
import { SqlTable, TableCalls } from './tables.js';

/** Sessions that are kept, or reserve bytes, in one transaction. */
const BATCH = 256;

interface Waiting extends Reservation {
  resolve(bytes: number | undefined): void;
  reject(error: unknown): void;
}

/** The connection of one node to an engine in SQL. */
export class SqlConnection implements EngineConnection {
  readonly #database: SqlDatabase;
  readonly #leases: LeaseCalls;
  readonly #sessions: SessionCalls;
  readonly #accounts: AccountCalls;
  readonly #tables: TableCalls;
  #announced: { readonly incarnation: string; readonly until: number } | undefined;
  /** Made in this tick of the event loop, by account and session. */
  #reservations = new Map<string, Waiting>();

  /** @param database is closed with the connection. */
  constructor(database: SqlDatabase) {
    const { dialect } = database;
    this.#database = database;
    this.#leases = new LeaseCalls(dialect);
    this.#sessions = new SessionCalls(dialect);
    this.#accounts = new AccountCalls(dialect);
    this.#tables = new TableCalls(dialect);
  }

  async renew(incarnation: string, record: string, leaseMs: number, known?: string): Promise<NodeList> {
    const present = this.#present;
    const renewed = await this.#run(() => this.#leases.renew(incarnation, record, leaseMs, known));
    this.#announced = { incarnation, until: performance.now() + leaseMs };
    const { nodes, version, now, isNew } = renewed;
    return { nodes, version, now, hasForgotten: isNew && present === incarnation };
  }

  async find(incarnation: string): Promise<ListedNode | undefined> {
    const found = await this.#run(() => this.#leases.find(incarnation, this.#present));
    if (found !== 'forgotten') return found;
    throw new ProtocolError('connection_failed', 'the engine has forgotten the nodes');
  }

  async withdraw(incarnation: string): Promise<void> {
    this.#announced = undefined;
    await this.#run(() => this.#leases.withdraw(incarnation));
  }

  table(name: string): SqlTable {
    return new SqlTable(name, this.#database, this.#tables);
  }

  moveSession(sessionId: string, move: SessionMove): Promise<SessionRecord> {
    return this.#run(() => this.#sessions.move(sessionId, move));
  }

  findSession(sessionId: string): Promise<SessionRecord | undefined> {
    return this.#run(() => this.#sessions.find(sessionId));
  }

  async keepSessions(
    owner: string,
    epochs: ReadonlyMap<string, number>,
    ttlMs: number,
  ): Promise<readonly string[]> {
    const all = [...epochs];
    const lost: string[] = [];
    for (let from = 0; from < all.length; from += BATCH) {
      const some = new Map(all.slice(from, from + BATCH));
      lost.push(...(await this.#run(() => this.#sessions.keep(owner, some, ttlMs))));
    }
    return lost;
  }

  releaseSession(sessionId: string, owner: string, epoch: number): Promise<void> {
    return this.#run(() => this.#sessions.release(sessionId, owner, epoch));
  }

  writeSession(sessionId: string, write: SessionWrite): Promise<SessionWritten | NeedsCapacity> {
    return this.#database.run(() => this.#sessions.write(sessionId, write), write.isReplicated);
  }

  readSession(sessionId: string, names: readonly string[]): Promise<SessionReading | undefined> {
    return this.#run(() => this.#sessions.read(sessionId, names));
  }

  claimSession(sessionId: string, move: SessionMove): Promise<SessionReading | undefined> {
    return this.#run(() => this.#sessions.claim(sessionId, move));
  }

  isVolatile(): Promise<boolean> {
    return this.#database.isVolatile();
  }

  async checkReplica(): Promise<void> {
    // The database refuses even an empty call that a replica has to confirm, if it has no replica.
    await this.#database.run(function* (): SqlCall<void> {}, true);
  }

  /** All sessions of a node renew what they have in one tick of the event loop, so that is written together. */
  reserveCapacity(
    account: string,
    sessionId: string,
    capacity: CapacityRequest,
  ): Promise<number | undefined> {
    const key = `${account} ${sessionId}`;
    if (this.#reservations.has(key) || this.#reservations.size === BATCH) this.#reserve();
    if (this.#reservations.size === 0) queueMicrotask(() => this.#reserve());
    return new Promise((resolve, reject) => {
      this.#reservations.set(key, { account, sessionId, capacity, resolve, reject });
    });
  }

  async releaseCapacity(account: string, sessionId: string): Promise<void> {
    this.#reserve();
    await this.#run(() => this.#accounts.release(account, sessionId));
  }

  async close(): Promise<void> {
    this.#reserve();
    await this.#database.close();
  }

  #reserve(): void {
    const all = [...this.#reservations.values()];
    if (all.length === 0) return;
    this.#reservations = new Map();
    this.#run(() => this.#accounts.reserve(all)).then(
      (reserved) => {
        for (const [i, { resolve }] of all.entries()) resolve(reserved[i]);
      },
      (error: unknown) => {
        for (const { reject } of all) reject(error);
      },
    );
  }

  #run<Result>(begin: () => SqlCall<Result>): Promise<Result> {
    return this.#database.run(begin);
  }

  /** The node that was announced over this connection and whose lease is not over, so that the engine has to know it. */
  get #present(): string {
    const { incarnation = '', until = 0 } = this.#announced ?? {};
    return performance.now() < until ? incarnation : '';
  }
}
