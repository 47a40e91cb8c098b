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

const OVER: Promise<IteratorResult<never, undefined>> = Promise.resolve({ value: undefined, done: true });

function withReturned<Each>(parts: AsyncIterable<Each, Each | undefined>): AsyncIterable<Each> {
  return {
    [Symbol.asyncIterator]() {
      const iterator = parts[Symbol.asyncIterator]();
      let isOver = false;
      const toPart = (result: IteratorResult<Each, Each | undefined>): IteratorResult<Each> => {
        if (result.done !== true) return result;
        isOver = true;
        const { value } = result;
        return value === undefined ? { value, done: true } : { value, done: false };
      };
      return {
        // Nothing is allocated for a part: this is called for each token of a stream.
        next: () => (isOver ? OVER : Promise.resolve(iterator.next()).then(toPart)),
        async return() {
          if (!isOver) await iterator.return?.();
          return { value: undefined, done: true };
        },
      };
    },
  };
}
