import { ProtocolError } from '../base/errors.js';

/**
 * Flow control by absolute credit, as in QUIC: the receiver states the highest offset that it takes on
 * a stream; a statement that is lost or repeated does no harm. Offsets count charges: the bytes behind
 * a frame's header, and {@link BODY_CHARGE} for each body.
 *
 * What bounds memory is the receiver's doing alone:
 *
 * - Every open stream has a guaranteed share, half the session window divided by the stream limit.
 * - A share grows, out of the other half, when the application consumes, so that streams whose
 *   application stalls never take it from the rest.
 * - A message that is larger than its share is let through up to the message limit once everything
 *   before it was consumed, one stream at a time, and not while a message limit's worth of such
 *   messages waits to be read.
 *
 * Unread bytes of a session and direction are therefore at most its window and two messages.
 */

/** What a body costs beside its bytes: an empty message is not free. */
export const BODY_CHARGE = 16;

/** How far ahead an incomplete message is let through at a time; never further than it reaches. */
const PERMIT_STEP = 1024 * 1024;

/** Initial limits by the kind of stream, as the extension states them. */
export interface InitialCredit {
  /** Of stream 0, one-way messages. */
  readonly messages: number;
  /** Of every other stream and direction. */
  readonly stream: number;
}

/** The sending side: what may be written. */
export class SendCredit {
  readonly #initial: InitialCredit;
  #accounts: Map<number, { spent: number; limit: number }> | undefined;

  constructor(initial: InitialCredit) {
    this.#initial = initial;
  }

  /** Charges that stream `streamId` may still spend. */
  available(streamId: number): number {
    const account = this.#accounts?.get(streamId);
    return account === undefined ? initialOf(this.#initial, streamId) : account.limit - account.spent;
  }

  spend(streamId: number, charge: number): void {
    this.#accountOf(streamId).spent += charge;
  }

  /** The peer takes up to `limit`. Returns whether that is more than before. */
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
      account = { spent: 0, limit: initialOf(this.#initial, streamId) };
      this.#accounts ??= new Map();
      this.#accounts.set(streamId, account);
    }
    return account;
  }
}

/** Where the receiving side writes its window updates. */
export interface WindowUpdates {
  /** `streamId` may carry `limit` bytes, in charges, since it began. */
  grant(streamId: number, limit: number): void;
}

export interface ReceiveCreditOptions {
  readonly initial: InitialCredit;
  /** Largest share of one stream. */
  readonly maxShare: number;
  /** What all shares together may grow by. */
  readonly pool: number;
  /** Bytes of messages that may wait complete and unread beyond their share. */
  readonly maxOverrun: number;
}

interface Account {
  readonly id: number;
  received: number;
  consumed: number;
  limit: number;
  /** Charges that may be unread at a time. */
  share: number;
  /** Where the last body began. */
  bodyStart: number;
  /** Bytes of the last body that are still to come. */
  missing: number;
  /** The stream is over, and what was received of it is not consumed. */
  isOver: boolean;
}

/** The receiving side: what is granted. */
export class ReceiveCredit {
  readonly #options: ReceiveCreditOptions;
  readonly #statements: WindowUpdates;
  #accounts: Map<number, Account> | undefined;
  #pool: number;
  /** The stream whose incomplete message is let through, and those that wait for their turn. */
  #permitted: Account | undefined;
  #waiting: Set<Account> | undefined;
  #isHeld = false;
  #unread = 0;

  constructor(options: ReceiveCreditOptions, statements: WindowUpdates) {
    this.#options = options;
    this.#statements = statements;
    this.#pool = options.pool;
  }

  /** Charges of all streams that were received and not consumed. */
  get unread(): number {
    return this.#unread;
  }

  /**
   * Counts a frame.
   *
   * @param missing bytes of its body that are still to come.
   * @throws {ProtocolError} `window_exceeded` where the sender had no credit for it.
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
      // Half a step ahead, so that the sender need not wait for the statement.
      else if (account.limit - account.received < PERMIT_STEP / 2) this.#extend(account);
    } else {
      // It may have been completed within credit that came from reading.
      this.#await(account, needsPermit(account));
    }
    this.#permit();
  }

  /**
   * A message that came whole takes `charge` more than its frames have shown. It may exceed the limit:
   * what follows on its stream waits the longer.
   */
  overdraw(streamId: number, charge: number): void {
    this.#accountOf(streamId).received += charge;
    this.#unread += charge;
  }

  /** The application has taken `charge`, or nobody will. Returns whether credit was granted. */
  consume(streamId: number, charge: number): boolean {
    const account = this.#accounts?.get(streamId);
    if (account === undefined) return false;
    account.consumed += charge;
    this.#unread -= charge;
    if (account.isOver) return account.consumed >= account.received ? this.close(streamId) : this.#permit();
    const granted = this.#replenish(account);
    this.#await(account, this.#permitted !== account && needsPermit(account));
    return this.#permit() || granted;
  }

  /** The stream is over; what of it waits to be read no longer counts. Returns whether credit was granted. */
  close(streamId: number): boolean {
    const account = this.#accounts?.get(streamId);
    if (account === undefined) return false;
    this.#accounts?.delete(streamId);
    this.#unread -= account.received - account.consumed;
    this.#pool += account.share - this.#options.initial.stream;
    this.#await(account, false);
    if (this.#permitted === account) this.#permitted = undefined;
    return this.#permit();
  }

  /**
   * The stream is over, and what of it waits counts until it is consumed.
   *
   * @param unfinished what was charged for a body that will not be handed on.
   */
  closeUnread(streamId: number, unfinished: number): void {
    const account = this.#accounts?.get(streamId);
    if (account === undefined) return;
    account.isOver = true;
    account.missing = 0;
    this.#await(account, false);
    if (this.#permitted === account) this.#permitted = undefined;
    this.consume(streamId, unfinished);
  }

  /** Statements of every open stream, for a peer that may have missed some. */
  restate(): void {
    for (const { id, limit, isOver } of this.#accounts?.values() ?? []) {
      if (limit !== Infinity && !isOver) this.#statements.grant(id, limit);
    }
  }

  /** Grants nothing more until {@link release}; what is consumed meanwhile is granted then. */
  hold(): void {
    this.#isHeld = true;
  }

  release(): void {
    this.#isHeld = false;
    // The message that is under way may have come to the end of what it was let through.
    const permitted = this.#permitted;
    if (permitted !== undefined && permitted.limit - permitted.received < PERMIT_STEP / 2)
      this.#extend(permitted);
    for (const account of this.#accounts?.values() ?? []) this.#replenish(account);
    this.#permit();
  }

  #accountOf(id: number): Account {
    let account = this.#accounts?.get(id);
    if (account === undefined) {
      const share = initialOf(this.#options.initial, id);
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

  /** Grants anew what was consumed, as soon as it is half a share. */
  #replenish(account: Account): boolean {
    // Nothing is granted where nothing is held back.
    if (this.#isHeld || account.limit === Infinity || account.isOver) return false;
    if (account.limit - account.consumed > account.share / 2) return false;
    // Whoever reads may be sent more at a time, as long as there is any to give.
    const { maxShare } = this.#options;
    const growth = Math.max(0, Math.min(account.share, maxShare - account.share, this.#pool));
    account.share += growth;
    this.#pool -= growth;
    return this.#grant(account, account.consumed + account.share);
  }

  #grant(account: Account, limit: number): boolean {
    if (limit <= account.limit) return false;
    account.limit = limit;
    this.#statements.grant(account.id, limit);
    return true;
  }

  /** What waits complete and unread beyond the share of its stream. */
  #overrun(): number {
    let total = 0;
    for (const { received, consumed, share, missing } of this.#accounts?.values() ?? []) {
      if (missing === 0) total += Math.max(0, received - consumed - share);
    }
    return total;
  }

  #extend(account: Account): boolean {
    return !this.#isHeld && this.#grant(account, account.received + Math.min(account.missing, PERMIT_STEP));
  }

  /** Puts a stream into the row of those that wait for their turn, or takes it out. */
  #await(account: Account, waits: boolean): void {
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
    if (next === undefined || this.#overrun() >= this.#options.maxOverrun) return false;
    waiting.delete(next);
    this.#permitted = next;
    return this.#extend(next);
  }
}

/** Only the message itself fills the share, so nobody can make room by reading. */
function needsPermit({ missing, consumed, bodyStart, limit, received }: Account): boolean {
  return missing > limit - received && consumed >= bodyStart;
}

function initialOf({ messages, stream }: InitialCredit, streamId: number): number {
  return streamId === 0 ? messages : stream;
}
