import { type ClosePayload, CloseReason, type CloseStatement } from '../control/messages.js';
import { decodeLinkFrame, LinkFlag, LinkKind, type OutgoingBody } from '../link/frame.js';
import type { Outbox } from '../link/outbox.js';
import type { UnwrittenBody } from '../link/send-queue.js';
import type { Unconfirmed, UnconfirmedBody } from './types.js';

/**
 * The closing handshake. Each end sends CLOSE once everything else is written; an end that has sent and
 * received CLOSE leaves when the peer has acknowledged everything. CLOSE is not replayed: after a lost
 * connection the resumed session sends it again.
 */
export const ClosingState = {
  /** Neither end closes. */
  OPEN: 'open',
  /** This end closes, and first writes what waits. */
  BEGUN: 'begun',
  /** This end has sent CLOSE. */
  SENT: 'sent',
  /** This end closes, and the peer's CLOSE arrived before its own was sent. */
  RECEIVED: 'received',
  /** This end closes, and both CLOSEs are exchanged. */
  EXCHANGED: 'exchanged',
  /** The peer closes; this end first writes what waits. */
  ASKED: 'asked',
  /** The peer closes, and this end has answered. */
  ANSWERED: 'answered',
} as const;
export type ClosingState = (typeof ClosingState)[keyof typeof ClosingState];

/** The events that advance the handshake. */
export type ClosingEvent =
  /** The lifecycle begins to close. */
  | 'begin'
  /** CLOSE is sent. */
  | 'send'
  /** CLOSE was received. */
  | 'receive'
  /** The connection is lost, and the session waits to be resumed. */
  | 'lose';

/** The state that follows; an event that is not listed changes nothing. */
export const CLOSING_STEPS: Readonly<Record<ClosingState, Partial<Record<ClosingEvent, ClosingState>>>> = {
  open: { begin: 'begun', receive: 'asked' },
  begun: { send: 'sent', receive: 'received' },
  sent: { receive: 'exchanged', lose: 'begun' },
  received: { send: 'exchanged' },
  exchanged: { lose: 'received' },
  asked: { send: 'answered' },
  answered: { lose: 'asked' },
};

const NORMAL_CLOSE: ClosePayload = Object.freeze({ reason: CloseReason.NORMAL, message: '' });

/** How a session closes, and what it leaves undelivered. */
export class Closing {
  state: ClosingState = ClosingState.OPEN;
  /** The payload of this end's CLOSE. */
  payload: ClosePayload = NORMAL_CLOSE;
  /** The payload of the peer's CLOSE. */
  received: ClosePayload | undefined;
  readonly #outbox: Outbox;
  /** Bodies that were cut short. */
  readonly #dropped: UnconfirmedBody[] = [];
  /** Clock reading at which the streams that the peer does not read are cut short; `Infinity` unless only these are left. */
  stallEnds = Infinity;
  /** Set when the session fails, which clears the outbox. */
  #final: Unconfirmed | undefined;

  constructor(outbox: Outbox) {
    this.#outbox = outbox;
  }

  /** CLOSE was sent on the present connection. */
  get hasSent(): boolean {
    const { state } = this;
    return state === 'sent' || state === 'exchanged' || state === 'answered';
  }

  get hasReceived(): boolean {
    const { state } = this;
    return state !== 'open' && state !== 'begun' && state !== 'sent';
  }

  /** The CLOSE of the end that has closed first, or of the only one that gives a code. */
  get statement(): CloseStatement {
    const { state, payload, received } = this;
    const isAsked = state === 'asked' || state === 'answered';
    const isRemote =
      received !== undefined && payload.code === undefined && (isAsked || received.code !== undefined);
    const { code, message } = isRemote ? received : payload;
    return { side: isRemote ? 'remote' : 'local', code, reason: message };
  }

  step(event: ClosingEvent): void {
    // If the connection is lost, credit that the peer has granted comes again after the resume.
    this.stallEnds = Infinity;
    this.state = CLOSING_STEPS[this.state][event] ?? this.state;
  }

  /**
   * The next step of the handshake, while nothing else can be written.
   *
   * @param isAcknowledged the peer has received everything that was written.
   * @param canResume another connection may resume the session. The end that only answers then stays until the
   * other has left, as its answer may be lost with the connection.
   * @param timeoutMs streams of which the peer reads nothing for a tenth of it are cut short.
   */
  due(isAcknowledged: boolean, canResume: boolean, now: number, timeoutMs: number) {
    if (!this.hasSent) {
      const isStalled =
        isAcknowledged &&
        this.#outbox.parts.queues.every((queue) => queue.isEmpty || (queue.blocked && queue.streamId > 0));
      this.stallEnds = isStalled ? Math.min(this.stallEnds, now + timeoutMs / 10) : Infinity;
      if (now >= this.stallEnds) this.cutShort(false);
      return this.#outbox.hasBodies ? undefined : 'send';
    }
    const mayLeave = this.state === 'exchanged' || (this.state === 'answered' && !canResume);
    return mayLeave && isAcknowledged ? 'leave' : undefined;
  }

  /** The peer has closed and received everything, so the session may end without an error. */
  isSettled(isAcknowledged: boolean): boolean {
    return this.hasReceived && isAcknowledged && this.#outbox.unwritten().length === 0;
  }

  // --- undelivered bodies

  /** Cuts streams short: all of them, or only tensors that are still being generated. */
  cutShort(onlySources: boolean): void {
    for (const queue of this.#outbox.parts.queues) {
      if (queue.streamId === 0 || (onlySources && queue.streamed === undefined)) continue;
      this.#dropped.push(...queue.unwritten().map(unsent));
      this.#outbox.drop(queue.streamId);
    }
  }

  /** The session has failed: forgets what waits, but for {@link undelivered}. */
  clear(): void {
    this.#final = this.unconfirmed();
    this.#outbox.clear();
  }

  unconfirmed(): Unconfirmed {
    if (this.#final !== undefined) return this.#final;
    const notSent = [...this.#dropped, ...this.#outbox.unwritten().map(unsent)];
    const unknown: UnconfirmedBody[] = [];
    for (const bytes of this.#outbox.unconfirmed()) {
      const { kind, flags, streamId } = decodeLinkFrame(bytes);
      // A body counts once, by its last frame; signals are not bodies.
      if (kind <= LinkKind.CHUNK && !(flags & LinkFlag.MORE)) unknown.push(describe(kind, streamId));
    }
    return { notSent, unknown };
  }
}

/** A body that was not written to its end; without a link all are messages. */
function unsent(body: UnwrittenBody): UnconfirmedBody {
  return 'bare' in body ? describe(LinkKind.MESSAGE, 0) : describe(body.kind, body.streamId);
}

function describe(kind: OutgoingBody['kind'] | LinkKind, streamId: number): UnconfirmedBody {
  if (kind === LinkKind.MESSAGE) return { kind: 'message', streamId };
  return { kind: kind === LinkKind.REQUEST ? 'request' : 'reply', streamId };
}
