import type { Logger, Session } from '@parlance/protocol';
import { assertOptions, type OptionKinds, ProtocolError } from '@parlance/protocol/client';
import type { UIMessage } from 'ai';
import type { ClientOptions, SessionStore } from '../index.js';

/** As much of a session as a chat uses. */
export type ChatSession = Pick<Session, 'stream' | 'follow' | 'replies'>;

/**
 * Where a page opens the session of its chats, with the options of `connect`. An option that exists only in a page may
 * be a function, which is called there: `store: () => sessionStorage`.
 */
export interface ChatConnection extends Omit<ClientOptions, 'store'> {
  readonly url: string | URL | (() => string | URL);
  readonly store?: SessionStore | 'session' | (() => SessionStore) | undefined;
}

/**
 * The address and options of the connection; or a session or a promise of one, which fails every request if it rejects;
 * or a function that returns one. A connection is opened, and a function is called, with the first request, and again
 * only after that session was closed or could not be opened.
 */
export type ChatSessionSource =
  | ChatConnection
  | ChatSession
  | Promise<ChatSession>
  | (() => ChatSession | Promise<ChatSession>);

/** A value, a promise of one, or a function that each request calls. */
export type Resolvable<Value> = Value | Promise<Value> | (() => Value | Promise<Value>);

/** The request that is about to be sent. */
export interface ChatRequestToPrepare<Message extends UIMessage = UIMessage> {
  readonly id: string;
  readonly messages: Message[];
  readonly trigger: 'submit-message' | 'regenerate-message';
  readonly messageId: string | undefined;
  /** The body of the transport and of the request together. */
  readonly body: Record<string, unknown>;
  readonly headers: Record<string, string>;
  readonly requestMetadata: unknown;
}

export interface PreparedChatRequest {
  /** Sent in place of the messages and the body; the handler finds its `messages`, if it has any, and all of it as `body`. */
  readonly body: object;
  /** @default those of the transport and of the request */
  readonly headers?: HeadersInit | undefined;
}

export interface SessionChatTransportOptions<Message extends UIMessage = UIMessage> {
  /** Sent with every request, beside those of the request, which come first. @default none */
  readonly headers?: Resolvable<HeadersInit> | undefined;
  /** Sent with every request, beside that of the request, which comes first. @default none */
  readonly body?: Resolvable<object> | undefined;
  /** Chooses what is sent, such as the last message alone. @default all messages and the body */
  readonly prepareSendMessagesRequest?:
    | ((request: ChatRequestToPrepare<Message>) => PreparedChatRequest | Promise<PreparedChatRequest>)
    | undefined;
  /**
   * Whether the model is stopped when the AI SDK aborts a request: `leave` reads no more and lets it continue, and
   * `transport.stop(id)` stops it. The AI SDK aborts for `stop()` of the user's button, and if a component goes whose `useChat`
   * has made its chat; no transport can tell the two apart. With chats of `sessionChats`, only `stop()` aborts.
   *
   * @default 'stop'
   */
  readonly onAbort?: 'stop' | 'leave' | undefined;
  /** Gets a warning if an answer cannot be stopped, and once for each reason for which no session can be opened. @default console */
  readonly logger?: Logger | undefined;
}

const KINDS: OptionKinds<SessionChatTransportOptions> = {
  headers: ['object', 'function'],
  body: ['object', 'function'],
  prepareSendMessagesRequest: 'function',
  onAbort: 'text',
  logger: 'logger',
};

/** @throws {ProtocolError} `invalid_option`. */
export function assertTransportOptions(options: Pick<SessionChatTransportOptions, 'onAbort'>): void {
  assertOptions<object>(options, KINDS);
  const { onAbort = 'stop' } = options;
  if (onAbort !== 'stop' && onAbort !== 'leave')
    throw new ProtocolError('invalid_option', "onAbort: 'stop' or 'leave' is expected");
}

/** @throws {ProtocolError} `invalid_argument`. */
export function assertSource(source: unknown): void {
  if (typeof source === 'function') return;
  if (typeof source === 'object' && source !== null) {
    if (['url', 'stream', 'then'].some((name) => name in source)) return;
    if (!(source instanceof URL))
      throw noSource('api' in source ? 'api is an option of DefaultChatTransport; ' : '');
  }
  throw noSource('');
}

function noSource(why: string): ProtocolError {
  return new ProtocolError(
    'invalid_argument',
    `SessionChatTransport: ${why}expected what to connect to, such as { url: '/session' }, or a session, a promise of one, or a function that returns one`,
  );
}

export async function resolve<Value>(value: Resolvable<Value>): Promise<Value> {
  return await (value instanceof Function ? value() : value);
}
