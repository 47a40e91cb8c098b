import type { EngineConnection } from '../engine/engine.js';

export interface CapacityOptions {
  readonly link: Pick<EngineConnection, 'reserveCapacity' | 'releaseCapacity'>;
  readonly sessionId: string;
  /** Of the principal; `undefined` without one, so that only the session has a bound. */
  readonly account: string | undefined;
  /** Bytes of the record, with names of fields and what surrounds bodies. */
  readonly maxSessionBytes: number;
  /** Bytes of all records of the principal. */
  readonly maxPrincipalBytes: number;
  readonly ttlMs: number;
}

/** Bytes that are reserved at a time, so that few writes have to wait for it. */
export const CAPACITY_STEP = 16 * 1024;

/**
 * The bytes that the record of one session may have in the engine. Reserved bytes are given back when the session ends.
 */
export class Capacity {
  readonly #options: CapacityOptions;
  #reserved = 0;

  constructor(options: CapacityOptions) {
    this.#options = options;
  }

  /** Of the record. */
  get bytes(): number {
    return this.#reserved;
  }

  /**
   * Makes room for a record of some bytes.
   *
   * @returns whether the session may have them.
   * @throws {ProtocolError} as `reserveCapacity`.
   */
  async grow(needed: number): Promise<boolean> {
    const { link, sessionId, account, maxSessionBytes, maxPrincipalBytes, ttlMs } = this.#options;
    if (needed > maxSessionBytes) return false;
    const steps = Math.max(1, Math.ceil(needed / CAPACITY_STEP)) * CAPACITY_STEP;
    const bytes = Math.min(steps, maxSessionBytes);
    if (account === undefined) {
      this.#reserved = bytes;
      return true;
    }
    const capacity = { bytes, maxBytes: maxPrincipalBytes, ttlMs };
    const reserved = await link.reserveCapacity(account, sessionId, capacity);
    if (reserved === undefined) return false;
    this.#reserved = Math.min(reserved, maxSessionBytes);
    return true;
  }

  /** Keeps what is reserved. Never rejects: it is done again. */
  async renew(): Promise<void> {
    if (this.#reserved > 0) await this.grow(this.#reserved).catch(() => {});
  }

  /** Never rejects: what is not given back is given back when its time is over. */
  async release(): Promise<void> {
    const { link, sessionId, account } = this.#options;
    if (account !== undefined && this.#reserved > 0)
      await link.releaseCapacity(account, sessionId).catch(() => {});
  }
}
