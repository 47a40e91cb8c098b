import { createHash } from 'node:crypto';
import type { Logger } from '@parlance/protocol';
import { type MemoryBudget, type SessionMemory, withResolvers } from '@parlance/protocol/internal';
import { limitedLog } from '../../base/limited-log.js';

/** How long a HELLO is known by its nonce, in milliseconds. */
export const NONCE_MS = 60_000;
/** Nonces that one server knows; beyond them the oldest is forgotten. */
export const MAX_NONCES = 65_536;
/** Bytes of memory of one. */
const NONCE_MEMORY = 1_024;

/** The session that a HELLO with a nonce has begun, or is about to begin. */
export interface Begun {
  readonly key: string;
  readonly sessionId: string;
  readonly endsAt: number;
  readonly memory: SessionMemory;
  /** Resolves when it is known whether the session has begun; `undefined` afterwards. */
  settled: Promise<void> | undefined;
  settle(): void;
}

/**
 * The sessions that HELLOs with a nonce have begun here within the last minute, also those that are over since. So the same HELLO does
 * not begin a second one.
 */
export class Nonces {
  /** Oldest first. */
  readonly #all = new Map<string, Begun>();
  readonly #bySession = new Map<string, Begun>();
  readonly #memory: MemoryBudget;
  readonly #logger: Logger;
  readonly #max: number;

  constructor(memory: MemoryBudget, logger: Logger, max = MAX_NONCES) {
    this.#memory = memory;
    this.#logger = limitedLog(logger);
    this.#max = max;
  }

  get size(): number {
    return this.#all.size;
  }

  get(key: string): Begun | undefined {
    return this.#all.get(key);
  }

  /** The one that has begun the session, or is about to. */
  of(sessionId: string): Begun | undefined {
    return this.#bySession.get(sessionId);
  }

  /**
   * Knows that a HELLO is about to begin a session.
   *
   * @param shares of the memory of the process, which its client uses.
   * @param now clock reading in milliseconds.
   */
  add(key: string, sessionId: string, shares: readonly string[], now: number): void {
    this.sweep(now);
    const memory = this.#memory.open(NONCE_MEMORY);
    memory.assign(shares);
    if (memory.tryReserve(NONCE_MEMORY) === undefined) {
      memory.close();
      return this.#warn('there is no memory for it');
    }
    const [oldest] = this.#all.size < this.#max ? [] : this.#all.values();
    if (oldest !== undefined) {
      this.forget(oldest.sessionId);
      this.#warn(`there are ${this.#max} newer ones`);
    }
    const { promise: settled, resolve: settle } = withResolvers<void>();
    const begun: Begun = { key, sessionId, endsAt: now + NONCE_MS, memory, settled, settle };
    this.#all.set(key, begun);
    this.#bySession.set(sessionId, begun);
  }

  /** The session has begun. */
  settle(sessionId: string): void {
    const begun = this.#bySession.get(sessionId);
    if (begun === undefined) return;
    begun.settle();
    begun.settled = undefined;
  }

  /**
   * The session has not begun, or has ended before its client has learned of it: the same HELLO may begin another one.
   */
  forget(sessionId: string): void {
    const begun = this.#bySession.get(sessionId);
    if (begun === undefined) return;
    this.#bySession.delete(sessionId);
    this.#all.delete(begun.key);
    begun.memory.close();
    begun.settle();
  }

  /** Forgets those whose time is over. @param now clock reading in milliseconds. */
  sweep(now: number): void {
    for (const { sessionId, endsAt } of this.#all.values()) {
      if (endsAt > now) return;
      this.forget(sessionId);
    }
  }

  #warn(why: string): void {
    const fields = { event: 'nonce.forgotten' };
    this.#logger.warn(
      fields,
      `a HELLO is not remembered, and begins a second session if it comes again: ${why}`,
    );
  }
}

/**
 * The key by which all nodes know a HELLO. It does not reveal the nonce.
 *
 * @param owner whose it is: the same nonce of someone else is another one. @default it is all that tells who the client is
 */
export function keyOfNonce(nonce: Uint8Array, owner: readonly (string | undefined)[] = []): string {
  const hash = createHash('sha256').update(nonce).update(JSON.stringify(owner));
  // A place of sessions in the engine, whose keys begin so.
  return `sess_nonce_${hash.digest('base64url')}`;
}
