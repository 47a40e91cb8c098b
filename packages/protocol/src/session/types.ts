import type { CloseCode } from '../base/close-codes.js';
import type { Subprotocol } from '../base/constants.js';
import type { ProtocolError } from '../base/errors.js';
import type { BodyCounts } from '../codec/body.js';
import type { M2MSecurity } from '../codec/m2m/security.js';
import type { AgreementCache, AgreementOptions, Negotiated } from '../control/agreement.js';
import type {
  CloseReason,
  GoAwayPayload,
  HelloPayload,
  RejectPayload,
  ResumeOffer,
  ResumeRefusal,
} from '../control/messages.js';
import type { Negotiation } from '../control/negotiate.js';
import type { ContextUse } from '../link/context-coding.js';
import type { BodyToSend, LinkEvent, OutgoingTransfer } from '../link/link.js';
import type { LifecycleState } from './lifecycle.js';

/**
 * The session core, without sockets or clocks: it takes frames and clock readings and returns
 * effects; a driver applies them. Call order of a driver:
 *
 *     handle*   something happened: connected, a message, the connection was lost, time has passed
 *     commands  accept, reject, send, request, …, close
 *     pollEvent     until `undefined`: what the application must know
 *     pollTransmit  until `undefined` or the socket is full: what goes to the peer
 *
 * No method throws because of a peer: what breaks the protocol ends the session, with a close code
 * and an `ended` event that holds the error.
 */

export interface SessionOptions extends AgreementOptions {
  readonly role: 'client' | 'server';
  /** Client only: credentials for HELLO. */
  readonly token?: string | undefined;
  /** Protection that every body has to have, in either direction. @default none */
  readonly security?: M2MSecurity | undefined;
  /** Server: the answers that its sessions share. @default each session works out its own */
  readonly agreements?: AgreementCache | undefined;
  /** Unix milliseconds at clock reading 0, for the timestamps of envelopes. @default 0 */
  readonly timeOrigin?: number | undefined;
}

/** The states that a user of a session sees. */
export type SessionState = 'connecting' | 'established' | 'suspended' | 'closing' | 'closed';

export type SessionEvent =
  | LinkEvent
  /** Server: answer with `accept` or `reject`, at once or later. */
  | { readonly type: 'hello'; readonly hello: HelloPayload }
  | { readonly type: 'state'; readonly state: SessionState }
  | { readonly type: 'warning'; readonly message: string }
  /**
   * Client: the server does not know the session any more and has begun a new one on the same
   * connection with this frame. The session has ended; `ended` follows.
   */
  | { readonly type: 'superseded'; readonly accept: Uint8Array | string }
  /** Server: the client has sent new credentials; answer with `grant`, or `abort`. */
  | { readonly type: 'auth'; readonly token: string }
  /** Client: its credentials are good for this long, `Infinity` where they do not end. */
  | { readonly type: 'granted'; readonly expiresInMs: number }
  /** Client: the server drains. Nothing new can be asked, and the session ends at the deadline. */
  | ({ readonly type: 'goaway' } & GoAwayPayload)
  /** Close the connection with this code once everything before it was transmitted. */
  | { readonly type: 'disconnect'; readonly closeCode: number; readonly reason: string }
  /** The last event of a session; without an error it ended as agreed. */
  | { readonly type: 'ended'; readonly error: ProtocolError | undefined };

export interface AcceptOptions {
  /** The agent ID that the server grants. */
  readonly agentId?: string | undefined;
  /** Why the session that the client asked for is not taken up. */
  readonly refusal?: ResumeRefusal | undefined;
}

/** What of a session was not delivered when it was lost. */
export interface Undelivered {
  /** Never left this end, or not to its end. */
  readonly notSent: readonly UndeliveredBody[];
  /** Left this end, and nobody knows whether it arrived. */
  readonly unknown: readonly UndeliveredBody[];
}

export interface UndeliveredBody {
  readonly kind: 'message' | 'request' | 'reply';
  /** 0 for one-way messages. */
  readonly streamId: number;
}

/**
 * The bodies of one session, in both directions: over the link if that was negotiated, else as bare frames. Before
 * ACCEPT nothing can be sent on it.
 */
export interface Channel {
  /** Whether streams, requests and fragments are available. */
  readonly hasLink: boolean;
  /** Streams that are open in either direction. */
  readonly openStreams: number;
  /** What is kept of either direction for context coding, where that was agreed. */
  readonly contextUse: { readonly sent: ContextUse; readonly received: ContextUse } | undefined;
  /** Counted frames whose arrival the peer has confirmed. */
  readonly framesConfirmed: number;
  /** Counted frames that were written and whose arrival the peer has not confirmed. */
  readonly framesUnconfirmed: number;
  /** Bodies that were written to their end; `undefined` before the first. */
  readonly sentBodies: BodyCounts | undefined;

  /** @throws {ProtocolError} `session_closed`, `unsupported`, `message_too_large`. */
  send(body: BodyToSend): void;
  /** @throws {ProtocolError} as `send`, and `too_many_streams`, `draining`. */
  request(body: BodyToSend): number;
  /**
   * Opens a stream with a tensor, of which `feed` brings the rest.
   *
   * @throws {ProtocolError} `session_closed`, `unsupported`, `transfer_too_large`, `too_many_streams`.
   */
  transfer(transfer: OutgoingTransfer): number;
  /** The next bytes of a transfer, at least one, which must not change before they are written. */
  feed(streamId: number, bytes: Uint8Array, onWritten?: () => void): void;
  respond(streamId: number, body: BodyToSend): void;
  chunk(streamId: number, body: BodyToSend): void;
  end(streamId: number): void;
  fail(streamId: number, error: unknown): void;
  /** Does not take a tensor, also before it is whole. */
  refuse(streamId: number, error: ProtocolError): void;
  cancel(streamId: number): void;
  /**
   * The application has taken a body that was charged `charge`; 0 is the stream of messages. Returns
   * whether that gave the peer credit, so that there is something to transmit.
   */
  consume(streamId: number, charge: number): boolean;
  /** Bytes that wait on one stream. */
  queuedOn(streamId: number): number;
  /** What waits on one stream takes about so many bytes of memory. */
  memoryOf(streamId: number): number;
  /** Grants the peer no more credit, or as before: there is no memory for what it would send. */
  holdCredit(isHeld: boolean): void;
  /** Whether the far end of `streamId` still wants what would be sent. */
  isWanted(streamId: number): boolean;
}

export interface SessionCore {
  readonly channel: Channel;
  readonly state: SessionState;
  /** The state of the lifecycle machine behind {@link state}. */
  readonly lifecycle: LifecycleState;
  /** `undefined` before ACCEPT. */
  readonly id: string | undefined;
  readonly negotiated: Negotiated | undefined;
  readonly subprotocol: Subprotocol;
  /** Bytes of bodies that wait to be written. */
  readonly queuedBytes: number;
  /**
   * What waits to be written, to be confirmed or to be read takes about so many bytes of memory, the objects
   * around it included.
   */
  readonly heldBytes: number;
  /** `pollTransmit` has something, as soon as the socket has room. */
  readonly hasOutput: boolean;
  /** `pollEvent` has something. */
  readonly hasEvents: boolean;
  /** Something waits until the peer takes more. */
  readonly isBlockedOnCredit: boolean;
  /** The application does not take what arrives: the driver should read no more from the connection. */
  readonly isFull: boolean;
  /** Something waits for its turn, as the peer's rate is reached. */
  readonly isPaced: boolean;
  /** Control messages of unknown type, which were ignored; the first of them causes a `warning`. */
  readonly unknownMessages: number;
  /** What was handed over and not confirmed. */
  undelivered(): Undelivered;
  /** Milliseconds between the last PING and its PONG. */
  readonly roundTripMs: number | undefined;
  /** What the server has announced of its draining. */
  readonly goAway: GoAwayPayload | undefined;
  /** Client: how long the last REJECT asked to wait before the next connection, in milliseconds. */
  readonly retryAfterMs: number;

  /**
   * A connection is open: the first, or a further one while the session is suspended.
   *
   * @param token client: credentials of this connection. @default those of the options
   */
  handleConnected(now: number, token?: string): void;
  handleMessage(data: Uint8Array | string, now: number): void;
  /**
   * Keeps link frames, bare ones and CLOSE until {@link releaseFrames}: the codecs of the session are still
   * being loaded. None of them is counted before, so those that a lost connection leaves behind come again on
   * the next, if the session is taken up.
   */
  holdFrames(): void;
  releaseFrames(now: number): void;
  /** The driver does not read from the connection, so that silence says nothing about the peer. */
  handleUnread(now: number): void;
  /** The connection is gone. `closeCode` is what the peer closed with. */
  handleDisconnected(closeCode: number, reason: string, now: number): void;
  /** Call at or after {@link nextTimeout}; calling early or often is harmless. */
  handleTimeout(now: number): void;
  /** The earliest clock reading at which something is due, `Infinity` where nothing is. */
  nextTimeout(): number;

  /** Server: admits the client as `sessionId`, or rejects it where nothing is in common. */
  accept(sessionId: string, now: number, options?: AcceptOptions): Negotiation;
  /**
   * Server: whether `hello`, which arrived on another connection, may take this session up: `undefined`
   * where it may, else why not. Changes nothing. The caller has compared the principals.
   */
  checkResume(hello: HelloPayload, subprotocol: Subprotocol): ResumeRefusal | 'stale_attempt' | undefined;
  /**
   * Server: takes the session up for a HELLO that {@link checkResume} found in order. The session must
   * be suspended: an older connection was detached before.
   */
  resume(offer: ResumeOffer, now: number): void;
  /** Server: refuses the client. Also before its HELLO has arrived. */
  reject(reject: RejectPayload, closeCode: CloseCode, now: number): void;
  /**
   * Server: the credentials of this connection are good until `expiresAt`, in Unix milliseconds, or
   * `null` for ever. The client is told where they end, or where it has asked.
   */
  grant(expiresAt: number | null, now: number): void;
  /** Client: sends new credentials before the old ones end. */
  authenticate(token: string, now: number): void;
  /** Server: says GOAWAY, on this connection and on those that take the session up again. */
  sendGoAway(payload: GoAwayPayload, now: number): void;

  close(reason: CloseReason, message: string, now: number): void;
  /** Ends the session at once, as if the peer had broken the protocol. */
  abort(error: ProtocolError, now: number): void;

  pollTransmit(): Uint8Array | string | undefined;
  pollEvent(): SessionEvent | undefined;
}
