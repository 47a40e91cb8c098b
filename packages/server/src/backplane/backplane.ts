/**
 * Where the nodes of a cluster find each other. Create one with `memoryCluster()`, or with `redis(…)` of
 * `@parlance/server/redis`, and pass it as the option `engine`.
 *
 * A backplane knows which nodes live, by a lease that each node renews, which agents they have, and where sessions are that
 * have moved. It learns of no other session and of no message. Kept replies and the records of durable sessions are in it.
 */
export interface Backplane {
  /** What signs the tickets of nodes without a `secret` of `nodes()`; only nodes of one process can share it so. */
  readonly secret?: string | undefined;
  /** Opens the connection of one node. Does not wait until the engine can be reached. */
  connect(): BackplaneLink;
}

/**
 * The connection of one node. Each call rejects {@link ENGINE_TIMEOUT_MS} after it was sent at the latest, and as long after it
 * was made if it cannot be sent; for the first connection it waits twice as long. It may have been executed all the same, or may be executed later still. So each may be made
 * again, with the same result (ADR 99).
 */
export interface BackplaneLink {
  /**
   * Announces the node or renews its lease, and sweeps nodes whose leases are over.
   *
   * @param record what other nodes read of it.
   * @throws {ProtocolError} `unsupported` if the engine is unsuitable for good; `connection_failed` or `timeout` if it
   * may answer the next time.
   */
  renew(incarnation: string, record: string, leaseMs: number): Promise<NodeList>;
  /**
   * One node, if its lease is not over.
   *
   * @throws {ProtocolError} as {@link renew}; `connection_failed` also if the engine has forgotten this node, and so
   * perhaps the other one.
   */
  find(incarnation: string): Promise<ListedNode | undefined>;
  /**
   * Ends the lease of the node.
   *
   * @throws {ProtocolError} as {@link renew}.
   */
  withdraw(incarnation: string): Promise<void>;
  /**
   * Writes or removes the entry of an agent, in one step. If that is so already, nothing changes.
   *
   * @param entry `undefined` removes it.
   * @param expected whose entry this replaces: the holder of one, `null` for none, `undefined` for any.
   * @throws {ProtocolError} as {@link renew}.
   */
  putAgent(
    key: string,
    entry: AgentEntry | undefined,
    expected: string | null | undefined,
  ): Promise<AgentPut>;
  /**
   * The agents of all nodes.
   *
   * @throws {ProtocolError} as {@link renew}.
   */
  agents(): Promise<AgentTable>;
  /**
   * What has changed after a position, oldest first: at most {@link MAX_CHANGES}. Waits a while for the first change.
   *
   * @returns `undefined` if not all changes since then are known any more: the table has to be read again.
   * @throws {ProtocolError} as {@link renew}.
   */
  changes(after: number): Promise<readonly AgentEntryChange[] | undefined>;
  /**
   * Writes that `to` has a session, in one step, if nothing is written yet or what is written is `from` and `epoch`. The
   * epoch grows by one, so of two nodes that try this at once, one succeeds.
   *
   * @returns what is written then.
   * @throws {ProtocolError} as {@link renew}. It may have been written nevertheless.
   */
  moveSession(sessionId: string, move: SessionMove): Promise<SessionRecord>;
  /**
   * Where a session is that has moved.
   *
   * @throws {ProtocolError} as {@link renew}.
   */
  findSession(sessionId: string): Promise<SessionRecord | undefined>;
  /**
   * Keeps records of sessions that `owner` has, and writes those again that are gone.
   *
   * @param epochs by session ID.
   * @returns the sessions that another node has.
   * @throws {ProtocolError} as {@link renew}.
   */
  keepSessions(owner: string, epochs: ReadonlyMap<string, number>, ttlMs: number): Promise<readonly string[]>;
  /**
   * Writes fields of the record of a durable session, all or none, if it belongs to `owner` and `epoch` and has no write with
   * this number or a later one. So a write may be repeated, even when later ones are there.
   *
   * @returns `fenced` if another node has the session, `gone` if the engine has nothing of it, `behind` if it has forgotten
   * writes up to {@link SessionWrite.after}. Nothing is written then, nor if the record would need more bytes than it may have.
   * @throws {ProtocolError} as {@link renew}. It may have been written nevertheless.
   */
  writeSession(sessionId: string, write: SessionWrite): Promise<SessionWritten | NeedsRoom>;
  /**
   * Reserves bytes for the record of a session, out of those that its principal may have. A session that has more keeps them.
   *
   * @param account of the principal.
   * @returns bytes that the session has; `undefined` if the principal has no more, and nothing is changed.
   * @throws {ProtocolError} as {@link renew}. They may have been reserved nevertheless.
   */
  reserveRoom(account: string, sessionId: string, room: RoomRequest): Promise<number | undefined>;
  /**
   * Gives the bytes of a session back.
   *
   * @throws {ProtocolError} as {@link renew}.
   */
  releaseRoom(account: string, sessionId: string): Promise<void>;
  /**
   * Whether the engine forgets everything when its process ends while nodes go on.
   *
   * @throws {ProtocolError} as {@link renew}.
   */
  isVolatile(): Promise<boolean>;
  /**
   * Some fields of the record of a durable session, and which node has it; `undefined` if there is none.
   *
   * @throws {ProtocolError} as {@link renew}.
   */
  readSession(sessionId: string, names: readonly string[]): Promise<SessionReading | undefined>;
  /**
   * Takes a durable session from a node that has died: as {@link moveSession}, and reads all fields in the same step. The
   * next write has the number 1; until then this can be repeated.
   *
   * @returns `undefined` if something else is written than what is expected.
   * @throws {ProtocolError} as {@link renew}. It may have been written nevertheless.
   */
  claimSession(sessionId: string, move: SessionMove): Promise<SessionReading | undefined>;
  /**
   * Forgets a session, if it still belongs to `owner` and `epoch`.
   *
   * @throws {ProtocolError} as {@link renew}.
   */
  releaseSession(sessionId: string, owner: string, epoch: number): Promise<void>;
  /**
   * The key of which the cluster derives addresses of agents, which outlives its secrets and its nodes.
   *
   * @param candidate is the key if there is none yet.
   * @throws {ProtocolError} as {@link renew}.
   */
  shareKey(candidate: string): Promise<string>;
  /** Closes the connection, if it is the backplane's own. Never rejects. */
  close(): Promise<void>;
}

/** Which node has a session that has moved. */
export interface SessionRecord {
  readonly owner: string;
  /** How often it has moved. */
  readonly epoch: number;
}

export interface SessionMove {
  /** What is expected. */
  readonly from: string;
  readonly epoch: number;
  readonly to: string;
  /** When the record is forgotten, in milliseconds, unless it is kept. */
  readonly ttlMs: number;
}

export interface SessionWrite {
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
  /** Names have at least two characters, as those of one are the engine's own. */
  readonly set: ReadonlyMap<string, Uint8Array>;
  readonly remove: readonly string[];
  /** When the record is forgotten, in milliseconds, unless it is written or kept. */
  readonly ttlMs: number;
  /** Bytes that names and values of all fields may take; a write that makes them fewer is never refused. @default no bound */
  readonly maxBytes?: number | undefined;
  /** Whether a replica has to have the write as well. @default false */
  readonly isReplicated?: boolean | undefined;
}

/** Nothing was written, because the record would take so many bytes. */
export interface NeedsRoom {
  readonly needed: number;
}

export interface RoomRequest {
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

/** An agent, as the node that has its session describes it. */
export interface AgentEntry {
  /** The ID of its session, without spaces. */
  readonly holder: string;
  readonly record: string;
}

export interface AgentPut {
  /** Whether the entry is now as it was to be: the expected one was there, or this one already. */
  readonly isDone: boolean;
  /** The number of the change, or of the last one if there was none. */
  readonly position: number;
}

export interface AgentTable {
  readonly agents: ReadonlyMap<string, AgentEntry>;
  /** The number of the last change that it contains; 0 is none. */
  readonly position: number;
}

export interface AgentEntryChange {
  readonly position: number;
  readonly key: string;
  /** `undefined` if it was removed. */
  readonly entry: AgentEntry | undefined;
}

export interface NodeList {
  readonly nodes: readonly ListedNode[];
  /** The clock of the engine, in Unix milliseconds. */
  readonly now: number;
  /** The lease of the node was not over, but the engine did not know of it: it may have forgotten others as well. */
  readonly hasForgotten: boolean;
}

/** How long an engine may take for a call, in milliseconds. */
export const ENGINE_TIMEOUT_MS = 1_000;
/** Changes of agents that are remembered, about. */
export const MAX_LOG = 10_000;
/** Changes in one answer. */
export const MAX_CHANGES = 500;

/** An entry from `holder record`, as engines keep it. */
export function entryOf(text: string): AgentEntry | undefined {
  const at = text.indexOf(' ');
  return at > 0 ? { holder: text.slice(0, at), record: text.slice(at + 1) } : undefined;
}
