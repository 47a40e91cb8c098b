import type { Algorithm } from '../base/constants.js';
import type { ProtocolError } from '../base/errors.js';
import type { Negotiated } from '../control/agreement.js';
import type { SessionState, Throttled, Unconfirmed } from '../session/types.js';
import type { AsyncDisposal } from './disposal.js';
import type { Undelivered } from './messages/delivery.js';
import type { Message } from './messages/message.js';
import type { Metadata } from './messages/metadata.js';
import type { Body } from './messages/part.js';
import type { ReplyStream } from './requests/reply.js';
import type { SessionEnd } from './session-end.js';
import type { SessionStats } from './stats.js';

/** The public interface of a session, the same at both ends. */

export interface SendOptions {
  /**
   * The codec of the body. `CONTEXT` codes it against earlier messages, even if that saves little.
   *
   * @default 'auto': the smallest result of context coding and the negotiated codecs that preserve the
   * content exactly
   */
  readonly algorithm?: Algorithm | 'CONTEXT' | 'auto' | undefined;
  /**
   * Excludes the body from context coding: it is not coded against others, nor others against it, so that
   * lengths on the wire do not reveal what they have in common. It is not encrypted by that.
   *
   * @default false
   */
  readonly compressAlone?: boolean | undefined;
  /**
   * Cancels a request, or a message none of which is written yet; the call rejects with the reason of the signal
   * unless it has resolved already. A loop over parts throws `cancelled` with the reason as `cause` if that is no `Error`.
   */
  readonly signal?: AbortSignal | undefined;
  /** Client: the receiving agent, by its ID or its address in `agents()`. @default the server itself */
  readonly to?: string | undefined;
  /**
   * Client: a message or request of which nothing was delivered moves on to the session that follows a lost one, and one
   * that is made without a session waits for the next one, without a limit of time. Those that may have
   * arrived are listed in `reset.unknown`, and are never repeated. At most 4 MiB wait without a session; beyond that calls fail with `over_budget`.
   *
   * @default false: it fails with the session, or is listed in `reset.notSent`
   */
  readonly retryUnsent?: boolean | undefined;
}

export interface RequestOptions extends SendOptions {
  /**
   * Milliseconds until the reply must be complete, more than 0; then the call rejects with `timeout`.
   *
   * @default unlimited: there is no default time-out, and a call waits for as long as its session lasts
   */
  readonly timeoutMs?: number | undefined;
  /**
   * Sent with the request, for the handler. Its encoded size is limited by `maxMetadataSize`.
   *
   * @default none
   */
  readonly metadata?: Metadata | undefined;
}

export interface CloseOptions {
  /**
   * Why, as a word that the other end can switch over, such as `kicked`: 1 to 64 of `a-z`, `0-9` and `_`.
   *
   * @default none
   */
  readonly code?: string | undefined;
  /** A sentence for people, of at most 1,024 UTF-16 units. @default '' */
  readonly reason?: string | undefined;
}

export interface CloseResult {
  /** Frames that the peer has not confirmed plus bodies that were not sent; 0 after an orderly close. */
  readonly unacknowledged: number;
}

/**
 * The messages, requests and replies that were not delivered when a session was lost, or, with the code `reloaded`, the
 * requests of a former page that were interrupted when this page took its session up. With the code `record_behind` both
 * lists are empty.
 */
export interface SessionReset extends Unconfirmed {
  /**
   * `session_lost`: this session is over. With the others it continues. `record_behind`: the server's record of the
   * session has lost turns that this client has seen, in a failover to a replica that lagged. Messages from
   * now on may repeat what came before, and the state of the session may lack messages that were acknowledged.
   */
  readonly code: 'session_lost' | 'reloaded' | 'record_behind';
  /** A sentence for people. */
  readonly reason: string;
}

/** One-way messages that wait because the other end does not read. */
export interface UnreadMessages {
  readonly messages: number;
  readonly bytes: number;
}

/** The events of every session and their arguments. */
export interface OwnEvents {
  /** The state changed. */
  state: SessionState;
  /**
   * The session was lost. A client that reconnects continues with a new one. Or it was taken up, and requests of the
   * former page were interrupted; or it continues with an earlier record: see {@link SessionReset.code}.
   */
  reset: SessionReset;
  /** The session ended with an error. */
  error: ProtocolError;
  /** One-way messages to an agent were refused, or lost with the session of the agent. */
  undelivered: Undelivered;
  /** The client sends as much as a rate limit allows, and the rest waits there. At most once a minute while it lasts. */
  throttled: Throttled;
  /** Server: the client has read no messages for 10 seconds, so those for it wait. Reported once. */
  unread: UnreadMessages;
}

/** The events of a session and their arguments. A feature of a server, or a module of a client, declares its own here. */
export interface SessionEvents extends OwnEvents {}

/**
 * A session, the same at both ends. Iterate over it to read one-way messages and tensors; it has one reader
 * at a time. The iteration ends when the session is closed, and throws the error of a session that failed. At a client
 * that reconnects it continues over the session that follows a lost one; the event `reset` says what was lost.
 *
 * A client that connects again sends in the next session what is called between two of them (`connecting`): such a call waits
 * for at most its `timeoutMs` and the `resumeWindowMs` of the client, at least 30 s, then it rejects with `timeout`; calls
 * with more than 4 MiB together reject with `over_budget`. Messages that were written in a lost session are not sent again.
 *
 * A promise that the application does not await may reject: no call of a session causes an unhandled rejection.
 *
 * A feature of a server, or a module of a client, declares its own methods here: `sendTensor`, `agents`, `follow` and `replies` are
 * declared in this way.
 */
export interface Session extends AsyncIterable<Message>, AsyncDisposal {
  /** The ID that the server gave to the session; an empty string before that. */
  readonly id: string;
  readonly state: SessionState;
  /**
   * The agreement of the two ends. Between a lost session of a client and the next one, this is the agreement of the last.
   *
   * @throws {ProtocolError} `session_closed` before the session is established.
   */
  readonly negotiated: Negotiated;
  /** Server: the principal that the client authenticated as; `undefined` at a client. */
  readonly principal: string | undefined;
  /** The agent ID of the client, if it has one. */
  readonly agentId: string | undefined;

  /**
   * Sends a one-way message. Resolves when it is queued for delivery, which waits while too many bytes are
   * queued, or more than a few messages are that the peer's rate limit holds back. The body is read before the call returns.
   *
   * @throws {ProtocolError} `session_closed`, `over_budget` and `timeout` while it waits for a session, `message_too_large`, `unrepresentable`, `unsupported`,
   * `invalid_option`, `invalid_argument`; the reason of the signal after an abort.
   */
  send(body: Body, options?: SendOptions): Promise<void>;
  /**
   * Sends a request. Resolves to the whole reply, whose parts are joined. It waits without a limit of time unless `timeoutMs` sets one.
   *
   * @typeParam Json what the reply is expected to be, for its `json()`. It is not checked.
   * @throws {ProtocolError | RequestError} the error of the handler; `timeout`; `session_lost`; `unsupported`
   * without the link extension; errors of {@link send}; the reason of the signal after an abort.
   */
  request<Json = unknown>(body: Body, options?: RequestOptions): Promise<Message<Json>>;
  /**
   * Sends a request at once and returns its reply part by part. Leaving the loop cancels the request.
   *
   * @typeParam Json what each part is expected to be, for its `json()`. It is not checked.
   * @throws {ProtocolError | RequestError} as {@link request}: here if the request cannot be sent, otherwise
   * from the iteration.
   */
  stream<Json = unknown>(body: Body, options?: RequestOptions): ReplyStream<Json>;
  /**
   * Resolves when everything that was sent is acknowledged.
   *
   * @throws {ProtocolError} if the session ends before.
   */
  flush(): Promise<void>;
  /**
   * Adds a listener and returns a function that removes it. It may be asynchronous: nothing waits for it, and its errors are logged.
   *
   * @throws {ProtocolError} `invalid_argument` for an unknown event.
   */
  on<Name extends keyof SessionEvents>(
    name: Name,
    listener: (event: SessionEvents[Name]) => unknown,
  ): () => void;
  /** A snapshot of the counters. */
  stats(): SessionStats;
  /**
   * Resolves when the session is over and no other takes its place. Never rejects. It stays pending while a client
   * connects again, and at a server after that, for as long as the session waits for its client.
   */
  readonly closed: Promise<SessionEnd>;
  /**
   * Closes the session when everything that was sent is acknowledged, if necessary over a new connection.
   * Gives up after `closingTimeoutMs` and returns how much was not acknowledged. A request or reply whose reader takes nothing
   * is cut short after a tenth of that, and fails with `session_closed`. The other end gets the code and the
   * reason in its `closed`; a client whose server has closed the session does not connect again by itself.
   *
   * @throws {ProtocolError} `invalid_option`. Otherwise it never rejects.
   */
  close(options?: CloseOptions): Promise<CloseResult>;
}
