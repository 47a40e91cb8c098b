import {
  DEFAULT_LIMITS,
  type FollowedReply,
  type Logger,
  ProtocolError,
  type ReplyStream,
  type Session,
} from '@parlance/protocol';
import {
  CHAT,
  chatChunks,
  chatReplyName,
  type Fields,
  get,
  isCount,
  isFields,
  loggable,
  parseContent,
  runningAnswer,
  systemClock,
} from '@parlance/protocol/internal';
import type { OpenSocket } from '../../transport/http/upgrade.js';

/**
 * The protocol of `WebSocketChatTransport` of `ai` 7: messages are JSON as text. The client sends `send`, `resume` and `abort`, and
 * gets `start`, `chunk`, `end`, `error` and `no-active`; each has the `requestId` that the client chose.
 */

/** Close codes of RFC 6455. */
const GOING_AWAY = 1001;
const NOT_TEXT = 1003;
const MALFORMED = 1008;

/** Bytes that may wait for a slow client, beside one chunk of each answer. */
const HIGH_WATER = 256 * 1024;
/** Requests of one WebSocket at the same time. */
export const MAX_REQUESTS = 64;
/**
 * Milliseconds in which a client that has aborted a `resume` may send another one for the same chat: the AI SDK aborts it both for
 * `stop()` and before it resumes again.
 */
export const STOP_DELAY_MS = 1_000;

/** Serves the chats of one WebSocket in a session within the process. Rejects as `opening`. */
export async function serveChats(
  socket: OpenSocket,
  opening: Promise<Session>,
  logger: Logger,
): Promise<void> {
  let connection: ChatConnection | undefined;
  let isClosed = false;
  socket.listen({
    onMessage: (data) => connection?.handleMessage(data),
    onDrain: () => connection?.handleDrain(),
    onClose() {
      isClosed = true;
      connection?.handleClose();
    },
  });
  socket.hold();
  let session: Session;
  try {
    session = await opening;
  } catch (error) {
    // Its answer to the close is read.
    socket.unhold();
    throw error;
  }
  void drop(session);
  connection = new ChatConnection(socket, session, logger);
  if (isClosed) return connection.handleClose();
  socket.unhold();
  await session.closed;
  // Its answers are followed over another WebSocket.
  socket.close(GOING_AWAY, 'the session has ended');
}

/** The protocol has no place for one-way messages, and an unread session would hold their senders back. */
async function drop(session: Session): Promise<void> {
  try {
    for await (const _ of session);
  } catch {
    // The end of the session is noticed elsewhere.
  }
}

type AnyReply = ReplyStream | FollowedReply;

/** One request, while it is answered and its client wants that. */
interface Answering {
  readonly requestId: string;
  readonly chat: string;
  readonly isResume: boolean;
  /** Absent until a `resume` has found it. */
  reply?: AnyReply;
}

class ChatConnection {
  readonly #socket: OpenSocket;
  readonly #session: Session;
  readonly #logger: Logger;
  readonly #answering = new Map<string, Answering>();
  /** Stop the answers whose `resume` was aborted, by chat, unless they are resumed again. */
  readonly #stops = new Map<string, { readonly cancel: () => void; readonly stop: () => Promise<void> }>();
  /** Answers that wait for a slow client. */
  #waiting: (() => void)[] = [];
  #isRefused = false;
  #isClosed = false;

  constructor(socket: OpenSocket, session: Session, logger: Logger) {
    this.#socket = socket;
    this.#session = session;
    this.#logger = logger;
  }

  handleMessage(data: Uint8Array | string): void {
    if (this.#isRefused) return;
    if (typeof data !== 'string') return this.#refuse(NOT_TEXT, 'JSON as text is expected');
    const message = readMessage(data);
    if (message === undefined) return this.#refuse(MALFORMED, 'send, resume or abort is expected');
    const { type, requestId, fields } = message;
    if (type === 'abort') return this.#abort(requestId);
    try {
      const answering = this.#begin(requestId, type, get(fields, 'id'));
      void this.#answer(answering, fields);
    } catch (error) {
      this.#fail(requestId, error);
    }
  }

  /** Nothing that follows is read. */
  #refuse(code: number, reason: string): void {
    this.#isRefused = true;
    this.#socket.close(code, reason);
  }

  handleDrain(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const go of waiting) go();
  }

  /** The client leaves: its answers continue, except those that it has stopped. */
  handleClose(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#answering.clear();
    this.handleDrain();
    const stops = [...this.#stops.values()].map(({ cancel, stop }) => {
      cancel();
      return stop();
    });
    void Promise.all(stops).then(() => this.#session.close());
  }

  /** @throws {ProtocolError} `invalid_argument` for an ID that no chat can have; `over_budget`. */
  #begin(requestId: string, type: 'send' | 'resume', id: unknown): Answering {
    chatReplyName(id);
    if (this.#answering.has(requestId))
      throw new ProtocolError('invalid_argument', 'a request with this requestId is being answered');
    if (this.#answering.size >= MAX_REQUESTS)
      throw new ProtocolError('over_budget', `more than ${MAX_REQUESTS} requests at the same time`);
    const answering: Answering = { requestId, chat: id as string, isResume: type === 'resume' };
    this.#answering.set(requestId, answering);
    return answering;
  }

  /** Never rejects. */
  async #answer(answering: Answering, fields: Fields): Promise<void> {
    const { requestId } = answering;
    try {
      if (!answering.isResume) await this.#pass(answering, this.#ask(fields), false, -1);
      else if (!(await this.#resume(answering, fields))) return;
      if (this.#take(answering)) this.#send({ type: 'end', requestId });
    } catch (error) {
      if (this.#take(answering)) this.#fail(requestId, error);
    }
  }

  #ask(fields: Fields): ReplyStream {
    const headers = get(fields, 'headers');
    const entries = Object.entries(isFields(headers) ? headers : {});
    return this.#session.stream(
      { json: Object.fromEntries(ENVELOPE.map((name) => [name, get(fields, name)])) },
      { metadata: { [CHAT]: { headers: Object.fromEntries(entries.map(([name, of]) => [name, `${of}`])) } } },
    );
  }

  /** Returns `false` if there is no answer to pass on. */
  async #resume(answering: Answering, fields: Fields): Promise<boolean> {
    const { chat, requestId } = answering;
    this.#stops.get(chat)?.cancel();
    const last = get(fields, 'lastSequence') ?? undefined;
    if (last !== undefined && !isCount(last))
      throw new ProtocolError('invalid_argument', 'lastSequence must be the number of a chunk');
    const id = await this.#find(chat);
    if (!this.#isWanted(answering)) return false;
    if (id === undefined) {
      this.#take(answering);
      this.#send({ type: 'no-active', requestId });
      return false;
    }
    this.#send({ type: 'start', requestId });
    await this.#pass(answering, this.#session.follow(id), last === undefined, last ?? -1);
    return true;
  }

  /** The answer in a chat that is being written; `undefined` if there is none, or the server keeps none. */
  async #find(chat: string): Promise<string | undefined> {
    try {
      return await runningAnswer(this.#session, chat);
    } catch (error) {
      if (error instanceof ProtocolError && error.code === 'unsupported') return undefined;
      throw error;
    }
  }

  /** @param last the number of the last chunk that the client has. */
  async #pass(answering: Answering, reply: AnyReply, isReplay: boolean, last: number): Promise<void> {
    answering.reply = reply;
    let sequence = 0;
    for await (const chunk of chatChunks(reply[Symbol.asyncIterator](), isReplay)) {
      while (this.#isWanted(answering) && this.#socket.bufferedAmount > HIGH_WATER)
        await new Promise<void>((resolve) => void this.#waiting.push(resolve));
      if (!this.#isWanted(answering)) return;
      if (sequence > last) this.#send({ type: 'chunk', requestId: answering.requestId, sequence, chunk });
      sequence++;
    }
  }

  #abort(requestId: string): void {
    const answering = this.#answering.get(requestId);
    if (answering === undefined) return;
    this.#answering.delete(requestId);
    this.handleDrain();
    // Stops the answer of a `send`, and leaves that of a `resume`.
    const { reply } = answering;
    if (reply !== undefined && 'unfollow' in reply) reply.unfollow();
    else reply?.cancel();
    if (answering.isResume) this.#stopSoon(answering);
  }

  #stopSoon({ chat, reply }: Answering): void {
    this.#stops.get(chat)?.cancel();
    const stop = async () => {
      this.#stops.delete(chat);
      try {
        const id = reply?.keptId ?? (await this.#find(chat));
        if (id === undefined) return;
        const stopped = this.#session.follow(id);
        await stopped.stop().finally(() => stopped.unfollow());
      } catch (error) {
        // It has ended by itself, and is forgotten.
        if (error instanceof ProtocolError && error.code === 'unknown_reply') return;
        this.#logger.warn(
          { event: 'chat.unstopped', err: loggable(error) },
          'an answer could not be stopped',
        );
      }
    };
    if (this.#stops.size >= MAX_REQUESTS) return void stop();
    const end = systemClock.after(STOP_DELAY_MS, () => void stop());
    this.#stops.set(chat, {
      stop,
      cancel: () => {
        end();
        this.#stops.delete(chat);
      },
    });
  }

  #isWanted(answering: Answering): boolean {
    return this.#answering.get(answering.requestId) === answering;
  }

  /** Returns whether the request was still being answered, which it is not any more. */
  #take(answering: Answering): boolean {
    return this.#isWanted(answering) && this.#answering.delete(answering.requestId);
  }

  #fail(requestId: string, error: unknown): void {
    // The WebSocket is about to be closed, so that the client resumes over another one.
    const isKnown = error instanceof ProtocolError;
    if (isKnown && ENDED.has(error.code)) return;
    if (!isKnown)
      this.#logger.error({ event: 'chat.failed', err: loggable(error) }, 'a request of a chat failed');
    this.#send({ type: 'error', requestId, errorText: isKnown ? error.message : 'the server has failed' });
  }

  #send(message: object): void {
    this.#socket.send(JSON.stringify(message));
  }
}

const ENVELOPE = ['id', 'trigger', 'messageId', 'messages', 'body', 'metadata'];

/** Errors of a session that has ended. */
const ENDED: ReadonlySet<string> = new Set(['session_closed', 'session_lost']);

/** UTF-16 units. */
const MAX_REQUEST_ID = 256;

interface ClientMessage {
  readonly type: 'send' | 'resume' | 'abort';
  readonly requestId: string;
  readonly fields: Fields;
}

function readMessage(text: string): ClientMessage | undefined {
  const limits = { ...DEFAULT_LIMITS, maxMessageSize: Math.max(DEFAULT_LIMITS.maxMessageSize, text.length) };
  let fields: unknown;
  try {
    fields = parseContent(text, limits, { paid: text.length });
  } catch {
    return undefined;
  }
  if (!isFields(fields)) return undefined;
  const [type, requestId] = [get(fields, 'type'), get(fields, 'requestId')];
  if (type !== 'send' && type !== 'resume' && type !== 'abort') return undefined;
  if (typeof requestId !== 'string' || requestId.length > MAX_REQUEST_ID) return undefined;
  return { type, requestId, fields };
}
