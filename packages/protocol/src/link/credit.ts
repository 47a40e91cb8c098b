import { ProtocolError } from '../errors.js';

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

/** The sending side: what may be written. */
export interface SendCredit {
  /** Charges that stream `streamId` may still spend. */
  available(streamId: number): number;
  spend(streamId: number, charge: number): void;
  /** The peer takes up to `limit`. Returns whether that is more than before. */
  raise(streamId: number, limit: number): boolean;
  /** The stream is over in this direction. */
  forget(streamId: number): void;
}

/** Initial limits by the kind of stream, as the extension states them. */
export interface InitialCredit {
  /** Of stream 0, one-way messages. */
  readonly messages: number;
  /** Of every other stream and direction. */
  readonly stream: number;
}

export function createSendCredit(initial: InitialCredit): SendCredit {
  const spent = new Map<number, number>();
  const limits = new Map<number, number>();
  const limitOf = (streamId: number) =>
    limits.get(streamId) ?? (streamId === 0 ? initial.messages : initial.stream);
  return {
    available: (streamId) => limitOf(streamId) - (spent.get(streamId) ?? 0),
    spend(streamId, charge) {
      spent.set(streamId, (spent.get(streamId) ?? 0) + charge);
    },
    raise(streamId, limit) {
      if (limit <= limitOf(streamId)) return false;
      limits.set(streamId, limit);
      return true;
    },
    forget(streamId) {
      spent.delete(streamId);
      limits.delete(streamId);
    },
  };
}

/** The receiving side: what is granted. */
export interface ReceiveCredit {
  /**
   * Counts a frame.
   *
   * @param missing bytes of its body that are still to come.
   * @throws {ProtocolError} `window_exceeded` where the sender had no credit for it.
   */
  receive(streamId: number, charge: number, missing: number): void;
  /** The application has taken `charge`, or nobody will. Returns whether credit was granted. */
  consume(streamId: number, charge: number): boolean;
  /** The stream is over; what of it waits to be read no longer counts. */
  close(streamId: number): void;
  /** Statements of every open stream, for a peer that may have missed some. */
  restate(): void;
}

export interface ReceiveCreditOptions {
  readonly initial: InitialCredit;
  /** Largest share of one stream. */
  readonly maxShare: number;
  /** What all shares together may grow by. */
  readonly pool: number;
  /** Bytes of messages that may wait complete and unread beyond their share. */
  readonly maxOverrun: number;
  /** Says to the peer that `streamId` may send up to `limit`. */
  readonly state: (streamId: number, limit: number) => void;
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
}

export function createReceiveCredit(options: ReceiveCreditOptions): ReceiveCredit {
  const { initial, maxShare, maxOverrun, state } = options;
  const accounts = new Map<number, Account>();
  let pool = options.pool;
  /** The stream whose incomplete message is let through, and those that wait for their turn. */
  let permitted: Account | undefined;
  const waiting = new Set<Account>();

  const accountOf = (id: number): Account => {
    let account = accounts.get(id);
    if (account === undefined) {
      const share = id === 0 ? initial.messages : initial.stream;
      account = { id, received: 0, consumed: 0, limit: share, share, bodyStart: 0, missing: 0 };
      accounts.set(id, account);
    }
    return account;
  };

  const grant = (account: Account, limit: number): boolean => {
    if (limit <= account.limit) return false;
    account.limit = limit;
    state(account.id, limit);
    return true;
  };

  /** What waits complete and unread beyond the share of its stream. */
  const overrun = (): number => {
    let total = 0;
    for (const { received, consumed, share, missing } of accounts.values()) {
      if (missing === 0) total += Math.max(0, received - consumed - share);
    }
    return total;
  };

  /** Only the message itself fills the share, so nobody can make room by reading. */
  const needsPermit = ({ missing, consumed, bodyStart, limit, received }: Account): boolean =>
    missing > limit - received && consumed >= bodyStart;

  const extend = (account: Account): boolean =>
    grant(account, account.received + Math.min(account.missing, PERMIT_STEP));

  const permit = (): boolean => {
    if (permitted !== undefined || waiting.size === 0) return false;
    const [next] = waiting;
    if (next === undefined || overrun() >= maxOverrun) return false;
    waiting.delete(next);
    permitted = next;
    return extend(next);
  };

  return {
    receive(streamId, charge, missing) {
      const account = accountOf(streamId);
      if (account.missing === 0) account.bodyStart = account.received;
      account.missing = missing;
      account.received += charge;
      if (account.received > account.limit) {
        throw new ProtocolError(
          'window_exceeded',
          `stream ${streamId} sent more than its credit of ${account.limit}`,
        );
      }
      if (permitted === account) {
        if (missing === 0) permitted = undefined;
        // Half a step ahead, so that the sender need not wait for the statement.
        else if (account.limit - account.received < PERMIT_STEP / 2) extend(account);
      } else if (needsPermit(account)) {
        waiting.add(account);
      } else {
        // It may have been completed within credit that came from reading.
        waiting.delete(account);
      }
      permit();
    },

    consume(streamId, charge) {
      const account = accounts.get(streamId);
      if (account === undefined) return false;
      account.consumed += charge;
      let granted = false;
      if (account.limit - account.consumed <= account.share / 2) {
        // Whoever reads may be sent more at a time, as long as there is any to give.
        const growth = Math.max(0, Math.min(account.share, maxShare - account.share, pool));
        account.share += growth;
        pool -= growth;
        granted = grant(account, account.consumed + account.share);
      }
      if (permitted !== account && needsPermit(account)) waiting.add(account);
      else waiting.delete(account);
      return permit() || granted;
    },

    close(streamId) {
      const account = accounts.get(streamId);
      if (account === undefined) return;
      accounts.delete(streamId);
      pool += account.share - initial.stream;
      waiting.delete(account);
      if (permitted === account) permitted = undefined;
      permit();
    },

    restate() {
      for (const { id, limit } of accounts.values()) state(id, limit);
    },
  };
}
