import { ProtocolError } from '../base/errors.js';
import type { Fields } from '../base/fields.js';
import type { SecurityStatus } from '../codec/body.js';
import type { GoAwayPayload, RebuiltLink } from '../control/messages.js';
import type { BodyToSend, LinkEvent, OutgoingTransfer } from '../link/link.js';
import type { Channel } from './body-channel.js';
import { drainingError } from './close-reason.js';
import type { SessionBegin } from './durable-session.js';
import type { SessionEvent, SessionState } from './events.js';
import type { AcceptedResume } from './resume-token.js';

/** The session, as its channel sees it. */
export interface ChannelHost {
  readonly state: SessionState;
  /** Established, or suspended: a body that is sent now is written now or after a resume. */
  readonly isOpen: boolean;
  readonly hasEnded: boolean;
  /** CLOSE was sent on this connection, so no counted frame may follow. */
  readonly hasSentClose: boolean;
  /** Data was sent or received, so the session is not idle. */
  touch(): void;
  emit(event: SessionEvent): void;
}

/** A channel as the session core sees it. */
export interface SessionChannel extends Channel {
  /** Client: the server has sent GOAWAY, so requests are refused. */
  draining: GoAwayPayload | undefined;
  /** Costs of bodies that were received and that the application has not consumed. */
  readonly unreadBytes: number;
  /** Without a link no credit holds messages back, so the driver must stop reading from the connection. */
  readonly isFull: boolean;
  /** A link frame. @throws {ProtocolError} which ends the session. */
  handleLinkFrame(frame: Uint8Array, now: number): LinkEvent | undefined;
  /**
   * A bare data frame, or the content of a text message or a DATA envelope.
   *
   * @throws {ProtocolError} which ends the session.
   */
  handlePlain(data: Uint8Array | string, now: number, securityStatus?: SecurityStatus): LinkEvent;
  handleTimeout(now: number): void;
  /** When {@link handleTimeout} has something to do, `Infinity` if nothing is due. */
  nextTimeout(): number;
  /** Acknowledges everything that was received, without waiting. */
  acknowledge(): void;
  /** CLOSE is sent: no counted frame follows. */
  stopSending(): void;
  /** @throws {ProtocolError} `bad_frame` if the peer cannot have received `received` counted frames. */
  confirmResumed(received: number): void;
  /** Continues over a new connection. @throws {ProtocolError} as {@link confirmResumed}. */
  resume(received: number): void;
  /**
   * Whether the link can be rebuilt for a peer that has received `received` counted frames: that count is possible, and
   * the memory that earlier links have left behind is within bounds.
   */
  canRebuild?(received: number): boolean;
  /**
   * Continues over a new connection with a new link. Everything that streams were doing is interrupted, and one-way
   * messages that the peer has not received are sent again. Emits `cancel` for the peer's requests and `failure` for
   * those of this end.
   */
  rebuild?(received: number): RebuiltLink;

  // Only of recorded sessions; see `DURABLE_ONLY`.

  /** Server: an ACCEPT is not recorded yet, and nothing is written before it is. */
  readonly isHeldBack?: boolean;
  /** Server: something will be written when it is recorded. */
  readonly hasUntold?: boolean;
  /** Server: counted frames that were received and may be acknowledged. */
  readonly durableFrames?: number;
  /** Server: the link is that of a former process, which the client may not know yet. */
  readonly isRestored?: boolean;
  begin?(begin: SessionBegin): void;
  recordAccept?(accept: AcceptedResume): void;
  /** Server: a page that was loaded again has taken the session up, and has written nothing since. */
  readonly isTakenUp?: boolean;
  /** @param isReloaded whether the client is a page that was loaded again, which has nothing else. */
  canGoOnFrom?(have: Fields, isReloaded: boolean): boolean;
  goOnFrom?(have: Fields, isReloaded: boolean): RebuiltLink;
  /** Server: the record lacks commits whose effects the client has seen, and the client may not know that. */
  readonly isBehind?: boolean;
  /** Server: the client knows that the record was behind. */
  handleBehindTold?(): void;
  /** Client: its state, for a server that no longer has the link. */
  stateHave?(): Fields;
  /** Client: as {@link stateHave}, of what the next page will have. */
  readonly left?: Fields;
  /**
   * Client: continues with a new link.
   *
   * @throws {ProtocolError} `bad_acceptance` if the server has something else than what the client has written.
   */
  goOnWith?(kept: Fields): void;
}

/** A channel before ACCEPT: nothing can be sent and there is no stream, so the other verbs do nothing. */
export class ClosedChannel implements SessionChannel {
  draining: GoAwayPayload | undefined;
  protected readonly session: ChannelHost;

  constructor(session: ChannelHost) {
    this.session = session;
  }

  get hasLink(): boolean {
    return false;
  }
  get openStreams(): number {
    return 0;
  }
  get freeStreams(): number {
    return Infinity;
  }
  get maxStreams(): number {
    return Infinity;
  }
  get contextUse(): Channel['contextUse'] {
    return undefined;
  }
  get packedBytes(): number {
    return 0;
  }
  get framesConfirmed(): number {
    return 0;
  }
  get framesUnconfirmed(): number {
    return 0;
  }
  get framesReceived(): number {
    return 0;
  }
  get sentBodies(): Channel['sentBodies'] {
    return undefined;
  }
  get unreadBytes(): number {
    return 0;
  }
  get isFull(): boolean {
    return false;
  }

  send(_body: BodyToSend): void {
    throw nothingSent(this.session);
  }
  request(_body: BodyToSend): number {
    throw nothingSent(this.session);
  }
  transfer(_transfer: OutgoingTransfer): number {
    throw nothingSent(this.session);
  }
  feed(): void {}
  respond(_streamId: number, body: BodyToSend): void {
    body.onDropped?.();
  }
  chunk(_streamId: number, body: BodyToSend): void {
    body.onDropped?.();
  }
  end(): void {}
  fail(): void {}
  refuse(): void {}
  cancel(): void {}
  consume(_streamId: number, _charge: number): boolean {
    return false;
  }
  queuedOn(_streamId: number): number {
    return 0;
  }
  withdraw(_onDropped: () => void): boolean {
    return false;
  }
  runToCompletion(): void {}
  memoryOf(_streamId: number): number {
    return 0;
  }
  holdCredit(): void {}
  isWanted(): boolean {
    return false;
  }

  handleLinkFrame(): undefined {
    return undefined;
  }
  handlePlain(_data: Uint8Array | string, _now: number, _securityStatus?: SecurityStatus): LinkEvent {
    throw new ProtocolError('protocol_violation', 'data before ACCEPT');
  }
  handleTimeout(): void {}
  nextTimeout(): number {
    return Infinity;
  }
  acknowledge(): void {}
  stopSending(): void {}
  confirmResumed(): void {}
  resume(): void {}
}

/** Before a body is sent. @throws {ProtocolError} `session_closed`. */
export function assertOpen(session: ChannelHost): void {
  if (!session.isOpen) throw nothingSent(session);
  session.touch();
}

export function nothingSent({ state }: Pick<ChannelHost, 'state'>): ProtocolError {
  return new ProtocolError('session_closed', `the session is ${state}; nothing can be sent`);
}

/** Before a request. @throws {ProtocolError} `draining` after GOAWAY, until the session is closed. */
export function assertNotDraining(goAway: GoAwayPayload | undefined, { state }: ChannelHost): void {
  if (goAway !== undefined && state !== 'closed') throw drainingError(goAway);
}
