import type { Subprotocol } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import type { StringMap } from '../base/fields.js';
import type { Negotiated } from '../control/agreement.js';
import type {
  ControlMessage,
  GoAwayPayload,
  HelloPayload,
  LaterCodec,
  ResumeOffer,
  ResumeRefusal,
} from '../control/messages.js';
import type { Negotiation } from '../control/negotiate.js';
import type { Outbox } from '../link/outbox.js';
import type { RateLimiter } from '../link/rates.js';
import type { LastStreams } from '../link/streams.js';
import type { ChannelOptions, TakenUpBodies } from './channel-options.js';
import type { ChannelHost, SessionChannel } from './closed-channel.js';
import type { ControlWriter } from './control-writer.js';
import type { LifecycleEvent } from './lifecycle.js';
import type { Ticket } from './resume-ticket.js';
import type { RoleDeadlines, SessionTimers } from './timers.js';
import type { AcceptOptions, SessionCore, SessionEvent, SessionOptions } from './types.js';

/** The control messages that only one role may send, or that differ between the roles. */
export type RoleMessage = Extract<
  ControlMessage,
  { readonly type: 'HELLO' | 'ACCEPT' | 'REJECT' | 'AUTH' | 'GOAWAY' | 'READY' }
>;

/** The end of a connection, as a role knows it. */
export interface Disconnection {
  /** The connection was lost, rather than closed for good: another one may resume the session. */
  readonly isLoss: boolean;
  /** Client: the error of a REJECT that came before the close code. */
  readonly rejection?: ProtocolError | undefined;
}

/** The half of a session that differs between client and server: handshake, resume, credentials, GOAWAY. */
export interface Role extends RoleDeadlines {
  /** Resume was agreed, and the session can still be resumed. */
  readonly isResumable: boolean;
  /** Milliseconds for which the server keeps the session without a connection. */
  readonly windowMs: number;
  /** The part of it that the present loss of a connection leaves. */
  readonly suspensionMs: number;
  /** Client: a REJECT was received; the session ends with the close code that follows. */
  readonly isRejected: boolean;
  /** The text with which a handshake that took too long is reported. */
  readonly handshakeTimeout: string;
  readonly goAway: GoAwayPayload | undefined;
  /** Server: agreed codecs whose code the client has not loaded yet. */
  readonly awaitedCodecs: ReadonlySet<LaterCodec>;
  /** See {@link SessionCore}. */
  readonly resumeProof: SessionCore['resumeProof'];
  /** Client: how long the last REJECT asked to wait, in milliseconds. */
  readonly retryAfterMs: number;
  /** Server: creates the channel of a session with a link. @default a `LinkChannel` */
  createChannel?(host: ChannelHost, options: ChannelOptions): SessionChannel;
  /** Client: the data with which another page takes the session up. */
  readonly ticket: Ticket | undefined;
  /** See {@link SessionCore}. */
  readonly proof: Ticket | undefined;
  /** Server: enforces the announced rates, from ACCEPT on. */
  readonly limiter: RateLimiter | undefined;

  /** Client: makes the HELLO of the next connection, which states these credentials. */
  hello?(token: string | undefined): Uint8Array | string;
  /** A connection was opened. @param token client: its credentials. @param isSaid client: its HELLO has arrived. */
  handleConnected(token: string | undefined, isSaid: boolean): void;
  handleDisconnected(closeCode: number): Disconnection;
  /** @throws {ProtocolError} if the message is malformed, out of place or for the other role to send. */
  handleControl(message: RoleMessage, frame: Uint8Array | string): void;
  handlePong(): void;
  /** Client: the connection may be gone. */
  probe?(): void;
  /** A link frame was received, so the peer has received the last ACCEPT. */
  handleLinkFrame(): void;
  /** The session cannot be resumed any more. */
  forget(): void;

  /** See the commands of {@link SessionCore}. */
  accept(sessionId: string, options: AcceptOptions): Negotiation;
  checkResume(hello: HelloPayload, subprotocol: Subprotocol): ResumeRefusal | 'stale_attempt' | undefined;
  resume(offer: ResumeOffer): number | undefined;
  grant(expiresAt: number | null): void;
  authenticate(token: string): void;
  announceReady(codecs: readonly LaterCodec[]): void;
  sendGoAway(payload: GoAwayPayload): void;
}

/** The session, as its role sees it. */
export interface RoleHost extends Pick<SessionCore, 'id' | 'lifecycle' | 'negotiated'> {
  readonly options: SessionOptions;
  readonly timers: SessionTimers;
  readonly control: ControlWriter;
  readonly outbox: Outbox;
  readonly channel: SessionChannel;
  readonly isConnected: boolean;
  readonly isEstablished: boolean;
  /** The connection is lost, and another one may resume the session. */
  readonly isLost: boolean;

  emit(event: SessionEvent): void;
  /** Steps the lifecycle. */
  apply(event: LifecycleEvent): void;
  /** Notes that a connection is open. */
  connect(): void;
  /**
   * Pins the agreement and opens the channel.
   *
   * @param last client: the streams of a session that it has taken up.
   * @param takenUp client: its bodies, if it is recorded.
   */
  agree(
    sessionId: string,
    negotiated: Negotiated,
    peerExtensions: StringMap,
    last?: LastStreams,
    takenUp?: TakenUpBodies,
  ): void;
  /** The new connection has resumed the session. */
  handleResumed(): void;
  /**
   * Client: the server has begun another session instead of resuming this one.
   *
   * @param accept the frame that began it.
   */
  handleSuperseded(error: ProtocolError, accept: Uint8Array | string): void;
  /** Ends the session with an error. */
  violate(error: ProtocolError): void;
}

/** The error for a command that only the other role has. */
export function onlyFor(role: 'client' | 'server'): ProtocolError {
  return new ProtocolError('invalid_argument', `only a ${role} has this command`);
}
