import { keyOf, textsOf } from '../base/keys.js';
import type { CapacityRequest } from './engine.js';
import { Expiring } from './expiring.js';
import type { CapacityItem } from './store.js';

interface Capacity {
  readonly account: string;
  readonly bytes: number;
  /** Milliseconds of the clock. */
  readonly endsAt: number;
}

/** Bytes that the records of sessions of each principal have reserved, within one process. */
export class MemoryCapacity {
  readonly #capacities: Expiring<Capacity>;
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
    this.#capacities = new Expiring(now);
  }

  reserve(
    account: string,
    sessionId: string,
    { bytes, maxBytes, ttlMs }: CapacityRequest,
  ): number | undefined {
    const key = keyOf(account, sessionId);
    let others = 0;
    for (const [each, capacity] of this.#capacities)
      if (each !== key && capacity.account === account) others += capacity.bytes;
    const old = this.#capacities.get(key)?.bytes ?? 0;
    if (bytes > old && others + bytes > maxBytes) return undefined;
    const reserved = Math.max(old, bytes);
    this.#capacities.set(key, { account, bytes: reserved, endsAt: this.#now() + ttlMs });
    return reserved;
  }

  release(account: string, sessionId: string): void {
    this.#capacities.delete(keyOf(account, sessionId));
  }

  *exports(): Generator<CapacityItem> {
    for (const [key, { account, bytes, endsAt }] of this.#capacities)
      yield { kind: 'capacity', account, session: textsOf(key)[1] ?? '', bytes, ttlMs: endsAt - this.#now() };
  }
}
