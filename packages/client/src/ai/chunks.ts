import type { Message } from '@parlance/protocol';
import { CONTINUATION, get, isFields, isProtocolError, ProtocolError } from '@parlance/protocol/client';
import type { UIMessageChunk } from 'ai';
import type { Answer } from './answer.js';
import { replayMessage } from './replay.js';

export interface ChunkOptions {
  /** Ends the stream. */
  readonly signal: AbortSignal | undefined;
  /** The reader has nothing of the answer yet, not even the message that it continues. */
  readonly isReplay: boolean;
  /** The reader leaves before the end: it has cancelled the stream, or a part cannot be read. */
  readonly onLeave: () => void;
}

/** The parts of an answer as UI message chunks. It reads nothing ahead, so that a slow reader holds the sender back. */
export function chunksOf(
  answer: Answer,
  { signal, isReplay, onLeave }: ChunkOptions,
): ReadableStream<UIMessageChunk> {
  let replayed: Iterator<UIMessageChunk> | undefined;
  const next = async (): Promise<UIMessageChunk | undefined> => {
    for (;;) {
      const waiting = replayed?.next();
      if (waiting?.done === false) return waiting.value;
      const { done, value } = await answer.next();
      if (done === true) return undefined;
      const chunk = readChunk(value);
      if (chunk.type !== CONTINUATION) return chunk as UIMessageChunk;
      if (isReplay) replayed = replayMessage(get(chunk, 'message'));
    }
  };
  return new ReadableStream<UIMessageChunk>(
    {
      async pull(controller) {
        let chunk: UIMessageChunk | undefined;
        try {
          signal?.throwIfAborted();
          chunk = await next();
          signal?.throwIfAborted();
        } catch (error) {
          // A part that cannot be read has not ended the answer.
          onLeave();
          if (signal?.aborted === true) throw signal.reason;
          if (!isEnd(error, isReplay)) throw error;
          // Another reader of the answer has stopped it, or it is forgotten by now: neither is a failure of this chat.
          if (error.code === 'cancelled') controller.enqueue({ type: 'abort' });
        }
        if (chunk !== undefined) controller.enqueue(chunk);
        else controller.close();
      },
      cancel: onLeave,
    },
    { highWaterMark: 0 },
  );
}

function isEnd(error: unknown, isReplay: boolean): error is ProtocolError {
  return (
    isProtocolError(error) &&
    (error.code === 'cancelled' || (isReplay && error.code === 'unknown_reply')) &&
    error.side === 'remote'
  );
}

function readChunk(part: Message): { readonly type: string } {
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
