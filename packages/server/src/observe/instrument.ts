import type { Message, Part, RequestContext, RequestHandler } from '@parlance/protocol';
import { LateParts } from '@parlance/protocol/internal';
import type { RequestOutcome, Tracing } from './tracing.js';

/** Is notified of every answered request. */
export interface RequestObserver {
  handleRequest(outcome: RequestOutcome, seconds: number): void;
}

/** Measures a handler and runs it in its own span; calls it directly if neither is wanted. */
export function instrument(
  handler: RequestHandler,
  observer: () => RequestObserver | undefined,
  tracing: () => Tracing | undefined,
): RequestHandler {
  return (request, context) => {
    const measured = observer();
    const traced = tracing();
    if (measured === undefined && traced === undefined) return handler(request, context);
    const begun = performance.now();
    const span = traced?.start(context.metadata);
    let isOver = false;
    const end = (failed: boolean, error?: unknown): void => {
      if (isOver) return;
      isOver = true;
      const outcome = context.signal.aborted ? 'cancelled' : failed ? 'failed' : 'answered';
      measured?.handleRequest(outcome, (performance.now() - begun) / 1000);
      span?.end(outcome, error);
    };
    const run = <T>(task: () => T): T => (span === undefined ? task() : span.run(task));
    return observe(handler, request, context, run, end);
  };
}

function observe(
  handler: RequestHandler,
  request: Message,
  context: RequestContext,
  run: <T>(task: () => T) => T,
  end: (failed: boolean, error?: unknown) => void,
): ReturnType<RequestHandler> {
  let reply: ReturnType<RequestHandler>;
  try {
    reply = run(() => handler(request, context));
  } catch (error) {
    end(true, error);
    throw error;
  }
  if (isIterable(reply)) return observeParts(reply, run, end);
  return Promise.resolve(reply).then(
    (part) => {
      if (part instanceof LateParts) return new LateParts(observeParts(part.parts, run, end));
      end(false);
      return part;
    },
    (error: unknown) => {
      end(true, error);
      throw error;
    },
  );
}

/** The same parts; each step of the handler runs within `run`. */
function observeParts(
  parts: AsyncIterable<Part>,
  run: <T>(task: () => T) => T,
  end: (failed: boolean, error?: unknown) => void,
): AsyncIterable<Part> {
  return {
    [Symbol.asyncIterator]() {
      const iterator = parts[Symbol.asyncIterator]();
      return {
        async next() {
          try {
            const result = await run(() => iterator.next());
            if (result.done) end(false);
            return result;
          } catch (error) {
            end(true, error);
            throw error;
          }
        },
        async return(value?: unknown) {
          try {
            return (await run(() => iterator.return?.(value))) ?? { done: true, value: undefined };
          } finally {
            end(false);
          }
        },
      };
    },
  };
}

function isIterable(reply: ReturnType<RequestHandler>): reply is AsyncIterable<Part> {
  return typeof reply === 'object' && reply !== null && Symbol.asyncIterator in reply;
}
