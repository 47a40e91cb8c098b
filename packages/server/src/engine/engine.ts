import type { ReplyLogs } from './logs/logs.js';
import type { EngineStore } from './store.js';

/**
 * Keeps state that outlives a process, or is shared by nodes: leases of nodes, records of sessions, bytes of
 * principals, tables, and the logs with readers. `redis(…)` of `@parlance/server/redis` creates one, `sqlite(…)` of
 * `@parlance/server/sqlite`, `postgres(…)` of `@parlance/server/postgres`, and `memoryCluster()` one for tests.
 *
 * Each of these is an interface of its own; a feature of the server asks only for those that it uses. Of a session that
 * is not recorded and has not moved, an engine learns only the ID and a hash of its first HELLO. It learns nothing of
 * messages.
 *
 * Every engine promises, for each call of each interface:
 *
 * - **Atomic.** A call changes all that it says or nothing, and no other call is seen in its middle.
 * - **In order.** Calls about one session, account, log or entry take effect one after the other, and each sees those that were answered
 *   before it was made, whichever node has made them.
 * - **Fenced.** An entry with an owner and an epoch is changed only by a call that names both. An epoch never goes
 *   down, except in an engine that has lost data: the interfaces say how each call tells that.
 * - **Kept.** When a call resolves, its effect outlives what the documentation of the engine says that it outlives.
 * - **Repeatable.** A call that was made again, because its answer was lost, has the same result.
 * - **Bounded in time.** A call rejects {@link ENGINE_TIMEOUT_MS} after it was sent at the latest, and as long after it was made if it
 *   cannot be sent; for the first connection it waits twice as long. It may have been executed all the same, or may be
 *   executed later still.
 *
 * Each call rejects with a `ProtocolError`: `unsupported` if the engine is unsuitable for good; `connection_failed` or `timeout` if
 * it may answer the next time.
 */
export interface Engine {
  /** Signs the tickets of nodes that are given no `secret`; only nodes of one process can share it this way. */
  readonly secret?: string | undefined;
  /** Opens the connection of one node. Does not wait until the engine can be reached. */
  connect(): EngineConnection;
  /**
   * Opens a connection of its own for logs, so that what is appended does not hold up leases.
   *
   * @default the engine has no logs
   */
  connectLogs?(): ReplyLogs;
  /**
   * Opens a connection of its own, over which all that is kept can be looked at.
   *
   * @default the engine cannot be copied, and tells no figures
   */
  connectStore?(): EngineStore;
}

/** The connection of one node. */
export interface EngineConnection extends Leases, SessionPlaces, SessionRecords, ByteAccounts {
  /** The table of this name, which all nodes share. */
  table(name: string): EngineTable;
  /** Closes the connection, if it is the engine's own. Never rejects, and may be called again. */
  close(): Promise<void>;
}

/**
 * Which nodes live. A lease is over when its time has passed at the engine, by the engine's clock; no other call ends it but
 * {@link withdraw}. Leases are the only thing that an engine may lose without harm: each node announces itself again.
 */
export interface Leases {
  /**
   * Announces the node or renews its lease, and sweeps nodes whose leases are over.
   *
   * @param record what other nodes read of it.
   * @param known the {@link NodeList.version} that this node has heard last. @default none
   */
  renew(incarnation: string, record: string, leaseMs: number, known?: string): Promise<NodeList>;
  /**
   * One node, if its lease is not over.
   *
   * @throws {ProtocolError} `connection_failed` also if the engine has forgotten this node, and so perhaps the other one.
   */
  find(incarnation: string): Promise<ListedNode | undefined>;
  /** Ends the lease of the node. */
  withdraw(incarnation: string): Promise<void>;
}

/** The node of each session that has moved, or that is recorded. The epoch grows by one with each move. */
export interface SessionPlaces {
  /**
   * Writes that `to` has a session, in one step, if nothing is written yet or what is written is `from` and `epoch`. So of
   * two nodes that try this at once, one succeeds.
   *
   * Nodes also say so which session a HELLO has begun: the key is made of a hash, and the session is in place of a node.
   *
   * @returns what is written then.
   */
  moveSession(sessionId: string, move: SessionMove): Promise<SessionRecord>;
  /** The node of a session that has moved. */
  findSession(sessionId: string): Promise<SessionRecord | undefined>;
  /**
   * Keeps records of sessions that `owner` has, and writes those again that are gone.
   *
   * @param epochs by session ID.
   * @returns the sessions that another node has.
   */
  keepSessions(owner: string, epochs: ReadonlyMap<string, number>, ttlMs: number): Promise<readonly string[]>;
  /** Forgets a session, if it still belongs to `owner` and `epoch`. */
  releaseSession(sessionId: string, owner: string, epoch: number): Promise<void>;
}

/**
 * Records of sessions that outlive their nodes: fields by name, which one owner writes in numbered steps. The numbers, not clocks, are
 * what makes it safe to write again, and what shows that an engine has lost something.
 */
export interface SessionRecords {
  /**
   * Writes fields of the record of a session, all or none, if it belongs to `owner` and `epoch` and has no write with
   * this number or a later one. So a write may be repeated, even when later ones are there.
   *
   * @returns `fenced` if another node has the session, `gone` if the engine has nothing of it, `behind` if it has forgotten
   * writes up to {@link SessionWrite.after}. Nothing is written then, nor if the record would need more bytes than it may have.
   */
  writeSession(sessionId: string, write: SessionWrite): Promise<SessionWritten | NeedsCapacity>;
  /** Some fields of the record of a session, and which node has it; `undefined` if there is none. */
  readSession(sessionId: string, names: readonly string[]): Promise<SessionReading | undefined>;
  /**
   * Takes a recorded session from a node that has died: as {@link SessionPlaces.moveSession}, and reads all fields in
   * the same step. The next write has the number 1; until then this can be repeated.
   *
   * @returns `undefined` if something else is written than what is expected.
   */
  claimSession(sessionId: string, move: SessionMove): Promise<SessionReading | undefined>;
  /** Whether the engine forgets everything when its process ends while nodes continue. */
  isVolatile(): Promise<boolean>;
  /**
   * Whether a replica could confirm a write.
   *
   * @default one could
   * @throws {ProtocolError} `unsupported` if none could.
   */
  checkReplica?(): Promise<void>;
}

/** How many bytes the records of each principal may take. */
export interface ByteAccounts {
  /**
   * Reserves bytes for the record of a session, out of those that its principal may have. A session that has more keeps them.
   *
   * @param account of the principal.
   * @returns bytes that the session has; `undefined` if the principal has no more, and nothing is changed.
   */
  reserveCapacity(account: string, sessionId: string, capacity: CapacityRequest): Promise<number | undefined>;
  /** Gives the bytes of a session back. */
  releaseCapacity(account: string, sessionId: string): Promise<void>;
}

/** Which node has a session that has moved. */
export interface SessionRecord {
  readonly owner: string;
  /** How often it has moved. */
  readonly epoch: number;
}

export interface SessionMove {
  /** The owner that the session is expected to have. */
  readonly from: string;
  readonly epoch: number;
  readonly to: string;
  /** When the record is forgotten, in milliseconds, unless it is kept. */
  readonly ttlMs: number;
}

/** The changes that a write makes to the fields of a record. */
export interface FieldChanges {
  /** Names have at least two characters, as those of one are the engine's own. */
  readonly set: Map<string, Uint8Array>;
  readonly remove: string[];
}

export interface SessionWrite extends FieldChanges {
  readonly owner: string;
  readonly epoch: number;
  /** From 1; each epoch begins again. */
  readonly number: number;
  /** The first write of a session, whose record does not exist before. */
  readonly isFirst: boolean;
  /** The number of the last write that was answered. @default 0 */
  readonly after?: number | undefined;
  /**
   * It has all fields, in place of those that are there: of an engine that is behind, has nothing, or has forgotten that this
   * node has claimed the session, as the epoch there is lower. @default false
   */
  readonly replaces?: boolean | undefined;
  /** When the record is forgotten, in milliseconds, unless it is written or kept. */
  readonly ttlMs: number;
  /** Bytes that names and values of all fields may take; a write that makes them fewer is never refused. @default no bound */
  readonly maxBytes?: number | undefined;
  /** Whether a replica has to have the write as well. @default false */
  readonly isReplicated?: boolean | undefined;
}

/** Nothing was written, because the record would take so many bytes. */
export interface NeedsCapacity {
  readonly needed: number;
}

export interface CapacityRequest {
  /** Bytes of this session. */
  readonly bytes: number;
  /** Bytes of all sessions of the account. */
  readonly maxBytes: number;
  /** When they are given back, in milliseconds, unless they are reserved again. */
  readonly ttlMs: number;
}

export type SessionWritten = 'written' | 'fenced' | 'gone' | 'behind';

/** The fields of a session; those that do not exist are left out. */
export interface SessionReading extends SessionRecord {
  readonly fields: ReadonlyMap<string, Uint8Array>;
}

/** A node whose lease is not over. */
export interface ListedNode {
  readonly incarnation: string;
  readonly record: string;
  /** Milliseconds that are left of its lease. */
  readonly leaseMs: number;
}

/** Entries by key, each of which has one holder, and their changes in one order for all nodes. */
export interface EngineTable {
  /**
   * Writes or removes an entry, in one step. If that is so already, nothing changes.
   *
   * @param entry `undefined` removes it.
   * @param expected whose entry this replaces: the holder of one, `null` for none, `undefined` for any.
   */
  put(key: string, entry: TableEntry | undefined, expected?: string | null): Promise<TablePut>;
  /** All entries. */
  read(): Promise<TableContent>;
  /**
   * The changes after a position, oldest first: at most {@link MAX_CHANGES}. Waits a while for the first change, about
   * {@link ENGINE_TIMEOUT_MS} at most.
   *
   * @returns `undefined` if not all changes since then are known any more: the table has to be read again.
   */
  changes(after: number): Promise<readonly TableChange[] | undefined>;
  /**
   * A key of all nodes, which outlives their secrets and them.
   *
   * @param candidate is the key if there is none yet.
   */
  shareKey(candidate: string): Promise<string>;
}

export interface TableEntry {
  /** Without spaces. */
  readonly holder: string;
  /** Anything that the holder says. */
  readonly record: string;
}

export interface TablePut {
  /** Whether the entry is now as it was to be: the expected one was there, or this one already. */
  readonly isDone: boolean;
  /** The number of the change, or of the last one if there was none. */
  readonly position: number;
}

export interface TableContent {
  readonly entries: ReadonlyMap<string, TableEntry>;
  /** The number of the last change that it contains; 0 is none. */
  readonly position: number;
}

export interface TableChange {
  readonly position: number;
  readonly key: string;
  /** `undefined` if it was removed. */
  readonly entry: TableEntry | undefined;
}

export interface NodeList {
  /** `undefined` if no node has come or gone and no record has changed since `known`, so that all of them still have leases. */
  readonly nodes: readonly ListedNode[] | undefined;
  /** Names the nodes and their records, but not their leases. An engine that has lost data never gives the same one to others. */
  readonly version: string;
  /** The clock of the engine, in Unix milliseconds. */
  readonly now: number;
  /** The lease of the node was not over, but the engine did not know of it: it may have forgotten others as well. */
  readonly hasForgotten: boolean;
}

/** How long an engine may take for a call, in milliseconds. */
export const ENGINE_TIMEOUT_MS = 1_000;
/** Changes of a table that are remembered, about. */
export const MAX_LOG = 10_000;
/** Changes in one answer. */
export const MAX_CHANGES = 500;

/** An entry from `holder record`, as engines keep it. */
export function entryOf(text: string): TableEntry | undefined {
  const at = text.indexOf(' ');
  return at > 0 ? { holder: text.slice(0, at), record: text.slice(at + 1) } : undefined;
}
