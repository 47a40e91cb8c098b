import type { CloseCode } from '../base/close-codes.js';
import type { Subprotocol } from '../base/constants.js';
import type { ProtocolError } from '../base/errors.js';
import type { Limits } from '../base/limits.js';
import type { BodyCodec } from '../codec/body.js';
import type { M2MSecurity } from '../codec/m2m/security.js';
import type { AgreementCache, AgreementOptions, Answer, Negotiated } from '../control/agreement.js';
import type {
  CloseReason,
  CloseStatement,
  GoAwayPayload,
  HelloPayload,
  LaterCodec,
  RejectPayload,
  ResumeOffer,
  ResumeRefusal,
} from '../control/messages.js';
import type { Negotiation } from '../control/negotiate.js';
import type { Channel } from './body-channel.js';
import type { ChannelModule } from './channel-module.js';
import type { DurableSession } from './durable-session.js';
import type { SessionEvent, SessionState } from './events.js';
import type { LifecycleState } from './lifecycle.js';
import type { Ticket } from './resume-ticket.js';

export type { Channel } from './body-channel.js';
export type { SessionEvent, SessionState, Throttled } from './events.js';

/**
 * The session core, without sockets or clocks: it takes frames and clock readings and returns effects, which a
 * driver applies. A driver calls, in this order:
 *
 *     handle*       something happened: connected, a message, the connection was lost, time has passed
 *     commands      accept, reject, send, request, …, close
 *     pollEvent     until `undefined`: events for the application
 *     pollTransmit  until `undefined` or the socket is full: frames for the peer
 *
 * No method throws because of a peer: a violation of the protocol ends the session, with a close code and an `ended`
 * event that holds the error. A command that only the other role has throws `invalid_argument`.
 */

export interface SessionOptions extends AgreementOptions {
  readonly role: 'client' | 'server';
  /** Client only: the session that the first HELLO asks to take up. @default it begins a new session */
  readonly ticket?: Ticket | undefined;
  /** Client only: credentials for HELLO. */
  readonly token?: string | undefined;
  /**
   * Client only: the server has refused the credentials of a connection that was to resume the session. Returns after how many
   * milliseconds the driver opens another one with others; `undefined` if there are none. @default there are none
   */
  readonly onRefused?: (() => number | undefined) | undefined;
  /** Protection that every body must have, in either direction. @default none */
  readonly security?: M2MSecurity | undefined;
  /** Server: the answers that its sessions share. @default each session computes its own */
  readonly agreements?: AgreementCache | undefined;
  /**
   * Whether bodies in a codec can be decoded now. The core holds frames that come before, and asks for the code with
   * a `codec` event. @default always
   */
  readonly isDecodable?: ((codec: BodyCodec, negotiated: Negotiated) => boolean) | undefined;
  /** Server: the most bytes of bodies and state in the record of a session. @default Infinity */
  readonly maxRecordSize?: number | undefined;
  /**
   * Server: parts are told while they are being recorded, unless the handler is called again when this
   * process dies. @default false: once they are recorded
   */
  readonly tellsBeside?: boolean | undefined;
  /**
   * Unix milliseconds at clock reading 0, as the clock of the machine is set now, for the timestamps of envelopes and the end of
   * credentials. @default 0
   */
  readonly timeOrigin?: number | undefined;
}

export interface AcceptOptions {
  /** The ID that the server grants to the client. */
  readonly agentId?: string | undefined;
  /** Why the session that the client asked for is not resumed. */
  readonly refusal?: ResumeRefusal | undefined;
  /** The session is recorded, if the client has agreed to that; see `ServerSessionCore.record`. @default false */
  readonly isDurable?: boolean | undefined;
}

/** The bodies of a session that were not delivered when it ended. */
export interface Unconfirmed {
  /** Not written to the connection, or not completely. */
  readonly notSent: readonly UnconfirmedBody[];
  /** Written and not acknowledged; the peer may have received it or not. */
  readonly unknown: readonly UnconfirmedBody[];
}

export interface UnconfirmedBody {
  readonly kind: 'message' | 'request' | 'reply';
  /** 0 for one-way messages. */
  readonly streamId: number;
}

export interface SessionCore {
  readonly channel: Channel;
  readonly state: SessionState;
  /** The state of the lifecycle machine, which {@link state} summarises. */
  readonly lifecycle: LifecycleState;
  /** `undefined` before ACCEPT. */
  readonly id: string | undefined;
  readonly negotiated: Negotiated | undefined;
  /** Those of the options; after ACCEPT, what a client has not set is within what its server states. */
  readonly limits: Limits;
  readonly subprotocol: Subprotocol;
  /** Bytes of bodies that wait to be written. */
  readonly queuedBytes: number;
  /** Estimated memory, in bytes, of what waits to be written, acknowledged or read, objects included. */
  readonly heldBytes: number;
  /** `pollTransmit` has a frame for the socket. */
  readonly hasOutput: boolean;
  /** `pollEvent` has an event. */
  readonly hasEvents: boolean;
  /** A body waits until the peer grants more credit. */
  readonly isBlockedOnCredit: boolean;
  /** The application does not consume what arrives: the driver should stop reading from the connection. */
  readonly isFull: boolean;
  /** A body waits because the peer's rate limit is reached. */
  readonly isPaced: boolean;
  /** Server: the client sends as much as the rates allow, so that it has to wait. */
  isPeerPaced(now: number): boolean;
  /** Control messages of unknown type, which were ignored; the first of them causes a `warning`. */
  readonly unknownMessages: number;
  /** Server: codecs that the client has agreed on and whose code it has not loaded yet. */
  readonly awaitedCodecs: ReadonlySet<LaterCodec>;
  /** The bodies that were sent and not acknowledged. */
  unconfirmed(): Unconfirmed;
  /** Milliseconds between the last PING and its PONG. */
  readonly roundTripMs: number | undefined;
  /** How long nothing has come, in milliseconds, if a PING is unanswered; `undefined` if the peer is heard. */
  silentMs(now: number): number | undefined;
  /** The last GOAWAY without `move`: at the client the received one, at the server the one that it sent. */
  readonly goAway: GoAwayPayload | undefined;
  /** Server: checks resume tokens of the session, also after its end; `undefined` without resume. */
  readonly resumeProof:
    | {
        matches(token: string): boolean;
        readonly tokens: readonly string[];
        /** The HELLO that has begun the session has a nonce, and nothing has shown that its client has received ACCEPT. */
        readonly isUnseen?: boolean;
      }
    | undefined;
  /** Client: the data with which another page takes the session up; `undefined` if it cannot. */
  readonly ticket: Ticket | undefined;
  /**
   * Client: with it, the session that follows this one proves that it is of the same client, which may follow its
   * kept reply; `undefined` if that was not agreed on (`PROOF_FOR`).
   */
  readonly proof: Ticket | undefined;
  /** Client: how long the last REJECT asked to wait before the next connection, in milliseconds. */
  readonly retryAfterMs: number;
  /** The statement of the end that closes the session. */
  readonly closeStatement: CloseStatement;
  /** For how long the session survives without a connection, in milliseconds. */
  readonly windowMs: number;

  /**
   * A connection is open: the first one, or another one while the session is suspended.
   *
   * @param token client: credentials of this connection. @default those of the options
   * @param isSaid client: the last {@link hello} has arrived with the connection, so none is sent. @default false
   */
  handleConnected(now: number, token?: string, isSaid?: boolean): void;
  /**
   * Client: the HELLO of the next connection, to travel in its upgrade request. Nothing may arrive on an older connection
   * any more, as HELLO states what has arrived.
   *
   * @returns `undefined` at a server.
   */
  hello(now: number, token?: string): Uint8Array | string | undefined;
  handleMessage(data: Uint8Array | string, now: number): void;
  /**
   * Keeps link frames, bare ones and CLOSE until {@link releaseFrames}, while the codecs of the session are being
   * loaded. They are not counted before, so if the connection is lost, the peer sends them again after a resume.
   */
  holdFrames(): void;
  releaseFrames(now: number): void;
  /**
   * Opens the channel of a session that was agreed on without a link, or with a channel of its own, and created without that code.
   *
   * @returns `false` if the session has ended of what its server says.
   */
  openChannel(code: ChannelModule): boolean;
  /** The driver has stopped reading from the connection, so silence says nothing about the peer. */
  handleUnread(now: number): void;
  /** The connection is closed. @param closeCode the code that the peer closed with. */
  handleDisconnected(closeCode: number, reason: string, now: number): void;
  /** Call this at or after {@link nextTimeout}; early or repeated calls are harmless. */
  handleTimeout(now: number): void;
  /** The earliest clock reading at which something is due; `Infinity` if nothing is. */
  nextTimeout(): number;

  /**
   * Server: admits the client with the session ID `sessionId`, or rejects it if the ends have nothing in common.
   *
   * @throws {ProtocolError} `invalid_argument` if no HELLO waits for an answer.
   */
  accept(sessionId: string, now: number, options?: AcceptOptions): Negotiation;
  /**
   * Server: whether `hello`, which arrived on another connection, may resume this session: `undefined` if it may,
   * else the reason why not. Changes nothing. The caller must have compared the principals.
   */
  checkResume(hello: HelloPayload, subprotocol: Subprotocol): ResumeRefusal | 'stale_attempt' | undefined;
  /**
   * Server: resumes the session for a HELLO that passed {@link checkResume}. The session must be suspended: the
   * driver has detached an older connection before.
   *
   * @returns if the offer asks for a rebuilt link, how many frames of the former one the client has received.
   * @throws {ProtocolError} `invalid_argument` if the session cannot be resumed.
   */
  resume(offer: ResumeOffer, now: number): number | undefined;
  /**
   * Server: sets the expiry of this connection's credentials and notifies the client, unless they do not expire
   * and the client has not sent AUTH.
   *
   * @param expiresAt Unix milliseconds, or `null` if they do not expire.
   */
  grant(expiresAt: number | null, now: number): void;
  /** Client: the code of these codecs is loaded. Announces those of which HELLO says that it is not. */
  announceReady(codecs: readonly LaterCodec[], now: number): void;
  /** Client: sends new credentials before the present ones expire. */
  authenticate(token: string, now: number): void;
  /**
   * Client: there is a sign that the connection may be gone, as after the sleep of its machine. It is lost after some 10 s
   * unless the server answers.
   */
  probe(now: number): void;
  /**
   * Client: gives the connection up, and lets another one resume the session.
   *
   * @returns `false`, and does nothing, if none could.
   */
  leaveConnection(reason: string, now: number): boolean;
  /**
   * Server: sends GOAWAY, on this connection and on each one that resumes the session. If `move` is set and agreed on, only
   * on this one, as the next one may come through another server; requests are still accepted.
   */
  sendGoAway(payload: GoAwayPayload, now: number): void;

  /**
   * Closes the session once everything that waits is delivered.
   *
   * @param code of the application. The first one counts.
   */
  close(reason: CloseReason, message: string, now: number, code?: string): void;
  /**
   * Client: ends this end of the session without an error and closes the connection with `DETACHED`, so that the server
   * keeps the session for another page.
   */
  detach(now: number): void;
  /** Ends the session at once with an error. */
  abort(error: ProtocolError, now: number): void;

  pollTransmit(): Uint8Array | string | undefined;
  pollEvent(): SessionEvent | undefined;
}

/** A server's end of a session, which can move to another process; see `restoreSession`. */
export interface ServerSessionCore extends SessionCore {
  /**
   * A connection is open on which the driver has read HELLO, with `readHello`; {@link accept} follows.
   *
   * @param answer what `answerTo` says to it.
   */
  greet(hello: HelloPayload, answer: Answer, now: number): void;
  /** Rejects the client, even before its HELLO has arrived. */
  reject(reject: RejectPayload, closeCode: CloseCode, now: number): void;
  /**
   * The record of the session; `undefined` if it is not recorded. After each call a driver writes the commit that waits,
   * one at a time and as often as it takes, and ends the session with `fenced` if another process has it.
   */
  readonly record: DurableSession | undefined;
  /**
   * Whether {@link snapshot} is possible: the session is established or suspended and has a link, the driver has polled
   * all events, it holds no frames back while a codec is loaded, no credentials are being checked, and no tensor is under
   * way.
   */
  readonly canSnapshot: boolean;
  /** There is something that {@link rest} would let go of. */
  readonly isAwake: boolean;
  /** Milliseconds since data was sent or received. */
  idleMs(now: number): number;
  /**
   * Lets go of what the next frame makes again: the link, the memory of written frames, and rates that are not reached.
   * Nothing that either end can notice changes. Returns `false`, and does nothing, while something is under way.
   */
  rest(now: number): boolean;
  /** One-way messages that wait because the client, which is connected, grants no more credit. */
  readonly stalled:
    | {
        /** The offset up to which it accepts. */
        readonly granted: number;
        readonly messages: number;
        readonly bytes: number;
      }
    | undefined;
  /**
   * The session as bytes: everything that the client can notice. Callbacks of bodies that wait stay behind, as do GOAWAY,
   * which this server has sent for itself, and what holds credit back for want of memory. Changes nothing.
   *
   * The bytes hold secrets: the resume token, and messages.
   *
   * @param now clock reading, as times travel as ages.
   * @throws {ProtocolError} `invalid_argument` unless {@link canSnapshot}, `message_too_large` over 64 MiB.
   */
  snapshot(now: number): Uint8Array;
}
