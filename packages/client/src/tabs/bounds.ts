/** The most that one tab can take of the memory that all tabs of a session share. */

/** Requests of a tab that are not complete. */
export const MAX_REPLIES = 256;
/** Bytes of the bodies that a tab sends and that wait at the host. One larger body may be under way alone. */
export const MAX_UPLOAD = 1024 * 1024;
/** Bytes of the parts of one reply that the tab has not read; beyond, the reply waits at its sender. */
export const PART_WINDOW = 64 * 1024;
/** Bytes of one-way messages that the tab has not read; beyond, it misses messages. */
export const MAX_UNREAD = 4 * 1024 * 1024;
/** Bytes of whole replies that the tab has not received; beyond, requests fail. */
export const MAX_WHOLE = 32 * 1024 * 1024;
/** Bytes that each message and part counts in addition to its content. */
const OVERHEAD = 256;

/** The memory that content takes, in bytes or UTF-16 units. */
export function chargeOf(...contents: readonly ({ readonly length: number } | undefined)[]): number {
  return contents.reduce((sum, content) => sum + (content?.length ?? 0), OVERHEAD);
}

/**
 * Counts what is under way against a bound. Something larger than the bound has room if nothing else is under way.
 */
export class Allowance {
  readonly #bound: number;
  #used = 0;

  constructor(bound: number) {
    this.#bound = bound;
  }

  get used(): number {
    return this.#used;
  }

  hasRoom(charge: number): boolean {
    return this.#used === 0 || this.#used + charge <= this.#bound;
  }

  add(charge: number): void {
    this.#used += charge;
  }

  /** Less than is used, if the other end says it has taken more. */
  release(charge: number): void {
    this.#used = Math.max(0, this.#used - charge);
  }
}
