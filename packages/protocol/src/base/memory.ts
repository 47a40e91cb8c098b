import { ProtocolError } from './errors.js';
import { Fifo } from './fifo.js';

/**
 * Memory that peers make this process hold, in bytes: one account for everything that expands, waits or
 * is kept, however it came about.
 *
 *     process  ←  principal, address  ←  session
 *
 * There are two ways to charge it:
 *
 * - {@link SessionMemory.tryReserve} and {@link SessionMemory.queue} precede memory that is about to be spent:
 *   a body that is decoded, a tensor that is put together, a body that is coded again for another session. A
 *   reservation waits in order until there is room, and is refused with `over_budget` if there is none in time.
 * - {@link SessionMemory.hold} states what windows and queues let a session hold anyway. It is never
 *   refused, but it leaves less for reservations, and a share that is used up gets no more credit.
 *
 * A principal or an address gets at most a third of what is free, so a single one ends at a quarter of
 * the budget, any number of them leave room for the next, and none can starve another.
 */

/** Reservations are refused after they have waited for this long, in milliseconds. */
export const RESERVATION_PATIENCE_MS = 10_000;
/** What a share may always have, so that a newcomer is served however full the process is. */
const GUARANTEED_SHARE = 4 * 1024 * 1024;
/** Of a small budget, the guarantee is at most this part. */
const GUARANTEED_PART = 1 / 64;
/** A share may have this much of what is free. */
const PART_OF_FREE = 1 / 3;
/** What suspended sessions may hold together, but for those that hold {@link LIGHT} at most. */
const MAX_SUSPENDED = 16 * 1024 * 1024;
const LIGHT = 256 * 1024;
/** A session that was just cut gets this long to come back, unless others wait for its memory. */
const SUSPENDED_GRACE_MS = 5_000;
/** What windows and queues of a session may hold however little memory there is. */
const HELD_ANYWAY = 1024 * 1024;
/** What is granted to a body that is admitted, whether it is there or not. */
const OVERDRAFT = 512 * 1024;
/** Smaller changes of what a session holds are not worth telling. */
const HOLD_STEP = 64 * 1024;

/** Memory that was reserved. */
export interface Reservation {
  /** Gives it back, or stops waiting for it. Doing so twice changes nothing. */
  release(): void;
}

/** What one principal, or one address, holds in all its sessions. */
interface Share {
  used: number;
  sessions: number;
}

/** The budget of one process. */
export class MemoryBudget {
  /** Bytes. */
  readonly limit: number;
  #used = 0;
  readonly #shares = new Map<string, Share>();
  /** Sessions that wait for more than their own room, in order. */
  #waiting = new Set<SessionMemory>();
  readonly #suspended = new Set<SessionMemory>();
  #isGranting = false;

  /** @param limit bytes of all sessions together; `Infinity` bounds each session alone. */
  constructor(limit: number) {
    this.limit = limit;
  }

  /** Bytes that are held. */
  get used(): number {
    return this.#used;
  }

  /** Principals and addresses that are known. */
  get shares(): number {
    return this.#shares.size;
  }

  /** Sessions with reservations that wait for memory of others. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** @param limit bytes that one session may reserve. */
  open(limit: number): SessionMemory {
    return new SessionMemory(this, limit);
  }

  /**
   * Ends suspended sessions that hold more memory than is kept for those that no connection carries; the largest go
   * first. Call it about once a second.
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
      // One at a time for those who wait: it may be enough.
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

  /** Whether a session with these shares may have `size` bytes more. @internal */
  hasRoom(keys: readonly string[], size: number): boolean {
    const { limit } = this;
    if (limit === Infinity) return true;
    if (keys.length === 0) return this.#used + size <= limit;
    const guaranteed = Math.min(GUARANTEED_SHARE, limit * GUARANTEED_PART);
    const most = Math.max(guaranteed, (limit - this.#used - size) * PART_OF_FREE);
    return keys.every((key) => {
      const used = this.#shares.get(key)?.used ?? 0;
      // A message that the limits allow must not wait for ever because the budget is small.
      return used + size <= most || (used === 0 && this.#used + size <= limit);
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
  await(session: SessionMemory): void {
    this.#waiting.add(session);
  }

  /** @internal */
  forget(session: SessionMemory): void {
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

  /** What is released in one turn is given to those who wait at its end, all at once. */
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

interface Waiting {
  readonly size: number;
  readonly since: number;
  readonly isPatient: boolean;
  readonly begin: () => void;
  readonly refuse: ((error: ProtocolError) => void) | undefined;
}

export interface QueueOptions {
  /** Clock reading in milliseconds. */
  readonly now: number;
  /** Runs as soon as there is room, which may be at once. */
  readonly begin: (reservation: Reservation) => void;
  /** There was no room in time. @default waits for as long as the session lives */
  readonly refuse?: ((error: ProtocolError) => void) | undefined;
  /**
   * Is refused for what others hold, but waits for the session's own memory for as long as it takes, as its reader
   * may be slow. @default false
   */
  readonly isPatient?: boolean | undefined;
}

/** What one session holds. */
export class SessionMemory {
  /** Runs if the session has to go so that others can have its memory. */
  onEvict: (() => void) | undefined;
  /** What a reservation that was waited for leads to has failed. Others may be behind the call, so it goes no further. */
  onFault: ((error: unknown) => void) | undefined;
  suspendedAt = Infinity;
  readonly #process: MemoryBudget;
  readonly #limit: number;
  #keys: readonly string[] = [];
  #reserved = 0;
  #held = 0;
  #isClosed = false;
  #waiting: Fifo<Waiting> | undefined;

  /** @internal use {@link MemoryBudget.open}. */
  constructor(process: MemoryBudget, limit: number) {
    this.#process = process;
    this.#limit = limit;
  }

  /** Bytes. */
  get used(): number {
    return this.#reserved + this.#held;
  }

  /** Bytes of reservations. */
  get reserved(): number {
    return this.#reserved;
  }

  get keys(): readonly string[] {
    return this.#keys;
  }

  /** Reservations that wait. */
  get waiting(): number {
    return this.#waiting?.size ?? 0;
  }

  /**
   * Windows and queues hold so much that their peer gets no more credit until some of it is given back. Reservations
   * alone hold no peer up: the body that they are for has to arrive.
   */
  get isScarce(): boolean {
    if (this.#held < HELD_ANYWAY) return false;
    return this.#held >= this.#limit || !this.#process.hasRoom(this.#keys, 0);
  }

  /**
   * Names the shares that the session counts towards.
   *
   * @param keys of a principal and of an address, which must differ in kind.
   */
  assign(keys: readonly string[]): void {
    if (this.#isClosed) return;
    const { used } = this;
    const before = this.#keys;
    this.#process.add(before, -used);
    for (const key of keys) this.#process.join(key);
    for (const key of before) this.#process.leave(key);
    this.#keys = keys;
    this.#process.add(keys, used);
  }

  /** Reserves `size` bytes if they are there at once; `undefined` if they are not. */
  tryReserve(size: number): Reservation | undefined {
    if (this.#isClosed) return NOTHING;
    if (this.waiting > 0 || !this.#hasRoom(size)) return undefined;
    this.#add(size);
    return this.#reservationOf(size);
  }

  /**
   * Reserves what a body that is admitted already turns out to take, ahead of those that wait.
   *
   * @throws {ProtocolError} `over_budget` if it is not there and more than {@link OVERDRAFT}.
   */
  charge(size: number): Reservation {
    if (this.#isClosed) return NOTHING;
    if (size > OVERDRAFT && !this.#hasRoom(size)) throw overBudget();
    this.#add(size);
    return this.#reservationOf(size);
  }

  /**
   * Reserves `size` bytes as soon as there is room, behind every reservation of this session that waits.
   *
   * @returns gives the reservation back, or stops waiting for it.
   */
  queue(size: number, { now, begin, refuse, isPatient = false }: QueueOptions): Reservation {
    let granted: Reservation | undefined;
    const entry: Waiting = {
      size,
      since: now,
      isPatient,
      refuse,
      begin: () => {
        granted = this.#reservationOf(size);
        begin(granted);
      },
    };
    this.#waiting ??= new Fifo();
    this.#waiting.push(entry);
    this.grant();
    return {
      release: () => {
        if (granted !== undefined) return granted.release();
        this.#waiting?.delete(entry);
        this.grant();
      },
    };
  }

  /**
   * States what windows and queues hold now.
   *
   * @param bytes in all, not the difference.
   * @returns whether that is so much more or less than before that it was counted.
   */
  hold(bytes: number): boolean {
    const change = bytes - this.#held;
    if (change < HOLD_STEP && change > -HOLD_STEP && (bytes > 0 || change === 0)) return false;
    if (this.#isClosed) return false;
    this.#held = bytes;
    this.#process.add(this.#keys, change);
    if (change < 0) this.grant();
    return true;
  }

  /** No connection carries the session, or one does again (`Infinity`). */
  handleSuspended(at: number): void {
    if (this.#isClosed || at === this.suspendedAt) return;
    this.suspendedAt = at;
    if (at === Infinity) this.#process.handleResumed(this);
    else this.#process.handleSuspended(this);
  }

  /** Refuses what has waited for too long. */
  handleTick(now: number): void {
    const waiting = this.#waiting;
    for (let first = waiting?.first; first !== undefined; first = waiting?.first) {
      if (first.refuse === undefined || now - first.since < RESERVATION_PATIENCE_MS) return;
      if (first.isPatient && !this.#isWithinLimit(first.size)) return;
      waiting?.shift();
      this.#run(() => first.refuse?.(overBudget()));
    }
    this.grant();
  }

  /** @internal */
  grant(): void {
    const waiting = this.#waiting;
    for (let first = waiting?.first; first !== undefined; first = waiting?.first) {
      if (!this.#hasRoom(first.size)) {
        this.#awaitOthers(first.size);
        return;
      }
      waiting?.shift();
      this.#add(first.size);
      this.#run(first.begin);
    }
    this.#process.forget(this);
  }

  /** @internal */
  evict(): void {
    this.onEvict?.();
  }

  /** The session is over: all of it is given back, and nothing that waits will begin. */
  close(): void {
    if (this.#isClosed) return;
    this.#process.forget(this);
    this.#process.handleResumed(this);
    this.#process.add(this.#keys, -this.used);
    for (const key of this.#keys) this.#process.leave(key);
    this.#isClosed = true;
    this.#reserved = 0;
    this.#held = 0;
    this.#waiting = undefined;
    this.onEvict = undefined;
    this.onFault = undefined;
  }

  #hasRoom(size: number): boolean {
    // What only keeps its place behind others takes nothing.
    return size === 0 || (this.#isWithinLimit(size) && this.#process.hasRoom(this.#keys, size));
  }

  #isWithinLimit(size: number): boolean {
    // A message that the limits allow must not wait for ever because it is larger than this limit.
    return this.#reserved === 0 || this.#reserved + size <= this.#limit;
  }

  /** What waits for this session's own memory is looked at when that is given back, not before. */
  #awaitOthers(size: number): void {
    if (this.#isWithinLimit(size)) this.#process.await(this);
    else this.#process.forget(this);
  }

  #run(task: () => void): void {
    try {
      task();
    } catch (error) {
      if (this.onFault === undefined) throw error;
      this.onFault(error);
    }
  }

  #add(size: number): void {
    this.#reserved += size;
    this.#process.add(this.#keys, size);
  }

  #reservationOf(size: number): Reservation {
    let isReleased = false;
    return {
      release: () => {
        if (isReleased || this.#isClosed) return;
        isReleased = true;
        this.#add(-size);
        this.grant();
      },
    };
  }
}

/** The error for what waited in vain. */
export function overBudget(): ProtocolError {
  return new ProtocolError('over_budget', 'too much memory is in use for this session; try again later', {
    retryAfterMs: RESERVATION_PATIENCE_MS,
  });
}

const NOTHING: Reservation = { release() {} };
