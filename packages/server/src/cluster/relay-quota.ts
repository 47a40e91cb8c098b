/** What one node may have under way here, so that its agents leave room for those of others. */
export interface RelayQuotaLimits {
  /** One-way messages that are not written. */
  readonly messages: number;
  /** Bytes of messages, requests and tensors that are not written. */
  readonly bytes: number;
  /** Requests that are not over. */
  readonly requests: number;
}

export const RELAY_QUOTA: RelayQuotaLimits = {
  messages: 100_000,
  bytes: 256 * 1024 * 1024,
  requests: 50_000,
};

/** Counts what is under way on one connection, before it is taken. */
export class RelayQuota {
  readonly #limits: RelayQuotaLimits;
  #messages = 0;
  #bytes = 0;
  /** Bytes by request. */
  readonly #requests = new Map<number, number>();

  constructor(limits = RELAY_QUOTA) {
    this.#limits = limits;
  }

  /** Returns whether there is room for a message. */
  tryHoldMessage(bytes: number): boolean {
    if (this.#messages >= this.#limits.messages || !this.hasRoom(bytes)) return false;
    this.#messages++;
    this.#bytes += bytes;
    return true;
  }

  releaseMessage(bytes: number): void {
    this.#messages--;
    this.#bytes -= bytes;
  }

  /** Returns whether there is room for a new request. */
  tryHold(ref: number, bytes: number): boolean {
    if (this.#requests.size >= this.#limits.requests || !this.hasRoom(bytes)) return false;
    this.hold(ref, bytes);
    return true;
  }

  /** More of a request that was admitted. */
  hold(ref: number, bytes: number): void {
    this.#bytes += bytes;
    this.#requests.set(ref, (this.#requests.get(ref) ?? 0) + bytes);
  }

  /** So much of a request is written. */
  release(ref: number, bytes: number): void {
    const held = this.#requests.get(ref);
    if (held === undefined) return;
    const part = Math.min(held, bytes);
    this.#bytes -= part;
    this.#requests.set(ref, held - part);
  }

  /** The request is over. */
  forget(ref: number): void {
    this.#bytes -= this.#requests.get(ref) ?? 0;
    this.#requests.delete(ref);
  }

  hasRoom(bytes: number): boolean {
    return this.#bytes + bytes <= this.#limits.bytes;
  }
}
