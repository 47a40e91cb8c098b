import type { Limits, SessionCore } from '@parlance/protocol';
import { type Reservation, type SessionMemory, systemClock } from '@parlance/protocol/internal';
import type { Transport } from './transport.js';

/** Bytes of an unfinished message that are not charged: most messages are smaller. */
export const FREE_UNFINISHED = 320 * 1024;
/** Further bytes are charged in steps of this size. */
const STEP = 1024 * 1024;
/** A single link frame never gets more credit than this. */
export const MAX_LINK_FRAME = 4 * 1024 * 1024;
/** Bytes of the next messages may be read together with the end of one, and count with it. */
const READ_AHEAD = 256 * 1024;

/** Bytes of the longest WebSocket message that an established session may send. */
export function longestMessage({ channel }: SessionCore, { maxMessageSize }: Limits): number {
  return channel.hasLink ? Math.min(MAX_LINK_FRAME, maxMessageSize) : maxMessageSize;
}

/** Whether `unfinished` bytes must belong to a single message of more than `longest` bytes. */
export function isOverlong(unfinished: number, longest: number): boolean {
  return unfinished > longest + READ_AHEAD;
}

/**
 * Memory of a WebSocket message that is still arriving. It is charged while it grows, and its connection is not read
 * while there is no memory for more.
 */
export class UnfinishedMessage {
  /** Bytes up to which the message is charged. */
  charged = FREE_UNFINISHED;
  readonly #memory: SessionMemory;
  readonly #wire: Pick<Transport, 'hold' | 'unhold'>;
  readonly #reservations: Reservation[] = [];
  #isWaiting = false;

  constructor(memory: SessionMemory, wire: Pick<Transport, 'hold' | 'unhold'>) {
    this.#memory = memory;
    this.#wire = wire;
  }

  /** Charges the next step. */
  grow(): void {
    this.charged += STEP;
    const reservation = this.#memory.tryReserve(STEP);
    if (reservation !== undefined) {
      this.#reservations.push(reservation);
      return;
    }
    if (!this.#isWaiting) this.#wire.hold();
    this.#isWaiting = true;
    const readOn = () => this.#readOn();
    // Sessions that wait for each other's memory never release any, so one whose wait runs out reads on.
    const options = { now: systemClock.now(), begin: readOn, refuse: readOn };
    this.#reservations.push(this.#memory.queue(STEP, options));
  }

  release(): void {
    this.#readOn();
    for (const reservation of this.#reservations) reservation.release();
  }

  #readOn(): void {
    if (!this.#isWaiting) return;
    this.#isWaiting = false;
    this.#wire.unhold();
  }
}
