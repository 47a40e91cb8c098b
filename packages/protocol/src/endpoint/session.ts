import type { Algorithm } from '../base/constants.js';
import type { ProtocolError } from '../base/errors.js';
import type { Negotiated } from '../control/agreement.js';
import type { SessionState, Undelivered } from '../session/types.js';
import type { Agents } from './agents/agents.js';
import type { Undeliverable } from './agents/delivery.js';
import type { Message } from './messages/message.js';
import type { Metadata } from './messages/metadata.js';
import type { Body } from './messages/part.js';
import type { ReplyStream } from './requests/reply.js';
import type { SessionStats } from './stats.js';
import type { TensorInput } from './tensors/tensor.js';

/** What the user of a session works with, at both ends. */

export interface SendOptions {
  /**
   * `CONTEXT` codes against earlier messages, however little that saves.
   *
   * @default 'auto': the smallest of context and the negotiated codecs that give the content back exactly
   */
  readonly algorithm?: Algorithm | 'CONTEXT' | 'auto' | undefined;
  /**
   * Keeps the message out of context coding: it is neither coded against others nor are others against it,
   * so that its length on the wire tells nothing of what it has in common with them. @default false
   */
  readonly secret?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Client: another agent of the server, by its ID or the address that `agents()` lists. @default the server itself */
  readonly to?: string | undefined;
}

export interface RequestOptions extends SendOptions {
  /** Milliseconds that the whole reply may take. @default none */
  readonly timeoutMs?: number | undefined;
  readonly metadata?: Metadata | undefined;
}

export interface SendTensorOptions {
  /** Gives up, also half-way: the receiver is told, and the call rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Client: another agent of the server, by its ID or the address that `agents()` lists. @default the server itself */
  readonly to?: string | undefined;
  /** Called as pieces leave, with the bytes of data so far; what it throws ends the transfer. */
  readonly onProgress?: ((bytes: number, total: number) => void) | undefined;
  /**
   * Content of the text message that is sent instead where `negotiated.avp` says that tensors mean
   * nothing to the other end's model; a function is asked only then. @default `unsupported` is thrown
   */
  readonly fallback?: string | (() => string | Promise<string>) | undefined;
}

export interface CloseResult {
  /** Frames whose arrival the peer has not confirmed, and bodies that were never sent; 0 after an orderly close. */
  readonly unacknowledged: number;
}

/** What `reset` tells after a session was lost. */
export interface SessionReset extends Undelivered {
  readonly reason: string;
}

export interface SessionEvents {
  state: SessionState;
  reset: SessionReset;
  error: ProtocolError;
  /** One-way messages to an agent were refused, or lost with its session. */
  undelivered: Undeliverable;
}

/** A session as its user sees it, at both ends. */
export interface Session extends AsyncIterable<Message>, AsyncDisposable {
  readonly id: string;
  readonly state: SessionState;
  readonly negotiated: Negotiated;
  /** Server: who authenticated. */
  readonly principal: string | undefined;
  readonly agentId: string | undefined;

  /**
   * Sends a one-way message. Resolves when it is accepted for delivery, which waits while too much is
   * under way already.
   *
   * @throws {ProtocolError} `session_closed`, `message_too_large`, `unrepresentable`, `unsupported`,
   * `invalid_option`, `invalid_argument`; the signal's reason after an abort.
   */
  send(body: Body, options?: SendOptions): Promise<void>;
  /**
   * Asks and waits for the whole reply; text parts arrive joined.
   *
   * @throws {ProtocolError | RequestError} what the far end failed with, `timeout`, `session_lost`,
   * `unsupported` without the link extension; the signal's reason after an abort.
   */
  request(body: Body, options?: RequestOptions): Promise<Message>;
  /** Asks and hands out the reply part by part. Sent at once; leaving the loop cancels. */
  stream(body: Body, options?: RequestOptions): ReplyStream;
  /**
   * Sends a tensor; resolves when the peer has verified the whole, with `transfers: 'stream'` once its
   * application has read it. Only some pieces are ahead of the peer at a time, and a lost connection
   * goes on where it was.
   *
   * @throws {ProtocolError} `bad_tensor` where data, shape and dtype do not fit each other, or what is
   * generated is more or less than was stated; `transfer_too_large` before anything is sent;
   * `cancelled` where the receiver does not want the rest; what the receiver found wrong, with `side`
   * 'remote'; `unsupported`; `session_closed`; `session_lost`; what the source throws.
   */
  sendTensor(tensor: TensorInput, options?: SendTensorOptions): Promise<void>;
  /**
   * Client: the agents of the server that this session may see, and what becomes of them.
   *
   * @throws {ProtocolError} `unsupported` where the server has no directory of agents.
   */
  agents(): Promise<Agents>;
  /** Resolves when everything that was sent is acknowledged. @throws {ProtocolError} what ends the session first. */
  flush(): Promise<void>;
  /** Returns what takes the listener away again. @throws {ProtocolError} `invalid_argument` for another name. */
  on<Name extends keyof SessionEvents>(
    name: Name,
    listener: (event: SessionEvents[Name]) => void,
  ): () => void;
  stats(): SessionStats;
  /**
   * Closes once everything that was sent is acknowledged, also over another connection where this one is
   * lost. Never rejects; gives up after `closingTimeoutMs` and says what was not acknowledged.
   */
  close(): Promise<CloseResult>;
}
