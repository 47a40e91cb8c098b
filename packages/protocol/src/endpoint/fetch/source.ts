import { systemClock } from '../../platform/clock.js';
import { Pieces } from '../http/pieces.js';
import type { BodySource } from '../http/uploads.js';
import { bytesOf } from '../messages/part.js';

/** Bodies of requests and responses as the Fetch API and its imitations have them. */

/** Reads chunks, one at a time. */
export interface ChunkReader {
  /** `undefined` after the last chunk. @throws {TypeError} for a chunk that is not bytes; what the body throws. */
  next(): Promise<Uint8Array | undefined>;
  /** Stops the producer. Never throws, nor rejects later. */
  cancel(reason: unknown): void;
}

/** Empty chunks after which other work has the event loop: a body may have nothing else. */
const MAX_EMPTY_CHUNKS = 64;

/**
 * @param body a `ReadableStream`, or a stream of Node.
 * @throws {TypeError} if it is none, or is being read already.
 */
export function readChunks(body: unknown): ChunkReader {
  const { read, cancel } = openBody(body);
  let isCancelled = false;
  return {
    async next() {
      for (let empty = 1; ; empty++) {
        const { done, value } = await read();
        // A cancelled body must not pass for a complete one.
        if (isCancelled) throw new TypeError('the reader of the body has left');
        if (done === true) return undefined;
        const bytes = bytesOf(value);
        if (bytes === undefined) throw new TypeError('a chunk of a body is not bytes');
        if (bytes.length > 0) return bytes;
        if (empty % MAX_EMPTY_CHUNKS === 0) await systemClock.yield();
      }
    },
    cancel(reason) {
      if (isCancelled) return;
      isCancelled = true;
      new Promise((resolve) => resolve(cancel(reason))).catch(() => {});
    },
  };
}

interface OpenBody {
  readonly read: () => Promise<IteratorResult<unknown, unknown> | ReadableStreamReadResult<unknown>>;
  readonly cancel: (reason: unknown) => unknown;
}

function openBody(body: unknown): OpenBody {
  if (typeof body === 'object' && body !== null) {
    if ('getReader' in body && typeof body.getReader === 'function') {
      const reader = (body as ReadableStream<unknown>).getReader();
      return { read: () => reader.read(), cancel: (reason) => reader.cancel(reason) };
    }
    if (Symbol.asyncIterator in body) {
      const iterator = (body as AsyncIterable<unknown>)[Symbol.asyncIterator]();
      return {
        read: async () => await iterator.next(),
        cancel: (reason) => {
          // Ends a pending read of a stream of Node, which `return()` would wait for.
          if ('destroy' in body && typeof body.destroy === 'function') body.destroy(reason);
          return iterator.return?.();
        },
      };
    }
  }
  throw new TypeError('the body is not a stream');
}

/**
 * A body as pieces to send.
 *
 * @param first what was read of it already.
 */
export function createSource(
  chunks: ChunkReader,
  isText: boolean,
  first: readonly Uint8Array[] = [],
): BodySource {
  const unread = [...first];
  const pieces = new Pieces(isText);
  let pending: Iterator<string | Uint8Array> | undefined;
  let isOver = false;
  return {
    async next() {
      for (;;) {
        const piece = pending?.next();
        if (piece !== undefined && piece.done !== true) return piece.value;
        if (isOver) return undefined;
        const chunk = unread.shift() ?? (await chunks.next());
        isOver = chunk === undefined;
        pending = chunk === undefined ? pieces.end() : pieces.push(chunk);
      }
    },
    cancel: (reason) => chunks.cancel(reason),
  };
}

/** Bytes as pieces to send. */
export function createSourceOf(bytes: Uint8Array, isText: boolean): BodySource {
  return createSource({ next: async () => undefined, cancel: () => {} }, isText, [bytes]);
}

/** A stream of chunks, which are read only when they are asked for. */
export function streamOf(chunks: ChunkReader): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream(
    {
      async pull(controller) {
        const chunk = await chunks.next();
        if (chunk === undefined) controller.close();
        else controller.enqueue(new Uint8Array(chunk));
      },
      cancel: (reason) => chunks.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}
