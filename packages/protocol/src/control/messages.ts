import type { Algorithm, EncodingName } from '../base/constants.js';
import type { ErrorSide } from '../base/errors.js';
import type { Fields, StringMap } from '../base/fields.js';
import type { SecurityStatus } from '../codec/body.js';

/**
 * The control messages of a session as a program sees them. Only `envelope.ts` knows how they look on the wire,
 * in either capability shape and either envelope.
 */

/**
 * How a peer states its capabilities: our own flat fields, or the reference implementation's nested
 * `compression` and `security` objects. A peer is answered in the shape that it used.
 */
export type CapabilityShape = 'flat' | 'nested';

/** The part of HELLO that asks the server to resume a session. */
export interface ResumeOffer {
  readonly sessionId: string;
  /** The token of the last ACCEPT; never echoed, never logged. */
  readonly token: string;
  /** Counted frames that the client has received in the session. */
  readonly received: number;
  /** Grows with every connection that the client opens for the session. */
  readonly attempt: number;
  /** The client is a page that was loaded again, and has nothing of the former link. @default false */
  readonly rebuild?: boolean | undefined;
  /** A {@link Have} in its form on the wire, which `rebuilt.ts` reads: most ends have no recorded sessions. */
  readonly have?: Fields | undefined;
  /**
   * Not on the wire: the HELLO that has begun the session has come again, and its client has not seen ACCEPT. With why it had
   * begun a session in place of another one.
   */
  readonly again?: { readonly refusal: ResumeRefusal | undefined } | undefined;
}

/** How much of a recorded session a client has, counted in bodies, so that it does not depend on a link. */
export interface Have {
  /** One-way messages of the server that were received whole. */
  readonly messages: number;
  /** One-way messages of the client that the server has acknowledged. */
  readonly sent: number;
  /** One-way messages of the client that were written to their end. */
  readonly written: number;
  /** The largest stream ID of the client; 0 if it has opened none. */
  readonly opened: number;
  /** The largest stream ID of the server that the client has seen; 0 if it has seen none. */
  readonly heard: number;
  /** Open requests of the client, at most {@link MAX_HELD_STREAMS}, with ascending IDs. */
  readonly streams: readonly HeldStream[];
}

export interface HeldStream {
  readonly id: number;
  /** Parts that were received whole. */
  readonly parts: number;
  /** The server has acknowledged the request. */
  readonly isAcknowledged: boolean;
  readonly isCancelled: boolean;
}

/** Requests that a {@link Have} lists; a session with more of them open is not rebuilt. */
export const MAX_HELD_STREAMS = 4096;

/** Why a session was not resumed. */
export const ResumeRefusal = {
  UNKNOWN_SESSION: 'unknown_session',
  WINDOW_PASSED: 'window_passed',
  NO_STATE: 'no_state',
  OTHER_OFFER: 'other_offer',
} as const;
export type ResumeRefusal = (typeof ResumeRefusal)[keyof typeof ResumeRefusal];

/** Of a session that was resumed: its record lacks turns that the client has seen. */
export const RECORD_BEHIND = 'record_behind';

/** The part of ACCEPT that is about resuming. */
export interface ResumeAnswer {
  /** For the next connection; the previous token expires with the first frame after HELLO. */
  readonly token: string;
  /** How long the session survives without a connection, in milliseconds. */
  readonly windowMs: number;
  /** The session continues; if not, this ACCEPT begins a new one. */
  readonly recovered: boolean;
  /** Counted frames that the server has received in the session. */
  readonly received: number;
  /** Why it was not recovered; of a session that was, {@link RECORD_BEHIND} or nothing. */
  readonly reason?: string | undefined;
  /** Set if the session continues with a rebuilt link. */
  readonly rebuilt?: RebuiltLink | undefined;
}

/** The state from which a rebuilt link continues. */
export interface RebuiltLink {
  /** The largest stream ID of the client that the server has seen; 0 if it has seen none. */
  readonly stream: number;
  /** The client's requests that were open and that the server has interrupted, at most {@link MAX_CANCELLED}. */
  readonly cancelled: readonly number[];
  /** {@link KeptBodies} in their form on the wire, set if the client continues with what it {@link Have has}. */
  readonly kept?: Fields | undefined;
}

/** How many bodies of its client the server of a recorded session has. */
export interface KeptBodies {
  /** One-way messages that are handled, or that were acknowledged: the client writes later ones again. */
  readonly handled: number;
  /** Requests that the client writes again; its other open ones continue. */
  readonly again: readonly number[];
}

/** Requests that a {@link RebuiltLink} lists; the client does not learn of others. */
export const MAX_CANCELLED = 256;

export interface HelloPayload {
  readonly shape: CapabilityShape;
  readonly version: string;
  readonly algorithms: readonly Algorithm[];
  readonly encodings: readonly EncodingName[];
  readonly preferredEncoding: EncodingName | null;
  readonly securityScanning: boolean;
  /** Largest message that the client accepts, in bytes; 0 is unstated. */
  readonly maxPayloadSize: number;
  readonly supportsStreaming: boolean;
  readonly agentId?: string | undefined;
  readonly extensions: StringMap;
  /** Never echoed, never logged. */
  readonly auth?: { readonly token: string } | undefined;
  readonly resume?: ResumeOffer | undefined;
  /** {@link NONCE_BYTES} random bytes, which name the session that this HELLO begins until its client has seen ACCEPT; a secret. */
  readonly nonce?: Uint8Array | undefined;
}

export const NONCE_BYTES = 16;

/** A client's offer without its ID, its credentials and the session that it asks for. */
export type Offer = Omit<HelloPayload, 'agentId' | 'auth' | 'resume' | 'nonce'>;

/** Limits that an ACCEPT states, by their option name; an absent limit is unlimited. */
export type StatedLimits = Readonly<Record<string, number>>;

export interface AcceptPayload {
  readonly shape: CapabilityShape;
  readonly version: string;
  /** `undefined` stands for those of HELLO, and needs the extension `std`. */
  readonly algorithms: readonly Algorithm[] | undefined;
  /** At most one encoding in the flat shape; a nested ACCEPT states the server's own list. */
  readonly encoding: EncodingName | null;
  readonly encodings: readonly EncodingName[];
  readonly securityScanning: boolean;
  readonly sessionTimeoutMs: number;
  readonly maxPayloadSize: number;
  readonly limits: StatedLimits;
  readonly agentId?: string | undefined;
  readonly extensions: StringMap;
  readonly resume?: ResumeAnswer | undefined;
}

export const RejectCode = {
  VERSION_MISMATCH: 'VERSION_MISMATCH',
  NO_COMMON_ALGORITHM: 'NO_COMMON_ALGORITHM',
  SECURITY_POLICY: 'SECURITY_POLICY',
  RATE_LIMITED: 'RATE_LIMITED',
  SERVER_BUSY: 'SERVER_BUSY',
  UNKNOWN: 'UNKNOWN',
} as const;
export type RejectCode = (typeof RejectCode)[keyof typeof RejectCode];

export interface RejectPayload {
  readonly code: RejectCode;
  readonly message: string;
  /** Whether the same client may be admitted later. @default depends on the close code */
  readonly retryable?: boolean | undefined;
  /** Milliseconds to wait before that. */
  readonly retryAfterMs?: number | undefined;
}

/** From the client: new credentials. From the server: when they expire. */
export type AuthPayload =
  /** Never echoed, never logged. */
  | { readonly token: string }
  /** Unix milliseconds by the server's clock; `null` if they do not expire. */
  | { readonly expiresAt: number | null };

/** The server drains: it accepts no new streams, and ends the session at the deadline. */
export interface GoAwayPayload {
  /**
   * Milliseconds to wait after the end of this session before another one is begun; with {@link move}, within which the
   * client opens the next connection.
   */
  readonly retryAfterMs: number;
  /** Unix milliseconds by the server's clock at which it ends the session. */
  readonly deadline: number;
  /** The session continues over another connection, and streams are still accepted. @default false */
  readonly move?: boolean | undefined;
}

/** The client has loaded the code of these codecs; the server may use them from now on. */
export interface ReadyPayload {
  /** Algorithms, and `CONTEXT`. */
  readonly codecs: readonly LaterCodec[];
}

/** A codec that a client may offer before it has loaded its code. */
export type LaterCodec = Algorithm | 'CONTEXT';

export interface DataPayload {
  readonly algorithm: Algorithm;
  /** Writes the name of the algorithm as the reference implementation spells it. @default as this document does */
  readonly isNested?: boolean | undefined;
  /** A text form in JSON envelopes, bytes in MessagePack. */
  readonly content: string | Uint8Array;
  readonly originalSize?: number | undefined;
  readonly securityStatus?: SecurityStatus | undefined;
}

export const CloseReason = {
  NORMAL: 'NORMAL',
  TIMEOUT: 'TIMEOUT',
  ERROR: 'ERROR',
  CLIENT_SHUTDOWN: 'CLIENT_SHUTDOWN',
  SERVER_SHUTDOWN: 'SERVER_SHUTDOWN',
} as const;
export type CloseReason = (typeof CloseReason)[keyof typeof CloseReason];

export interface ClosePayload {
  readonly reason: CloseReason;
  readonly message: string;
  /** Why, in a word of the application: 1 to 64 of `a-z`, `0-9` and `_`. */
  readonly code?: string | undefined;
}

/** The statement of one end's application in its CLOSE. */
export interface CloseStatement {
  /** The end that has closed the session. */
  readonly side: ErrorSide;
  readonly code: string | undefined;
  readonly reason: string;
}

interface Envelope<Type extends string, Payload> {
  readonly type: Type;
  /** Null before a session exists. */
  readonly sessionId: string | null;
  /** Unix milliseconds at the sender. */
  readonly timestamp: number;
  readonly payload: Payload;
}

/** A payload without fields. */
export type EmptyPayload = Readonly<Record<string, never>>;

export type HelloMessage = Envelope<'HELLO', HelloPayload>;
export type AcceptMessage = Envelope<'ACCEPT', AcceptPayload>;
export type RejectMessage = Envelope<'REJECT', RejectPayload>;
export type DataMessage = Envelope<'DATA', DataPayload>;
export type PingMessage = Envelope<'PING', EmptyPayload>;
export type PongMessage = Envelope<'PONG', EmptyPayload>;
export type CloseMessage = Envelope<'CLOSE', ClosePayload>;
export type AuthMessage = Envelope<'AUTH', AuthPayload>;
export type GoAwayMessage = Envelope<'GOAWAY', GoAwayPayload>;
export type ReadyMessage = Envelope<'READY', ReadyPayload>;

/** Every message that this version knows. */
export type ControlMessage =
  | HelloMessage
  | AcceptMessage
  | RejectMessage
  | DataMessage
  | PingMessage
  | PongMessage
  | CloseMessage
  | AuthMessage
  | GoAwayMessage
  | ReadyMessage;

/** A well-formed envelope of a type that this version does not know; ignored with a warning. */
export interface UnknownMessage {
  readonly type: 'UNKNOWN';
  readonly sessionId: string | null;
  readonly timestamp: number;
  readonly name: string;
}
