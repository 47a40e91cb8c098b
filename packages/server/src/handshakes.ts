/**
 * Connections that are no session yet. Each costs memory, and whoever opens them need not even say HELLO:
 * so there are only so many of an address and in all, and beyond that the oldest makes room. An honest
 * client is through long before its turn comes, and is never kept out by those who wait for nothing.
 */
export class Handshakes<Connection extends object> {
  readonly #maxPerAddress: number;
  readonly #max: number;
  /** With the address of each, oldest first. */
  readonly #pending = new Map<Connection, string>();
  readonly #byAddress = new Map<string, Set<Connection>>();

  constructor(maxPerAddress: number, max: number) {
    this.#maxPerAddress = maxPerAddress;
    this.#max = max;
  }

  get size(): number {
    return this.#pending.size;
  }

  /** @returns the connection that has to go for it, if any. */
  add(connection: Connection, address: string): Connection | undefined {
    const same = this.#byAddress.get(address) ?? new Set();
    this.#byAddress.set(address, same);
    const [oldest] =
      same.size >= this.#maxPerAddress ? same : this.#pending.size >= this.#max ? this.#pending.keys() : [];
    if (oldest !== undefined) this.delete(oldest);
    this.#pending.set(connection, address);
    // Deleting the last one of an address has taken its set away.
    this.#byAddress.set(address, same);
    same.add(connection);
    return oldest;
  }

  delete(connection: Connection): void {
    const address = this.#pending.get(connection);
    if (address === undefined) return;
    this.#pending.delete(connection);
    const same = this.#byAddress.get(address);
    same?.delete(connection);
    if (same?.size === 0) this.#byAddress.delete(address);
  }
}
