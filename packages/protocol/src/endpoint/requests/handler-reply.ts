import { isAsyncIterable, isGenerator, type Part } from '../messages/part.js';

/** The results of handlers. */

/** The reply of a handler: one part, or what yields several and may return the last, or nothing. */
export type HandlerReply =
  | Part
  | undefined
  | AsyncIterable<Part, Part | ReturnType<() => void>>
  | Generator<Part, Part | ReturnType<() => void>>;

type Parts<Each> = AsyncIterable<Each, Each | undefined>;

/** The parts of a reply that has several; their generator may return the last one. `undefined` for a reply of one part. */
export function partsIn<Each = Part>(reply: unknown): Parts<Each> | undefined {
  if (isAsyncIterable(reply)) return reply as Parts<Each>;
  return isGenerator(reply) ? partsIn(asynchronous(reply)) : undefined;
}

async function* asynchronous(parts: Iterable<unknown, unknown>): AsyncGenerator<unknown, unknown> {
  return yield* parts;
}

/**
 * Gives each part to `take`, and then what their generator returns. As `for await`, it lets the iterator return if `take` wants no
 * more or throws; that loop has no returned value, and to put one in its way costs two promises for each token of a stream.
 *
 * @param take returns `false` if it wants no more, or resolves when it has room for the next part.
 */
export async function takeParts<Each>(
  parts: Parts<Each>,
  take: (part: Each) => Promise<void> | false | undefined,
): Promise<void> {
  const iterator = parts[Symbol.asyncIterator]();
  // One that has failed is over as well.
  let isOver = true;
  let hasThrown = true;
  try {
    do {
      isOver = true;
      const { done, value } = await iterator.next();
      isOver = done === true;
      if (isOver && value === undefined) break;
      const taken = take(value as Each);
      if (taken === false) break;
      if (taken !== undefined) await taken;
    } while (!isOver);
    hasThrown = false;
  } finally {
    if (!isOver) await leave(iterator, hasThrown);
  }
}

/** @throws {unknown} what the iterator throws, unless something else was thrown before. */
async function leave(iterator: AsyncIterator<unknown>, hasThrown: boolean): Promise<void> {
  try {
    await iterator.return?.();
  } catch (error) {
    if (!hasThrown) throw error;
  }
}
