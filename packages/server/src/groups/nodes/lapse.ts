/** Notices that this node was without a lease for so long that others may have forgotten what it has asked them for. */
export class Lapse {
  readonly #longMs: number;
  /** Since when it has none. A clock reading. */
  #since: number | undefined;

  /** @param longMs how long others remember a node that they take for dead, about. */
  constructor(longMs: number) {
    this.#longMs = longMs;
  }

  /** Call it about once a second. Returns whether one that was long is over now. */
  check(hasLease: boolean, now: number): boolean {
    const since = this.#since;
    this.#since = hasLease ? undefined : (since ?? now);
    return hasLease && since !== undefined && now - since >= this.#longMs;
  }
}
