import {
  decodeHttpResponse,
  type HandlerReply,
  type Message,
  type Metadata,
  type Part,
  ProtocolError,
  type RequestContext,
  type RequestHandler,
} from '@parlance/protocol';
import { isAsyncIterable, isThenable, type OwnContext, partsIn } from '@parlance/protocol/internal';
import type { RequestOutcome, Tracing } from './tracing.js';

/** Is notified of every answered request. */
export interface RequestObserver {
  handleRequest(outcome: RequestOutcome, seconds: number): void;
  /** The reply has its first part with content, which is not an HTTP error. */
  handleFirstPart?(seconds: number): void;
}

/** Measures a handler and runs it in its own span; calls it directly if neither is wanted. */
export function instrument(
  handler: RequestHandler,
  observer: () => RequestObserver | undefined,
  tracing: () => Tracing | undefined,
): RequestHandler {
  return (request, context: RequestContext & Partial<OwnContext>) => {
    const measured = observer();
    const span = tracing()?.start(context.metadata);
    if (measured === undefined && span === undefined) return handler(request, context);
    const begun = performance.now();
    let isOver = false;
    const end = (failed: boolean, error?: unknown): void => {
      if (isOver) return;
      isOver = true;
      const isCancelled = context.isCancelled ?? context.signal.aborted;
      const isFailed = failed || isHttpError(context.replyMetadata);
      const outcome = isCancelled ? 'cancelled' : isFailed ? 'failed' : 'answered';
      measured?.handleRequest(outcome, (performance.now() - begun) / 1000);
      span?.end(outcome, error);
    };
    const run = <T>(task: () => T): T => (span === undefined ? task() : span.run(task));
    let hasPart = measured === undefined;
    const take = (part: unknown): void => {
      // A gateway begins with an empty part, which carries the status.
      if (hasPart || part === '') return;
      hasPart = true;
      // How soon it failed says nothing about how soon it answers.
      if (isHttpError(context.replyMetadata)) return;
      measured?.handleFirstPart?.((performance.now() - begun) / 1000);
    };
    return observe(handler, request, context, { run, take, end });
  };
}

/** The requester reads it as an error, although the handler has answered: such as that of a gateway's upstream. */
function isHttpError(metadata: Metadata | undefined): boolean {
  try {
    return metadata !== undefined && (decodeHttpResponse(metadata)?.status ?? 0) >= 400;
  } catch (error) {
    // The handler has made it up itself.
    if (error instanceof ProtocolError) return false;
    throw error;
  }
}

/** Called around a handler and for what it yields. */
interface Steps {
  run<T>(task: () => T): T;
  take(part: unknown): void;
  end(failed: boolean, error?: unknown): void;
}

function observe(
  handler: RequestHandler,
  request: Message,
  context: RequestContext,
  steps: Steps,
): ReturnType<RequestHandler> {
  const { run, end } = steps;
  let reply: ReturnType<RequestHandler>;
  try {
    reply = run(() => handler(request, context));
  } catch (error) {
    end(true, error);
    throw error;
  }
  if (isAsyncIterable(reply) || !isThenable(reply)) return observeReply(reply, steps);
  return Promise.resolve(reply).then(
    (late) => observeReply(late, steps),
    (error: unknown) => {
      end(true, error);
      throw error;
    },
  );
}

function observeReply(reply: HandlerReply, steps: Steps): HandlerReply {
  const parts = partsIn(reply);
  if (parts !== undefined) return observeParts(parts, steps);
  steps.take(reply);
  steps.end(false);
  return reply;
}

/** The same parts; each step of the handler runs within `run`. */
function observeParts(parts: AsyncIterable<Part>, { run, take, end }: Steps): AsyncIterable<Part> {
  return {
    [Symbol.asyncIterator]() {
      const iterator = parts[Symbol.asyncIterator]();
      return {
        async next() {
          try {
            const result = await run(() => iterator.next());
            // The last part may be returned.
            if (result.done !== true || result.value !== undefined) take(result.value);
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
