/**
 * Connections that are not a session yet. Each costs memory, and a client need not even say HELLO to open one:
 * so there are only so many of an address and in all, and beyond that the oldest whose HELLO has not come
 * makes room. A connection whose HELLO has come waits for the server, and is never evicted; if all of them
 * wait so, the newest connection is the one that has to go.
 */
export class Handshakes<Connection extends object> {
  readonly #maxPerAddress: number;
  readonly #max: number;
  /** With the address of each, oldest first. */
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

  /** @returns the connection that has to go, if any: an older one, or `connection` itself. */
  add(connection: Connection, address: string): Connection | undefined {
    const group = this.#byAddress.get(address) ?? { silent: new Set(), deciding: 0 };
    const isFull = group.silent.size + group.deciding >= this.#maxPerAddress;
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

  /** The HELLO of a connection has come; what it waits for now is not its own doing. */
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
    // Deleting the last one of an address has taken its group away.
    this.#byAddress.set(address, group);
    this.#silent.set(connection, address);
    group.silent.add(connection);
  }
}

/** The connections of an address. */
interface Group<Connection> {
  readonly silent: Set<Connection>;
  deciding: number;
}
