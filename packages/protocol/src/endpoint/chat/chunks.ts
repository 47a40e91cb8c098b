import { isProtocolError, ProtocolError } from '../../base/errors.js';
import { get, isFields } from '../../base/fields.js';
import type { Message } from '../messages/message.js';
import type { Session } from '../session.js';
import { CONTINUATION, chatReplyName } from './chat.js';
import { type ChatChunk, replayMessage } from './replay.js';

/** The parts of an answer, from the first or from a later one. */
export interface ChatParts {
  next(): Promise<IteratorResult<Message, undefined>>;
}

/**
 * The parts of an answer as UI message chunks. It reads nothing ahead, so that a slow reader holds the sender back.
 *
 * @param isReplay the reader has nothing of the answer yet, not even the message that it continues.
 * @throws {ProtocolError} `unsupported` for a part that is not a chunk; the errors of the reply. If another reader has stopped it, the last
 * chunk is `abort`; if the server has forgotten it, the chunks end.
 */
export async function* chatChunks(parts: ChatParts, isReplay: boolean): AsyncGenerator<ChatChunk, void> {
  try {
    for (;;) {
      const { done, value } = await parts.next();
      if (done === true) return;
      const chunk = readChunk(value);
      if (chunk.type !== CONTINUATION) yield chunk;
      else if (isReplay) yield* replayMessage(get(chunk, 'message'));
    }
  } catch (error) {
    if (!isEnd(error, isReplay)) throw error;
    if (error.code === 'cancelled') yield { type: 'abort' };
  }
}

function isEnd(error: unknown, isReplay: boolean): error is ProtocolError {
  return (
    isProtocolError(error) &&
    (error.code === 'cancelled' || (isReplay && error.code === 'unknown_reply')) &&
    error.side === 'remote'
  );
}

function readChunk(part: Message): ChatChunk {
  let chunk: unknown;
  try {
    chunk = part.json();
  } catch (cause) {
    if (!isProtocolError(cause) || cause.code !== 'bad_json') throw cause;
    throw notChunks(cause);
  }
  if (isFields(chunk)) {
    const type = get(chunk, 'type');
    if (typeof type === 'string') return { ...chunk, type };
  }
  throw notChunks();
}

function notChunks(cause?: unknown): ProtocolError {
  return new ProtocolError(
    'unsupported',
    'the server answered with something else than UI message chunks; its onRequest must be chatHandler of @parlance/server/ai',
    { cause },
  );
}

/**
 * The ID of the newest answer in a chat, if it is being written.
 *
 * @throws {ProtocolError} as {@link chatReplyName}; the errors of `Session.replies`.
 */
export async function runningAnswer(
  session: Pick<Session, 'replies'>,
  chat: string,
): Promise<string | undefined> {
  const name = chatReplyName(chat);
  // The newest comes first.
  const newest = (await session.replies()).find((reply) => reply.name === name);
  return newest?.state === 'running' ? newest.id : undefined;
}
