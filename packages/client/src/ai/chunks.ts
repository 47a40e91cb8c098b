import { chatChunks } from '@parlance/protocol/client';
import type { UIMessageChunk } from 'ai';
import type { Answer } from './answer.js';

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
  const chunks = chatChunks(answer, isReplay);
  return new ReadableStream<UIMessageChunk>(
    {
      async pull(controller) {
        try {
          signal?.throwIfAborted();
          const { done, value } = await chunks.next();
          signal?.throwIfAborted();
          if (done === true) controller.close();
          else controller.enqueue(value as UIMessageChunk);
        } catch (error) {
          // A part that cannot be read has not ended the answer.
          onLeave();
          throw signal?.aborted === true ? signal.reason : error;
        }
      },
      cancel: onLeave,
    },
    { highWaterMark: 0 },
  );
}
