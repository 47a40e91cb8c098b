import { ProtocolError } from './errors.js';
import { Fifo } from './fifo.js';

/**
 * Memory that a peer makes this process hold, in bytes. One account covers everything that expands, waits or
 * is kept, however it came about; {@link MemoryPool} adds up the accounts of a process.
 *
 * There are two ways to charge it:
 *
 * - {@link SessionMemory.tryReserve} and {@link SessionMemory.queue} come before memory is spent: to decode a
 *   body, to assemble a tensor, to recode a body for another session. A reservation waits in order until there
 *   is room, and is refused with `over_budget` if there is none in time.
 * - {@link SessionMemory.hold} reports what windows and queues let a session hold anyway. It is never
 *   refused, but it leaves less for reservations, and a share that is used up gets no more credit.
 */

/** Reservations are refused after they have waited for this long, in milliseconds. */
export const RESERVATION_PATIENCE_MS = 10_000;
/** The windows and queues of a session may hold this much, however little memory there is. */
const ALWAYS_HELD = 1024 * 1024;
/** A body that is already admitted gets this much even if the memory is not there. */
const OVERDRAFT = 512 * 1024;
/** Smaller changes of what a session holds are not counted. */
const HOLD_STEP = 64 * 1024;

/** Memory that was reserved. */
export interface Reservation {
  /** Bytes; 0 once it was given back. */
  readonly size?: number;
  /** Gives the memory back, or stops waiting for it. A second call does nothing. */
  release(): void;
}

/** The memory that all sessions of a process share, as one of them sees it. */
export interface MemoryPool {
  /** Counts one more session towards the share `key`. */
  join(key: string): void;
  leave(key: string): void;
  /**
   * Whether a session of the shares `keys` may have `size` bytes more.
   *
   * @param own what it may have already of the body that needs `size`. @default it has other bodies
   */
  hasRoom(keys: readonly string[], size: number, own?: number): boolean;
  /** @param size bytes taken, or, if negative, given back. */
  add(keys: readonly string[], size: number): void;
  /** Calls `session.grant()` once others have given memory back. */
  enqueue(session: SessionMemory): void;
  dequeue(session: SessionMemory): void;
  handleSuspended(session: SessionMemory): void;
  handleResumed(session: SessionMemory): void;
}

const nothing = () => {};

/** The pool of a process with one end of a session, such as a page: only the limit of the session itself applies. */
export const BOUNDLESS: MemoryPool = {
  join: nothing,
  leave: nothing,
  hasRoom: () => true,
  add: nothing,
  enqueue: nothing,
  dequeue: nothing,
  handleSuspended: nothing,
  handleResumed: nothing,
};

interface Waiter {
  readonly size: number;
  readonly since: number;
  readonly isPatient: boolean;
  readonly begin: () => void;
  readonly refuse: ((error: ProtocolError) => void) | undefined;
}

export interface QueueOptions {
  /** Clock reading in milliseconds. */
  readonly now: number;
  /** Runs as soon as there is room, possibly before `queue` returns. */
  readonly begin: (reservation: Reservation) => void;
  /** Runs if there was no room in time. @default waits for as long as the session lives */
  readonly refuse?: ((error: ProtocolError) => void) | undefined;
  /**
   * Waits without a time limit while the session's own memory is full, because its reader may be slow; it is
   * still refused if others hold the memory for too long. @default false
   */
  readonly isPatient?: boolean | undefined;
}

/** The memory of one session. */
export class SessionMemory {
  /** Runs if the session must end so that others can have its memory. */
  onEvict: (() => void) | undefined;
  /** Receives errors of `begin` and `refuse`, so that the caller that released memory for them does not. */
  onFault: ((error: unknown) => void) | undefined;
  suspendedAt = Infinity;
  readonly #pool: MemoryPool;
  readonly #limit: number;
  #keys: readonly string[] = [];
  #reserved = 0;
  #held = 0;
  #isClosed = false;
  #waiting: Fifo<Waiter> | undefined;

  /** @internal use `MemoryBudget.open`, or {@link BOUNDLESS}. */
  constructor(pool: MemoryPool, limit: number) {
    this.#pool = pool;
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

  /** Number of reservations that wait. */
  get waiting(): number {
    return this.#waiting?.size ?? 0;
  }

  /**
   * True if windows and queues hold so much that the peer gets no more credit until some of it is given back.
   * Reservations alone never withhold credit: the bodies they are for must be able to arrive.
   */
  get isScarce(): boolean {
    if (this.#held < ALWAYS_HELD) return false;
    return this.#held >= this.#limit || !this.#pool.hasRoom(this.#keys, 0);
  }

  /**
   * Names the shares that the session counts towards, in place of those named before.
   *
   * @param keys of a principal and of an address; the two kinds must not share key names.
   */
  assign(keys: readonly string[]): void {
    if (this.#isClosed) return;
    const { used } = this;
    const before = this.#keys;
    this.#pool.add(before, -used);
    for (const key of keys) this.#pool.join(key);
    for (const key of before) this.#pool.leave(key);
    this.#keys = keys;
    this.#pool.add(keys, used);
  }

  /** Reserves `size` bytes if they are free now; otherwise returns `undefined`. */
  tryReserve(size: number): Reservation | undefined {
    if (this.#isClosed) return NOTHING;
    if (this.waiting > 0 || !this.#hasRoom(size)) return undefined;
    this.#add(size);
    return this.#reservationOf(size);
  }

  /**
   * Reserves what an admitted body turns out to need in addition, ahead of the reservations that wait.
   *
   * @param own what is reserved for the body itself: if the session has nothing else, it may be larger than the limit of the session.
   * @throws {ProtocolError} `over_budget` if the memory is not there and `size` is more than {@link OVERDRAFT}.
   */
  charge(size: number, own?: Reservation): Reservation {
    if (this.#isClosed) return NOTHING;
    if (size > OVERDRAFT && !this.#hasRoom(size, own?.size)) throw overBudget();
    this.#add(size);
    return this.#reservationOf(size);
  }

  /**
   * Reserves `size` bytes as soon as there is room, after the reservations of this session that already wait.
   *
   * @returns a reservation that may still be waiting; `release` then takes it out of the queue.
   */
  queue(size: number, { now, begin, refuse, isPatient = false }: QueueOptions): Reservation {
    let granted: Reservation | undefined;
    const waiter: Waiter = {
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
    this.#waiting.push(waiter);
    this.grant();
    return {
      release: () => {
        if (granted !== undefined) return granted.release();
        this.#waiting?.delete(waiter);
        this.grant();
      },
    };
  }

  /**
   * Reports what windows and queues hold now.
   *
   * @param bytes the total, not the difference.
   * @returns whether the change was large enough to be counted.
   */
  hold(bytes: number): boolean {
    const change = bytes - this.#held;
    if (change < HOLD_STEP && change > -HOLD_STEP && (bytes > 0 || change === 0)) return false;
    if (this.#isClosed) return false;
    this.#held = bytes;
    this.#pool.add(this.#keys, change);
    if (change < 0) this.grant();
    return true;
  }

  /** @param at clock reading when the session lost its connection; `Infinity` once it has resumed. */
  handleSuspended(at: number): void {
    if (this.#isClosed || at === this.suspendedAt) return;
    this.suspendedAt = at;
    if (at === Infinity) this.#pool.handleResumed(this);
    else this.#pool.handleSuspended(this);
  }

  /** Refuses reservations that have waited for too long. */
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
    this.#pool.dequeue(this);
  }

  /** @internal */
  evict(): void {
    this.onEvict?.();
  }

  /** The session is over: gives all memory back and drops the reservations that wait. */
  close(): void {
    if (this.#isClosed) return;
    this.#pool.dequeue(this);
    this.#pool.handleResumed(this);
    this.#pool.add(this.#keys, -this.used);
    for (const key of this.#keys) this.#pool.leave(key);
    this.#isClosed = true;
    this.#reserved = 0;
    this.#held = 0;
    this.#waiting = undefined;
    this.onEvict = undefined;
    this.onFault = undefined;
  }

  #hasRoom(size: number, own?: number): boolean {
    // A reservation of 0 bytes only keeps its place in the queue.
    if (size === 0) return true;
    if (!this.#isWithinLimit(size, own)) return false;
    // The windows may hold the coded form of the body.
    const held = this.#isAlone(own) ? Math.min(this.used, size) : undefined;
    return this.#pool.hasRoom(this.#keys, size, held);
  }

  #isWithinLimit(size: number, own?: number): boolean {
    // A message within the limits must not wait forever because it is larger than this one.
    return this.#isAlone(own) || this.#reserved + size <= this.#limit;
  }

  /** Nothing is reserved but for one body. @param own bytes that are reserved for it already. */
  #isAlone(own = 0): boolean {
    return this.#reserved === own;
  }

  /** A reservation that waits for the session's own memory is tried again only when that is given back. */
  #awaitOthers(size: number): void {
    if (this.#isWithinLimit(size)) this.#pool.enqueue(this);
    else this.#pool.dequeue(this);
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
    if (this.#isClosed) return;
    this.#reserved += size;
    this.#pool.add(this.#keys, size);
  }

  #reservationOf(size: number): Reservation {
    let isReleased = false;
    return {
      get size() {
        return isReleased ? 0 : size;
      },
      release: () => {
        if (isReleased || this.#isClosed) return;
        isReleased = true;
        this.#add(-size);
        this.grant();
      },
    };
  }
}

/** The error for a reservation that waited too long. */
export function overBudget(): ProtocolError {
  return new ProtocolError('over_budget', 'too much memory is in use for this session; try again later', {
    retryAfterMs: RESERVATION_PATIENCE_MS,
  });
}

const NOTHING: Reservation = { release() {} };
