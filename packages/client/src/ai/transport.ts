import type { FollowedReply, Metadata } from '@parlance/protocol';
import {
  CHAT,
  type ChatEnvelope,
  chatReplyName,
  guardLogger,
  isProtocolError,
  loggable,
} from '@parlance/protocol/client';
import type { ChatTransport, UIMessage, UIMessageChunk } from 'ai';
import { ChatSessions } from './chat-sessions.js';
import { chunksOf } from './chunks.js';
import {
  assertTransportOptions,
  type ChatRequestToPrepare,
  type ChatSession,
  type ChatSessionSource,
  resolve,
  type SessionChatTransportOptions,
} from './options.js';

export type {
  ChatConnection,
  ChatRequestToPrepare,
  ChatSession,
  ChatSessionSource,
  PreparedChatRequest,
  Resolvable,
  SessionChatTransportOptions,
} from './options.js';

/**
 * The transport of `useChat`, and of every other chat of the AI SDK, over a session. Its server answers with `chatHandler`
 * of `@parlance/server/ai`.
 *
 *     const transport = new SessionChatTransport({ url: 'wss://example.org/session', store: () => sessionStorage });
 *     useChat({ id, resume: true, transport })
 *
 * An answer goes on when the connection is lost and when the page is closed or loaded again. With `resume`, the next page
 * and every other page of the same principal follow it from its first chunk, and `stop()` in any of them stops the model.
 * Failures keep their `code`: `chat.error` is the `ProtocolError` or the `RequestError` of the request.
 */
export class SessionChatTransport<Message extends UIMessage = UIMessage> implements ChatTransport<Message> {
  /** The chunks of an answer that is followed are all there, from the first. */
  readonly resumeStreamIsReplay = true;
  readonly #sessions: ChatSessions;
  readonly #options: SessionChatTransportOptions<Message>;
  /** The latest attempt to follow the answer of each chat, while it may still be followed. */
  readonly #followers = new Map<string, object>();

  /**
   * Opens nothing, so it may be called anywhere, such as at the top of a module that a server renders as well.
   *
   * @throws {ProtocolError} `invalid_option`.
   */
  constructor(session: ChatSessionSource, options: SessionChatTransportOptions<Message> = {}) {
    assertTransportOptions(options);
    this.#sessions = new ChatSessions(session);
    this.#options = options;
  }

  /**
   * Asks the server. An abort of the signal, and leaving the stream, stop the model.
   *
   * @throws {ProtocolError} `invalid_argument` for an ID of a chat that has not 1 to 123 bytes; the errors of
   * `Session.stream`; the reason of the signal. From the stream: the errors of the request.
   */
  async sendMessages(
    request: Parameters<ChatTransport<Message>['sendMessages']>[0],
  ): Promise<ReadableStream<UIMessageChunk>> {
    const { chatId: id, abortSignal: signal } = request;
    chatReplyName(id);
    signal?.throwIfAborted();
    const [session, { envelope, metadata }] = await untilAborted(
      Promise.all([this.#sessions.get(), this.#prepare(request)]),
      signal,
    );
    return chunksOf(session.stream({ json: envelope }, { metadata, signal }), { signal, isReplay: false });
  }

  /**
   * Follows the answer of a chat from its first chunk, if the server is writing one; otherwise resolves to `null`. An
   * abort of the signal stops the model, unless another attempt takes the place of this one; leaving the stream does not.
   *
   * @throws {ProtocolError} as {@link sendMessages}; the errors of `Session.replies`.
   */
  async reconnectToStream({
    chatId,
    abortSignal: signal,
  }: Parameters<
    ChatTransport<Message>['reconnectToStream']
  >[0]): Promise<ReadableStream<UIMessageChunk> | null> {
    const name = chatReplyName(chatId);
    const attempt = {};
    this.#followers.set(chatId, attempt);
    const forget = () => {
      if (this.#followers.get(chatId) === attempt) this.#followers.delete(chatId);
    };
    try {
      const session = await this.#sessions.get();
      const reply = await findRunning(session, name);
      if (reply === undefined) {
        forget();
        return null;
      }
      const following = session.follow(reply);
      const leave = () => {
        // The AI SDK aborts an attempt for `stop()`, and immediately before it makes another one.
        queueMicrotask(() => {
          if (this.#followers.get(chatId) === attempt) void this.#stop(following);
          forget();
          following.cancel();
        });
      };
      if (signal?.aborted === true) {
        leave();
        throw signal.reason;
      }
      signal?.addEventListener('abort', leave, { once: true });
      const onOver = () => {
        signal?.removeEventListener('abort', leave);
        forget();
      };
      return chunksOf(following, { signal, isReplay: true, onOver });
    } catch (error) {
      if (signal?.aborted !== true) forget();
      throw error;
    }
  }

  /**
   * Closes the session that the transport has opened for a URL, for example when its user signs out. The next request opens
   * another one. It leaves a session alone that the application has opened. Never rejects.
   */
  close(): Promise<void> {
    return this.#sessions.close();
  }

  async #prepare(
    request: Parameters<ChatTransport<Message>['sendMessages']>[0],
  ): Promise<{ readonly envelope: ChatEnvelope; readonly metadata: Metadata }> {
    const { chatId: id, trigger, messageId, messages, metadata } = request;
    const { prepareSendMessagesRequest: prepare } = this.#options;
    const body = { ...(await resolve(this.#options.body)), ...request.body };
    let headers = new Headers(await resolve(this.#options.headers));
    for (const [name, value] of new Headers(request.headers)) headers.set(name, value);
    const common = { id, trigger, messageId, metadata };
    if (prepare === undefined)
      return { envelope: { ...common, messages, body }, metadata: metadataOf(headers) };
    const toPrepare: ChatRequestToPrepare<Message> = {
      ...{ id, trigger, messageId, messages, body },
      headers: Object.fromEntries(headers),
      requestMetadata: metadata,
    };
    const prepared = await prepare(toPrepare);
    if (prepared.headers !== undefined) headers = new Headers(prepared.headers);
    return { envelope: { ...common, body: prepared.body }, metadata: metadataOf(headers) };
  }

  /** Stops the model. Never rejects. */
  async #stop(reply: FollowedReply): Promise<void> {
    try {
      await reply.stop();
    } catch (error) {
      // It has ended by itself, and is forgotten.
      if (isProtocolError(error) && error.code === 'unknown_reply') return;
      const logger = guardLogger(this.#options.logger ?? console);
      logger.warn({ event: 'chat.unstopped', err: loggable(error) }, 'an answer could not be stopped');
    }
  }
}

function metadataOf(headers: Headers): Metadata {
  return { [CHAT]: { headers: Object.fromEntries(headers) } };
}

/** The ID of the answer with this name, if it is being written. */
async function findRunning(session: ChatSession, name: string): Promise<string | undefined> {
  // The newest comes first.
  const newest = (await session.replies()).find((reply) => reply.name === name);
  return newest?.state === 'running' ? newest.id : undefined;
}

async function untilAborted<Value>(value: Promise<Value>, signal: AbortSignal | undefined): Promise<Value> {
  if (signal === undefined) return await value;
  const { promise, reject } = withRejection();
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([value, promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

function withRejection(): { readonly promise: Promise<never>; readonly reject: (reason: unknown) => void } {
  let reject = (_reason: unknown): void => {};
  const promise = new Promise<never>((_resolve, rejectIt) => {
    reject = rejectIt;
  });
  return { promise, reject };
}
