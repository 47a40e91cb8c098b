import { ByteWriter } from '../base/bytes.js';
import { ProtocolError } from '../base/errors.js';
import { encodeSignalFrame, LinkKind, type UncountedFrames } from './frame.js';

/**
 * Flow control by absolute credit, as in QUIC: the receiver advertises the highest offset that it accepts on
 * a stream, so a credit frame that is lost or repeated does no harm. Offsets count charges: the bytes after
 * a frame's header, and {@link BODY_CHARGE} for each body.
 *
 * Memory is bounded by the receiver alone:
 *
 * - Every open stream has a guaranteed share: half the session window, divided by the stream limit.
 * - A share grows, out of the other half, when the application consumes. Streams whose application stalls
 *   therefore never take from the others.
 * - A message larger than its share is let through, up to the message limit, once everything before it was
 *   consumed. Only one stream at a time gets such a permit, and none does while a message limit's worth of
 *   such messages is unread.
 *
 * The unread bytes of a session and direction are therefore at most its window and two messages.
 */

/** Charged for each body beside its bytes, so that an empty message is not free. */
export const BODY_CHARGE = 16;

/** How much of an incomplete message is let through at a time. */
const PERMIT_STEP = 1024 * 1024;

/** Initial limits by the kind of stream, as the link extension advertises them. */
export interface InitialCredit {
  /** Limit of stream 0, which carries one-way messages. */
  readonly messages: number;
  /** Limit of every other stream, per direction. */
  readonly stream: number;
}

/** The credit that was spent on one stream, and the mark up to which the peer accepts more. */
export interface SendAccount {
  spent: number;
  limit: number;
}

/** The sending side: how much may be written. */
export class SendCredit {
  readonly #messages: number;
  readonly #stream: number;
  /** Created with the first body: most sessions are idle. */
  #accounts: Map<number, SendAccount> | undefined;

  constructor({ messages, stream }: InitialCredit) {
    this.#messages = messages;
    this.#stream = stream;
  }

  snapshot(): ReadonlyMap<number, SendAccount> | undefined {
    return this.#accounts;
  }

  restore(accounts: Map<number, SendAccount>): void {
    this.#accounts = accounts;
  }

  /** Charges that the stream may still spend. */
  available(streamId: number): number {
    const account = this.#accounts?.get(streamId);
    return account === undefined ? this.#initialOf(streamId) : account.limit - account.spent;
  }

  spend(streamId: number, charge: number): void {
    this.#accountOf(streamId).spent += charge;
  }

  /** The peer accepts up to `limit`. Returns whether that is more than before. */
  raise(streamId: number, limit: number): boolean {
    const account = this.#accountOf(streamId);
    if (limit <= account.limit) return false;
    account.limit = limit;
    return true;
  }

  /** The stream is over in this direction. */
  forget(streamId: number): void {
    this.#accounts?.delete(streamId);
  }

  #accountOf(streamId: number): { spent: number; limit: number } {
    let account = this.#accounts?.get(streamId);
    if (account === undefined) {
      account = { spent: 0, limit: this.#initialOf(streamId) };
      this.#accounts ??= new Map();
      this.#accounts.set(streamId, account);
    }
    return account;
  }

  #initialOf(streamId: number): number {
    return streamId === 0 ? this.#messages : this.#stream;
  }
}

export interface ReceiveCreditOptions {
  readonly initial: InitialCredit;
  /** Largest share of one stream. */
  readonly maxShare: number;
  /** Total by which all shares together may grow. */
  readonly pool: number;
  /** Bytes beyond their share that complete messages may occupy unread. */
  readonly maxOverrun: number;
}

export interface ReceiveAccount {
  readonly id: number;
  received: number;
  consumed: number;
  limit: number;
  /** Charges that may be unread at a time. */
  share: number;
  /** Offset at which the last body began. */
  bodyStart: number;
  /** Bytes of the last body that are still to come. */
  missing: number;
  /** The stream is over, but not everything received on it was consumed. */
  isOver: boolean;
}

/** The state of {@link ReceiveCredit}. Whether credit is held is not part of it: the rates and the driver decide that. */
export type ReceiveCreditState = readonly [
  accounts: Map<number, ReceiveAccount> | undefined,
  pool: number,
  permitted: ReceiveAccount | undefined,
  waiting: Set<ReceiveAccount> | undefined,
  unread: number,
];

/** The receiving side: how much is granted. */
export class ReceiveCredit {
  readonly #messages: number;
  readonly #stream: number;
  readonly #maxShare: number;
  readonly #maxOverrun: number;
  readonly #outbox: UncountedFrames;
  #accounts: Map<number, ReceiveAccount> | undefined;
  #pool: number;
  /** The stream whose incomplete message is let through, and the streams that wait for that permit. */
  #permitted: ReceiveAccount | undefined;
  #waiting: Set<ReceiveAccount> | undefined;
  #isHeld = false;
  #unread = 0;

  constructor({ initial, maxShare, pool, maxOverrun }: ReceiveCreditOptions, outbox: UncountedFrames) {
    this.#messages = initial.messages;
    this.#stream = initial.stream;
    this.#maxShare = maxShare;
    this.#maxOverrun = maxOverrun;
    this.#outbox = outbox;
    this.#pool = pool;
  }

  snapshot(): ReceiveCreditState {
    return [this.#accounts, this.#pool, this.#permitted, this.#waiting, this.#unread];
  }

  restore(state: ReceiveCreditState): void {
    [this.#accounts, this.#pool, this.#permitted, this.#waiting, this.#unread] = state;
  }

  /** Charges that were received and not consumed, over all streams. */
  get unread(): number {
    return this.#unread;
  }

  /**
   * Counts a frame.
   *
   * @param missing bytes of its body that have not arrived yet.
   * @throws {ProtocolError} `window_exceeded` if the sender had no credit for it.
   */
  receive(streamId: number, charge: number, missing: number): void {
    const account = this.#accountOf(streamId);
    if (account.missing === 0) account.bodyStart = account.received;
    account.missing = missing;
    account.received += charge;
    this.#unread += charge;
    if (account.received > account.limit) {
      throw new ProtocolError(
        'window_exceeded',
        `stream ${streamId} sent more than its credit of ${account.limit}`,
      );
    }
    if (this.#permitted === account) {
      if (missing === 0) this.#permitted = undefined;
      // Half a step ahead, so that the sender need not wait for the credit frame.
      else if (account.limit - account.received < PERMIT_STEP / 2) this.#extend(account);
    } else {
      // The body may be complete now, within credit that was granted for reading.
      this.#enqueue(account, needsPermit(account));
    }
    this.#permit();
  }

  /**
   * Charges a complete message `charge` more than its frames. That may exceed the limit; the next message of
   * the stream then waits longer.
   */
  overdraw(streamId: number, charge: number): void {
    this.#accountOf(streamId).received += charge;
    this.#unread += charge;
  }

  /** The application has read `charge`, or the body was discarded. Returns whether credit was granted. */
  consume(streamId: number, charge: number): boolean {
    const account = this.#accounts?.get(streamId);
    if (account === undefined) return false;
    account.consumed += charge;
    this.#unread -= charge;
    if (account.isOver) return account.consumed >= account.received ? this.close(streamId) : this.#permit();
    const granted = this.#replenish(account);
    this.#enqueue(account, this.#permitted !== account && needsPermit(account));
    return this.#permit() || granted;
  }

  /** Charges that were received on a stream and not consumed. */
  unreadOn(streamId: number): number {
    const account = this.#accounts?.get(streamId);
    return account === undefined ? 0 : account.received - account.consumed;
  }

  /** The stream is over, and its unread bodies no longer count. Returns whether credit was granted. */
  close(streamId: number): boolean {
    const account = this.#accounts?.get(streamId);
    if (account === undefined) return false;
    this.#accounts?.delete(streamId);
    this.#unread -= account.received - account.consumed;
    this.#pool += account.share - this.#stream;
    this.#enqueue(account, false);
    if (this.#permitted === account) this.#permitted = undefined;
    return this.#permit();
  }

  /**
   * The stream is over, but its unread bodies count until they are consumed.
   *
   * @param unfinished charge of an incomplete body, which the application will never get.
   */
  closeUnread(streamId: number, unfinished: number): void {
    const account = this.#accounts?.get(streamId);
    if (account === undefined) return;
    account.isOver = true;
    account.missing = 0;
    this.#enqueue(account, false);
    if (this.#permitted === account) this.#permitted = undefined;
    this.consume(streamId, unfinished);
  }

  /** Sends the limit of every open stream again: the peer may have missed some. */
  resend(): void {
    for (const { id, limit, isOver } of this.#accounts?.values() ?? []) {
      if (limit !== Infinity && !isOver) this.#send(id, limit);
    }
  }

  /** Grants nothing until {@link resume}, which makes up for what is consumed in between. */
  hold(): void {
    this.#isHeld = true;
  }

  resume(): void {
    this.#isHeld = false;
    // The message with the permit may have used up the credit that it was let through with.
    const permitted = this.#permitted;
    if (permitted !== undefined && permitted.limit - permitted.received < PERMIT_STEP / 2)
      this.#extend(permitted);
    for (const account of this.#accounts?.values() ?? []) this.#replenish(account);
    this.#permit();
  }

  #accountOf(id: number): ReceiveAccount {
    let account = this.#accounts?.get(id);
    if (account === undefined) {
      const share = id === 0 ? this.#messages : this.#stream;
      account = {
        id,
        received: 0,
        consumed: 0,
        limit: share,
        share,
        bodyStart: 0,
        missing: 0,
        isOver: false,
      };
      this.#accounts ??= new Map();
      this.#accounts.set(id, account);
    }
    return account;
  }

  /** Extends the window once half of it has been consumed. */
  #replenish(account: ReceiveAccount): boolean {
    // Without a limit there is nothing to grant.
    if (this.#isHeld || account.limit === Infinity || account.isOver) return false;
    if (account.limit - account.consumed > account.share / 2) return false;
    // A stream that is read gets a larger share, as long as the pool lasts.
    const growth = Math.max(0, Math.min(account.share, this.#maxShare - account.share, this.#pool));
    account.share += growth;
    this.#pool -= growth;
    return this.#grant(account, account.consumed + account.share);
  }

  #grant(account: ReceiveAccount, limit: number): boolean {
    if (limit <= account.limit) return false;
    account.limit = limit;
    this.#send(account.id, limit);
    return true;
  }

  #send(streamId: number, limit: number): void {
    const rest = new ByteWriter(8).varint(limit).finish();
    this.#outbox.pushUncounted(encodeSignalFrame(LinkKind.CREDIT, streamId, rest));
  }

  /** Unread bytes of complete messages beyond the share of their stream. */
  #overrun(): number {
    let total = 0;
    for (const { received, consumed, share, missing } of this.#accounts?.values() ?? []) {
      if (missing === 0) total += Math.max(0, received - consumed - share);
    }
    return total;
  }

  #extend(account: ReceiveAccount): boolean {
    return !this.#isHeld && this.#grant(account, account.received + Math.min(account.missing, PERMIT_STEP));
  }

  /** Adds a stream to those that wait for the permit, or removes it from them. */
  #enqueue(account: ReceiveAccount, waits: boolean): void {
    if (!waits) {
      this.#waiting?.delete(account);
      return;
    }
    this.#waiting ??= new Set();
    this.#waiting.add(account);
  }

  #permit(): boolean {
    const waiting = this.#waiting;
    if (waiting === undefined || waiting.size === 0 || this.#permitted !== undefined) return false;
    if (this.#isHeld) return false;
    const [next] = waiting;
    if (next === undefined || this.#overrun() >= this.#maxOverrun) return false;
    waiting.delete(next);
    this.#permitted = next;
    return this.#extend(next);
  }
}

/**
 * The message alone fills the share, so reading cannot make room for the rest of it. A complete one may have been charged
 * beyond the limit, and has no rest.
 */
function needsPermit({ missing, consumed, bodyStart, limit, received }: ReceiveAccount): boolean {
  return missing > 0 && missing > limit - received && consumed >= bodyStart;
}
