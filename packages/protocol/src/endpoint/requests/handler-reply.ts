import { isAsyncIterable, isGenerator, type Part } from '../messages/part.js';

/** What a handler returns. */

/** The reply of a handler: one part, or what yields several and may return the last, or nothing. */
export type HandlerReply =
  | Part
  | undefined
  | AsyncIterable<Part, Part | ReturnType<() => void>>
  | Generator<Part, Part | ReturnType<() => void>>;

/** The parts of a reply that has several, and then what their generator returns; `undefined` for a reply of one part. */
export function partsIn<Each = Part>(reply: unknown): AsyncIterable<Each> | undefined {
  if (isAsyncIterable(reply)) return withReturned(reply as AsyncIterable<Each, Each | undefined>);
  return isGenerator(reply) ? partsIn(asynchronous(reply)) : undefined;
}

async function* asynchronous(parts: Iterable<unknown, unknown>): AsyncGenerator<unknown, unknown> {
  return yield* parts;
}

function withReturned<Each>(parts: AsyncIterable<Each, Each | undefined>): AsyncIterable<Each> {
  return {
    [Symbol.asyncIterator]() {
      const iterator = parts[Symbol.asyncIterator]();
      let isOver = false;
      return {
        async next() {
          if (isOver) return { value: undefined, done: true };
          const { value, done } = await iterator.next();
          isOver = done === true;
          return value === undefined && isOver
            ? { value, done: true }
            : { value: value as Each, done: false };
        },
        async return() {
          if (!isOver) await iterator.return?.();
          return { value: undefined, done: true };
        },
      };
    },
  };
}
