import type { IncomingMessage } from 'node:http';
import {
  type AsJson,
  type Body,
  type Logger,
  type Message,
  ProtocolError,
  type ReplyStream,
  type RequestOptions,
  type SendOptions,
  type Session,
} from '@parlance/protocol';
import { createFetch, type SessionFetch } from '@parlance/protocol/http';
import {
  addForeignMethods,
  assertKept,
  called,
  extendSession,
  type ForeignNames,
  hostOf,
  truncateUnits,
  UserSession,
  type UserSessionHost,
  workAsTheyAre,
} from '@parlance/protocol/internal';
import type { SessionObserver } from './observer.js';

/**
 * A session as the application of a server sees it. It may continue at another node.
 *
 * @typeParam Data of {@link ServerSession.data}: what `authenticate` returns, or the type that `createServer` was given.
 */
export interface ServerSession<Data = unknown> extends Session {
  /** `fetch` over this session, bound to it: the client's `onFetch` answers. See {@link SessionFetch}. */
  readonly fetch: SessionFetch;
  /**
   * A value of the application, which begins as the `data` that `authenticate` has returned, and goes with the session
   * when its client comes back or another node takes it over. Setting it takes a copy as JSON, of at most 64 KiB; reading
   * it returns a copy. `undefined` is none.
   *
   * @default undefined
   * @throws {ProtocolError} when it is set: `invalid_argument` if it is not JSON, `message_too_large` if it is too large.
   */
  get data(): AsJson<Data>;
  set data(value: Data);
  /** The client's address on its newest connection, as reported by trusted proxies if there are any. */
  readonly remoteAddress: string;
  /** The first 512 UTF-16 units of the `User-Agent` header of its newest connection. */
  readonly userAgent: string | undefined;
  /** When the session began, in Unix milliseconds of the node where it did. */
  readonly startedAt: number;
  /**
   * Aborts when the session ends, or is about to continue at another node: then the iteration ends as well, and
   * `onSession` has a second to return. A session whose `onSession` does not return stays until the server has drained.
   */
  readonly signal: AbortSignal;
  /**
   * The session is recorded, so that it survives this process. The client has to understand that as well.
   */
  readonly isDurable: boolean;
  /**
   * For durable sessions: records a state, messages to the client, and that the message that was read last is handled,
   * in one step. After the death of a node, all of it has happened or nothing. Resolves when it is recorded, and the
   * messages are sent then; rejects if the session ends before.
   *
   * @throws {ProtocolError} `unsupported` if the session is not durable; `invalid_argument`, `message_too_large` as
   * {@link data} and `send`; `over_budget` if the record of the session would be too large.
   */
  commit(options: CommitOptions<Data>): Promise<void>;
  /**
   * For durable sessions: the application has handled the messages of the client up to this `number` before, as it has
   * stored with its own effects. Those that are yet to arrive are not delivered.
   *
   * @throws {ProtocolError} `unsupported` if the session is not durable; `invalid_argument` if it is not a whole
   * number.
   */
  markHandledUpTo(number: number): void;
  /** `onSession` has been called for this session before, at another node, and {@link data} is what it has left. */
  readonly isMoved: boolean;
}

/** @typeParam Data of {@link ServerSession.data}. */
export interface CommitOptions<Data = unknown> {
  /** The new {@link ServerSession.data}, also at the node that continues the session. @default it stays as it is */
  readonly data?: Data | undefined;
  /** Messages to the client, in order. @default none */
  readonly send?: readonly Body[] | undefined;
}

/** Drives the session that an application of a server holds. */
export interface ServedSessionHost extends UserSessionHost {
  data: unknown;
  readonly isDurable: boolean;
  /** @throws {ProtocolError} see {@link ServerSession.commit}. */
  commit(options: CommitOptions): Promise<void>;
  /** @throws {ProtocolError} see {@link ServerSession.markHandledUpTo}. */
  handledUpTo(number: number): void;
  readonly signal: AbortSignal;
  readonly isMoved: boolean;
  readonly client: ClientInfo;
  readonly since: number;
  readonly options: { readonly yield?: (() => Promise<void>) | undefined };
  readonly logger: Logger;
  /** `undefined` without metrics. */
  readonly observer: SessionObserver | undefined;
  /** The messages with the hooks of the server around them. */
  hooked(messages: AsyncIterator<Message>): AsyncIterator<Message>;
}

/** The client at the other end of a connection. */
export interface ClientInfo {
  readonly remoteAddress: string;
  readonly userAgent: string | undefined;
}

/** UTF-16 units of {@link ClientInfo.userAgent}. */
export const MAX_USER_AGENT = 512;

/** @param ip the client's address. */
export function clientInfo(ip: string, headers: IncomingMessage['headers']): ClientInfo {
  const { 'user-agent': agent } = headers;
  return { remoteAddress: ip, userAgent: agent && truncateUnits(agent, MAX_USER_AGENT) };
}

/** Bytes of the JSON of {@link ServerSession.data}. */
export const MAX_DATA_SIZE = 64 * 1024;

/**
 * @param data of the application, which may be anything.
 * @returns its JSON; `undefined` for `undefined`.
 * @throws {ProtocolError} `invalid_argument`.
 */
export function jsonOf(data: unknown): string | undefined {
  if (data === undefined) return undefined;
  let text: unknown;
  try {
    text = JSON.stringify(data);
  } catch (cause) {
    throw new ProtocolError('invalid_argument', 'data: the value cannot be written as JSON', { cause });
  }
  // A function or a symbol.
  if (typeof text !== 'string') throw new ProtocolError('invalid_argument', 'data: the value is not JSON');
  assertKept(data, 'data');
  return text;
}

/** As {@link jsonOf}, for {@link ServerSession.data}. @throws {ProtocolError} `message_too_large` also. */
export function encodeData(data: unknown): string | undefined {
  const text = jsonOf(data);
  if (text !== undefined) assertDataSize(text);
  return text;
}

/** @throws {ProtocolError} `message_too_large`. */
export function assertDataSize(text: string): void {
  const size = Buffer.byteLength(text);
  if (size <= MAX_DATA_SIZE) return;
  throw new ProtocolError(
    'message_too_large',
    `data: ${size} bytes of JSON; at most ${MAX_DATA_SIZE} travel`,
  );
}

// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: features add what they declare
export class ServedSession extends UserSession {
  readonly #host: ServedSessionHost;

  constructor(host: ServedSessionHost) {
    super(host);
    this.#host = host;
  }

  /** Resolves when it is the turn of a session again; `undefined` if the session is another end's. */
  static restOf(session: Session): Promise<void> | undefined {
    return #host in session ? session.#host.options.yield?.() : undefined;
  }

  /** The observer of the server of a session; `undefined` if it has no metrics, or the session is another end's. */
  static observerOf(session: Session): SessionObserver | undefined {
    return #host in session ? session.#host.observer : undefined;
  }

  /** The log of the server of a session; `undefined` if the session is another end's. */
  static loggerOf(session: Session): Logger | undefined {
    return #host in session ? session.#host.logger : undefined;
  }

  /** Created when it is used, as most sessions do not. */
  get fetch(): SessionFetch {
    return createFetch(this);
  }

  override send(body: Body, options?: SendOptions): Promise<void> {
    return options?.retryUnsent ? called(noRetry) : super.send(body, options);
  }
  override request<Json>(body: Body, options?: RequestOptions): Promise<Message<Json>> {
    return options?.retryUnsent ? called(noRetry) : super.request(body, options);
  }
  override stream<Json>(body: Body, options?: RequestOptions): ReplyStream<Json> {
    if (options?.retryUnsent) noRetry();
    return super.stream(body, options);
  }

  override [Symbol.asyncIterator](): AsyncIterator<Message> {
    return this.#host.hooked(super[Symbol.asyncIterator]());
  }

  get data(): unknown {
    return this.#host.data;
  }
  set data(value: unknown) {
    this.#host.data = value;
  }
  get isDurable(): boolean {
    return this.#host.isDurable;
  }
  commit(options: CommitOptions): Promise<void> {
    return called(() => this.#host.commit(options));
  }
  markHandledUpTo(number: number): void {
    this.#host.handledUpTo(number);
  }
  get remoteAddress(): string {
    return this.#host.client.remoteAddress;
  }
  get userAgent(): string | undefined {
    return this.#host.client.userAgent;
  }
  get startedAt(): number {
    return this.#host.since;
  }
  get signal(): AbortSignal {
    return this.#host.signal;
  }
  get isMoved(): boolean {
    return this.#host.isMoved;
  }
}

/** Its methods, also those that features have declared. */
export interface ServedSession extends ServerSession {}

/**
 * The class of the sessions of a server, with what its features add.
 *
 * @param foreign methods of other libraries.
 * @throws {ProtocolError} `invalid_option`.
 */
export function sessionClass(
  features: Parameters<typeof extendSession>[2],
  foreign: ForeignNames,
): typeof ServedSession {
  class Extended extends ServedSession {}
  extendSession(Extended.prototype, hostOf, features);
  addForeignMethods(Extended.prototype, 'session', foreign);
  return Extended;
}

function noRetry(): never {
  throw new ProtocolError('unsupported', 'retryUnsent: only a client continues with another session');
}

workAsTheyAre(ServedSession);
