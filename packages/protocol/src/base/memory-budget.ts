import { type MemoryPool, SessionMemory } from './memory.js';

/** A share always gets this many bytes, so that a newcomer is served however full the process is. */
const GUARANTEED_SHARE = 4 * 1024 * 1024;
/** The guarantee is at most this part of a small budget. */
const GUARANTEED_PART = 1 / 64;
/** A share may take this part of what is free. */
const PART_OF_FREE = 1 / 3;
/** Suspended sessions may hold this together; those with at most {@link LIGHT} do not count. */
const MAX_SUSPENDED = 16 * 1024 * 1024;
const LIGHT = 256 * 1024;
/** A session gets this long to come back after a disconnect, unless others wait for its memory. */
const SUSPENDED_GRACE_MS = 5_000;

/** The sum over all sessions of one principal, or of one address. */
interface Share {
  used: number;
  sessions: number;
}

/**
 * The memory budget of one process, in bytes.
 *
 *     process  ←  principal, address  ←  session
 *
 * A principal or an address gets at most a third of what is free. So a single one stops at a quarter of the
 * budget, any number of them leave room for the next, and none can starve another.
 */
export class MemoryBudget implements MemoryPool {
  /** Bytes. */
  readonly limit: number;
  #used = 0;
  readonly #shares = new Map<string, Share>();
  /** Sessions that wait for memory that others hold, in order. */
  #waiting = new Set<SessionMemory>();
  readonly #suspended = new Set<SessionMemory>();
  #isGranting = false;

  /** @param limit bytes of all sessions together; with `Infinity` only each session's own limit applies. */
  constructor(limit: number) {
    this.limit = limit;
  }

  /** Bytes that are held. */
  get used(): number {
    return this.#used;
  }

  /** Number of principals and addresses with open sessions. */
  get shares(): number {
    return this.#shares.size;
  }

  /** Number of sessions whose reservations wait for memory that others hold. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** @param limit bytes that one session may reserve. */
  open(limit: number): SessionMemory {
    return new SessionMemory(this, limit);
  }

  /**
   * Evicts suspended sessions if they hold too much memory together, the largest first. Call it about once a
   * second.
   *
   * @param now clock reading in milliseconds.
   */
  sweep(now: number): void {
    let isShort = this.#waiting.size > 0;
    const candidates = [...this.#suspended]
      .filter(({ used, suspendedAt }) => used > LIGHT && (isShort || now - suspendedAt >= SUSPENDED_GRACE_MS))
      .sort((a, b) => b.used - a.used);
    let held = candidates.reduce((sum, { used }) => sum + used, 0);
    for (const session of candidates) {
      const isOver = held > MAX_SUSPENDED;
      if (!isOver && !isShort) return;
      // Evict one at a time for the sessions that wait: it may be enough.
      if (!isOver) isShort = false;
      held -= session.used;
      session.evict();
    }
  }

  /** @internal */
  join(key: string): void {
    const share = this.#shares.get(key);
    if (share !== undefined) share.sessions++;
    else this.#shares.set(key, { used: 0, sessions: 1 });
  }

  /** @internal */
  leave(key: string): void {
    const share = this.#shares.get(key);
    if (share !== undefined && --share.sessions === 0) this.#shares.delete(key);
  }

  /** @internal */
  hasRoom(keys: readonly string[], size: number, own = -Infinity): boolean {
    const { limit } = this;
    if (limit === Infinity) return true;
    if (keys.length === 0) return this.#used + size <= limit;
    const guaranteed = Math.min(GUARANTEED_SHARE, limit * GUARANTEED_PART);
    const most = Math.max(guaranteed, (limit - this.#used - size) * PART_OF_FREE);
    return keys.every((key) => {
      const used = this.#shares.get(key)?.used ?? 0;
      // A message within the limits must not wait forever because the budget is small. The part of it that is held already counts too.
      const isAlone = used === 0 || used - own <= guaranteed;
      return used + size <= most || (isAlone && this.#used + size <= limit);
    });
  }

  /** @internal */
  add(keys: readonly string[], size: number): void {
    this.#used += size;
    for (const key of keys) {
      const share = this.#shares.get(key);
      if (share !== undefined) share.used += size;
    }
    if (size < 0) this.#grantLater();
  }

  /** @internal */
  enqueue(session: SessionMemory): void {
    this.#waiting.add(session);
  }

  /** @internal */
  dequeue(session: SessionMemory): void {
    this.#waiting.delete(session);
  }

  /** @internal */
  handleSuspended(session: SessionMemory): void {
    this.#suspended.add(session);
  }

  /** @internal */
  handleResumed(session: SessionMemory): void {
    this.#suspended.delete(session);
  }

  /** Offers what was released in this turn to the waiting sessions, once, at the end of the turn. */
  #grantLater(): void {
    if (this.#isGranting || this.#waiting.size === 0) return;
    this.#isGranting = true;
    queueMicrotask(() => {
      this.#isGranting = false;
      const waiting = this.#waiting;
      this.#waiting = new Set();
      for (const session of waiting) session.grant();
    });
  }
}

declare function queueMicrotask(task: () => void): void;
