/**
 * Where the nodes of a cluster find each other. Create one with `memoryCluster()`, or with `redis(…)` of
 * `@parlance/server/redis`, and pass it as the option `cluster`.
 *
 * A backplane knows which nodes live, by a lease that each node renews. It learns of no session and of no message.
 */
export interface Backplane {
  /** What signs the tickets of nodes without an option `node.secret`; only nodes of one process can share it so. */
  readonly secret?: string | undefined;
  /** Opens the connection of one node. Does not wait until the engine can be reached. */
  connect(): BackplaneLink;
}

/**
 * The connection of one node. Each call rejects after {@link ENGINE_TIMEOUT_MS} at the latest, or, while the connection is
 * opened for the first time, when that fails. It can be made again.
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
   * @throws {ProtocolError} as {@link renew}.
   */
  find(incarnation: string): Promise<ListedNode | undefined>;
  /**
   * Ends the lease of the node.
   *
   * @throws {ProtocolError} as {@link renew}.
   */
  withdraw(incarnation: string): Promise<void>;
  /** Closes the connection, if it is the backplane's own. Never rejects. */
  close(): Promise<void>;
}

/** A node whose lease is not over. */
export interface ListedNode {
  readonly incarnation: string;
  readonly record: string;
  /** Milliseconds that are left of its lease. */
  readonly leaseMs: number;
}

export interface NodeList {
  readonly nodes: readonly ListedNode[];
  /** The clock of the engine, in Unix milliseconds. */
  readonly now: number;
}

/** How long an engine may take for a call, in milliseconds. */
export const ENGINE_TIMEOUT_MS = 1_000;
