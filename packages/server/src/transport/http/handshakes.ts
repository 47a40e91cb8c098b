/** Connections of all addresses that have no session yet. */
export const MAX_HANDSHAKES = 10_000;
/** Connections without a session yet that other nodes pass on, which count them by address. */
export const MAX_PROXIED = 4_096;

/**
 * Connections without a session yet. Each costs memory, and a client can open one without even sending HELLO. So their
 * number is limited, for each address and in total; beyond that, the oldest connection that has not sent HELLO is
 * evicted. A connection that has sent HELLO waits for the server and is never evicted; if all of them do, the new
 * connection is closed instead.
 */
export class Handshakes<Connection extends object> {
  readonly #maxPerAddress: number;
  readonly #max: number;
  /** Connections that have not sent HELLO, oldest first, with their addresses. */
  readonly #silent = new Map<Connection, string>();
  readonly #deciding = new Map<Connection, string>();
  readonly #byAddress = new Map<string, Group<Connection>>();

  constructor(maxPerAddress: number, max: number) {
    this.#maxPerAddress = maxPerAddress;
    this.#max = max;
  }

  get size(): number {
    return this.#silent.size + this.#deciding.size;
  }

  *[Symbol.iterator](): Iterator<Connection> {
    yield* this.#silent.keys();
    yield* this.#deciding.keys();
  }

  /**
   * @param most connections of `address`. @default what the constructor says
   * @returns the connection to close, if any: an older one, or `connection` itself.
   */
  add(connection: Connection, address: string, most = this.#maxPerAddress): Connection | undefined {
    const group = this.#byAddress.get(address) ?? { silent: new Set(), deciding: 0 };
    const isFull = group.silent.size + group.deciding >= most;
    const evictable = isFull ? group.silent : this.size >= this.#max ? this.#silent.keys() : undefined;
    if (evictable !== undefined) {
      const [oldest] = evictable;
      if (oldest === undefined) return connection;
      this.delete(oldest);
      this.#place(connection, address, group);
      return oldest;
    }
    this.#place(connection, address, group);
    return undefined;
  }

  /** The connection has sent HELLO: from now on it waits for the server. */
  handleHello(connection: Connection): void {
    const address = this.#silent.get(connection);
    const group = address === undefined ? undefined : this.#byAddress.get(address);
    if (address === undefined || group === undefined) return;
    this.#silent.delete(connection);
    group.silent.delete(connection);
    group.deciding++;
    this.#deciding.set(connection, address);
  }

  delete(connection: Connection): void {
    const address = this.#silent.get(connection) ?? this.#deciding.get(connection);
    const group = address === undefined ? undefined : this.#byAddress.get(address);
    if (address === undefined || group === undefined) return;
    if (this.#silent.delete(connection)) group.silent.delete(connection);
    else if (this.#deciding.delete(connection)) group.deciding--;
    if (group.silent.size + group.deciding === 0) this.#byAddress.delete(address);
  }

  #place(connection: Connection, address: string, group: Group<Connection>): void {
    // Deleting the last connection of an address has removed its group.
    this.#byAddress.set(address, group);
    this.#silent.set(connection, address);
    group.silent.add(connection);
  }
}

/** The connections of one address. */
interface Group<Connection> {
  readonly silent: Set<Connection>;
  deciding: number;
}
