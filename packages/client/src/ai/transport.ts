import type { Metadata } from '@parlance/protocol';
import {
  CHAT,
  type ChatEnvelope,
  chatReplyName,
  guardLogger,
  isProtocolError,
  loggable,
  runningAnswer,
  SELF,
  unlessAborted,
  whenAborted,
  workAsTheyAre,
} from '@parlance/protocol/client';
import type { ChatTransport, UIMessage, UIMessageChunk } from 'ai';
import { Answer } from './answer.js';
import { ChatSessions } from './chat-sessions.js';
import { chunksOf } from './chunks.js';
import {
  assertSource,
  assertTransportOptions,
  type ChatRequestToPrepare,
  type ChatSessionSource,
  resolve,
  type SessionChatTransportOptions,
} from './options.js';

export { ChatDisconnectedError } from './disconnect.js';
export {
  type KeptChat,
  type KeptChatInit,
  SessionChats,
  type SessionChatsOptions,
  sessionChats,
} from './kept-chats.js';
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
 *     const chats = sessionChats(transport, { Chat });
 *     useChat({ chat: chats.get(id), resume: true });
 *
 * An answer continues when the connection or the session is lost, and when the page is closed or loaded again. With `resume`,
 * the next page and every other page of the same principal follow it from its first chunk, and `stop()` in any of them stops the
 * model. Failures keep their `code`: `chat.error` is the `ProtocolError` or the `RequestError` of the request; if the connection
 * has failed, it is a {@link ChatDisconnectedError} with that error as its `cause`.
 */
export class SessionChatTransport<Message extends UIMessage = UIMessage> implements ChatTransport<Message> {
  readonly [SELF] = this;
  /** The chunks of an answer that is followed are all there, from the first. */
  readonly resumeStreamIsReplay = true;
  readonly #sessions: ChatSessions;
  readonly #options: SessionChatTransportOptions<Message>;
  /** The latest attempt to follow the answer of each chat, while it may still be followed. */
  readonly #followers = new Map<string, object>();
  /** The answers that were asked for here, and that may be read still, by the IDs of their chats. */
  readonly #asked = new Map<string, Answer>();

  /**
   * Opens nothing, so it may be called anywhere, such as at the top of a module that a server renders as well.
   *
   * @throws {ProtocolError} `invalid_option`; `invalid_argument` for anything that is no source of a session.
   */
  constructor(session: ChatSessionSource, options: SessionChatTransportOptions<Message> = {}) {
    assertSource(session);
    assertTransportOptions(options);
    this.#sessions = new ChatSessions(session, options.logger);
    this.#options = options;
  }

  /**
   * Asks the server. An abort of the signal, and leaving the stream, stop the model, or leave the answer with `onAbort: 'leave'`.
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
    const using = this.#sessions.use();
    try {
      const [use, { envelope, metadata }] = await unlessAborted(
        Promise.all([using, this.#prepare(request)]),
        signal,
      );
      const answer = new Answer(use, use.session.stream({ json: envelope }, { metadata }), () => {
        free();
        if (this.#asked.get(id) === answer) this.#asked.delete(id);
      });
      const onLeave = () => {
        if (this.#options.onAbort === 'leave') answer.leave();
        else void this.#stop(answer);
      };
      const free = whenAborted(signal, onLeave);
      this.#asked.set(id, answer);
      return chunksOf(answer, { signal, isReplay: false, onLeave });
    } catch (error) {
      using.then((use) => use.release()).catch(() => {});
      throw error;
    }
  }

  /**
   * Follows the answer of a chat from its first chunk, if the server is writing one; otherwise resolves to `null`. An
   * abort of the signal stops the model, unless another attempt takes the place of this one, or the option `onAbort` is 'leave';
   * leaving the stream does not.
   *
   * @throws {ProtocolError} as {@link sendMessages}; the errors of `Session.replies`.
   */
  async reconnectToStream({
    chatId,
    abortSignal: signal,
  }: Parameters<
    ChatTransport<Message>['reconnectToStream']
  >[0]): Promise<ReadableStream<UIMessageChunk> | null> {
    chatReplyName(chatId);
    const attempt = {};
    this.#followers.set(chatId, attempt);
    const forget = () => {
      if (this.#followers.get(chatId) === attempt) this.#followers.delete(chatId);
    };
    const use = await this.#sessions.use();
    try {
      const reply = await runningAnswer(use.session, chatId);
      if (reply === undefined) {
        forget();
        use.release();
        return null;
      }
      let free = (): void => {};
      const answer = new Answer(use, use.session.follow(reply), () => {
        free();
        // A stop waits a moment for another attempt.
        queueMicrotask(forget);
      });
      const abort = () => {
        if (this.#options.onAbort === 'leave') return answer.leave();
        // The AI SDK aborts an attempt for `stop()`, and immediately before it makes another one.
        queueMicrotask(() => {
          if (this.#followers.get(chatId) === attempt) void this.#stop(answer);
          else answer.leave();
          forget();
        });
      };
      if (signal?.aborted === true) {
        abort();
        throw signal.reason;
      }
      free = whenAborted(signal, abort);
      return chunksOf(answer, { signal, isReplay: true, onLeave: () => answer.leave() });
    } catch (error) {
      if (signal?.aborted !== true) {
        forget();
        use.release();
      }
      throw error;
    }
  }

  /**
   * Stops the answer that the server is writing in a chat, whichever page of the principal has asked for it. Resolves when it is
   * stopped, and if there is none.
   *
   * @throws {ProtocolError} as {@link reconnectToStream}; the errors of `FollowedReply.stop`.
   */
  async stop(chatId: string): Promise<void> {
    chatReplyName(chatId);
    const asked = this.#asked.get(chatId);
    if (asked !== undefined) return await stopped(asked);
    const use = await this.#sessions.use();
    try {
      const reply = await runningAnswer(use.session, chatId);
      if (reply !== undefined) await stopped(new Answer(use, use.session.follow(reply)));
    } finally {
      use.release();
    }
  }

  /**
   * Closes the session that the transport has opened for a URL, as soon as none of its answers is read any more: `dispose()`
   * of one chat calls it, and others may use the same transport. The next request opens another session. It leaves a session
   * alone that the application has opened. Never rejects.
   *
   * @param options with `answers: 'end'` it closes at once, for example when the user signs out: answers that are read fail with
   * `session_closed`. @default `answers: 'wait'`
   */
  close({ answers = 'wait' }: { readonly answers?: 'wait' | 'end' | undefined } = {}): Promise<void> {
    return this.#sessions.close(answers === 'end');
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
  async #stop(answer: Answer): Promise<void> {
    try {
      await stopped(answer);
    } catch (error) {
      const logger = guardLogger(this.#options.logger ?? console);
      logger.warn({ event: 'chat.unstopped', err: loggable(error) }, 'an answer could not be stopped');
    }
  }
}

async function stopped(answer: Answer): Promise<void> {
  try {
    await answer.stop();
  } catch (error) {
    // It has ended by itself, and is forgotten.
    if (!isProtocolError(error) || error.code !== 'unknown_reply') throw error;
  }
}

function metadataOf(headers: Headers): Metadata {
  return { [CHAT]: { headers: Object.fromEntries(headers) } };
}

workAsTheyAre(SessionChatTransport);
