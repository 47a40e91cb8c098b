import type { ProtocolError } from '../../base/errors.js';
import type { Unconfirmed } from '../../session/types.js';
import type { Side } from './network.js';

/**
 * The checker. It does not know frames, acknowledgement or credit. It compares what one application
 * sent with what the other received, and the reported end of a session with what happened to it.
 */

/** History of one end of a session. */
interface End {
  /** Bodies that the application sent, by stream; stream 0 is one-way messages. */
  readonly sent: Map<number, number[]>;
  /** Bodies that the application received, by stream. */
  readonly received: Map<number, number[]>;
  readonly cancelled: Set<number>;
  /** How often a stream that this end opened has ended. */
  readonly finished: Map<number, number>;
  /** This end knows the session. */
  hasJoined: boolean;
  /** When this end lost its connection, as its driver knows; infinite while connected. */
  lostAt: number;
  /** Its own application closed the session. */
  hasClosed: boolean;
  /** When this end began to close, or learned that the other end does. */
  closingAt: number;
  outcome: Outcome | undefined;
}

interface Outcome {
  readonly at: number;
  readonly error: ProtocolError | undefined;
  readonly undelivered: Unconfirmed;
}

interface Entry {
  readonly client: End;
  readonly server: End;
  /** The server was restarted and no longer knows the session. */
  isForgotten: boolean;
}

export interface LedgerTimes {
  readonly windowMs: number;
  readonly closingMs: number;
}

export class Ledger {
  readonly faults: string[] = [];
  readonly #times: LedgerTimes;
  readonly #sessions = new Map<string, Entry>();

  constructor(times: LedgerTimes) {
    this.#times = times;
  }

  /** Bodies that arrived, over all sessions. */
  get delivered(): number {
    let total = 0;
    for (const { client, server } of this.#sessions.values()) {
      for (const end of [client, server]) for (const { length } of end.received.values()) total += length;
    }
    return total;
  }

  // --- recording

  joined(session: string, side: Side): void {
    this.#end(session, side).hasJoined = true;
  }

  sent(session: string, side: Side, streamId: number, number: number): void {
    append(this.#end(session, side).sent, streamId, number);
  }

  received(session: string, side: Side, streamId: number, number: number | string): void {
    if (typeof number === 'string') this.#fault(session, side, number);
    else append(this.#end(session, side).received, streamId, number);
  }

  cancelled(session: string, side: Side, streamId: number): void {
    this.#end(session, side).cancelled.add(streamId);
  }

  /** A handler at `side` was notified that its request is cancelled. */
  cancelArrived(session: string, side: Side, streamId: number): void {
    if (!this.#end(session, other(side)).cancelled.has(streamId))
      this.#fault(session, side, `stream ${streamId} was never cancelled`);
  }

  finished(session: string, side: Side, streamId: number): void {
    const { finished } = this.#end(session, side);
    const times = (finished.get(streamId) ?? 0) + 1;
    finished.set(streamId, times);
    if (times > 1) this.#fault(session, side, `stream ${streamId} has ended ${times} times`);
  }

  lost(session: string, side: Side, now: number): void {
    const end = this.#end(session, side);
    // A failed reconnection attempt is not another loss.
    end.lostAt = Math.min(end.lostAt, now);
  }

  resumed(session: string, side: Side): void {
    this.#end(session, side).lostAt = Infinity;
  }

  closed(session: string, side: Side): void {
    this.#end(session, side).hasClosed = true;
  }

  closing(session: string, side: Side, now: number): void {
    const end = this.#end(session, side);
    end.closingAt = Math.min(end.closingAt, now);
  }

  forgotten(session: string): void {
    this.#entry(session).isForgotten = true;
  }

  ended(session: string, side: Side, outcome: Outcome): void {
    const end = this.#end(session, side);
    if (end.outcome !== undefined) this.#fault(session, side, 'ended twice');
    end.outcome = outcome;
    const { error } = outcome;
    if (!this.#isJustified(session, side, outcome))
      this.#fault(
        session,
        side,
        `ended without a valid reason: ${error?.code ?? 'no error'}, ${error?.message ?? ''}`,
      );
  }

  // --- checking

  /** Both ends have ended the session without an error. */
  hasEndedInOrder(session: string): boolean {
    const { client, server } = this.#entry(session);
    return [client, server].every(({ outcome }) => outcome !== undefined && outcome.error === undefined);
  }

  /** A session may end because it was closed, or because it had no connection for a resume window. */
  #isJustified(session: string, side: Side, { at, error }: Outcome): boolean {
    const entry = this.#entry(session);
    const end = entry[side];
    const isDeferred = at - end.closingAt >= this.#times.closingMs;
    switch (error?.code) {
      case undefined:
        return end.closingAt < Infinity;
      case 'session_lost': {
        const far = entry[other(side)];
        // If only one end has closed, the other stays until it learns that this end knows.
        const hasLeft = far.outcome !== undefined && (far.outcome.error !== undefined || far.hasClosed);
        // The client may never have joined: ACCEPT was lost, or arrived when the client was about to close.
        const isGone = hasLeft || !far.hasJoined || entry.isForgotten;
        return isGone || isDeferred || at - end.lostAt >= this.#times.windowMs;
      }
      case 'timeout':
        return isDeferred;
      default:
        return false;
    }
  }

  /** Compares the two ends of every session, once they have settled. */
  check(): readonly string[] {
    for (const [session, entry] of this.#sessions) {
      for (const side of ['client', 'server'] as const) this.#checkDirection(session, side, entry);
    }
    return this.faults;
  }

  /** Compares what `side` sent with what the other end received. */
  #checkDirection(session: string, side: Side, entry: Entry): void {
    const from = entry[side];
    const to = entry[other(side)];
    for (const streamId of new Set([...from.sent.keys(), ...to.received.keys()])) {
      const sent = from.sent.get(streamId) ?? [];
      const received = to.received.get(streamId) ?? [];
      if (received.some((number, i) => number !== sent[i])) {
        this.#fault(session, side, `stream ${streamId}: got [${tail(received)}] of [${tail(sent)}]`);
        continue;
      }
      const isCancelled = from.cancelled.has(streamId) || to.cancelled.has(streamId);
      if (isCancelled || entry.isForgotten) continue;
      const { least, most } = expected(from, streamId, sent.length);
      if (received.length < least || received.length > most) {
        this.#fault(
          session,
          side,
          `stream ${streamId}: ${received.length} of ${sent.length} arrived, the sender reports ${least} to ${most}`,
        );
      }
    }
    if (from.outcome !== undefined || to.outcome !== undefined || entry.isForgotten) return;
    for (const streamId of from.sent.keys()) {
      if (streamId !== 0 && isOwn(side, streamId) && from.finished.get(streamId) !== 1)
        this.#fault(session, side, `stream ${streamId} has not ended`);
    }
  }

  #end(session: string, side: Side): End {
    return this.#entry(session)[side];
  }

  #entry(session: string): Entry {
    let entry = this.#sessions.get(session);
    if (entry === undefined) {
      entry = { client: createEnd(), server: createEnd(), isForgotten: false };
      this.#sessions.set(session, entry);
    }
    return entry;
  }

  #fault(session: string, side: Side, what: string): void {
    this.faults.push(`${session}, ${side}: ${what}`);
  }
}

/** How many of `count` bodies may have arrived according to their sender. */
function expected(from: End, streamId: number, count: number): { least: number; most: number } {
  // An end that is still open reports that all arrived, and one without an error that all messages did: closing may cut streams short.
  const { outcome } = from;
  if (outcome === undefined || (outcome.error === undefined && streamId === 0))
    return { least: count, most: count };
  const { notSent, unknown } = outcome.undelivered;
  const on = (bodies: Unconfirmed['notSent']) => bodies.filter((body) => body.streamId === streamId).length;
  return { least: count - on(notSent) - on(unknown), most: count - on(notSent) };
}

/** Clients open odd streams. */
const isOwn = (side: Side, streamId: number) => (streamId % 2 === 1) === (side === 'client');
const other = (side: Side): Side => (side === 'client' ? 'server' : 'client');
const tail = (numbers: readonly number[]) => numbers.slice(-8).join();

function append(lists: Map<number, number[]>, key: number, number: number): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [number]);
  else list.push(number);
}

function createEnd(): End {
  return {
    sent: new Map(),
    received: new Map(),
    cancelled: new Set(),
    finished: new Map(),
    hasJoined: false,
    lostAt: Infinity,
    hasClosed: false,
    closingAt: Infinity,
    outcome: undefined,
  };
}
