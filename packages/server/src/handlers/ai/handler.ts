import { randomUUID } from 'node:crypto';
import {
  type KeepOptions,
  type Logger,
  type Part,
  ProtocolError,
  type RequestContext,
  type RequestHandler,
} from '@parlance/protocol';
import {
  assertOptions,
  atOnce,
  CONTINUATION,
  type Continuation,
  chatReplyName,
  comesOfStopping,
  guardLogger,
  loggable,
  type OptionKinds,
  SILENT_LOGGER,
  withPathsOf,
} from '@parlance/protocol/internal';
import type { UIMessage, UIMessageChunk, UIMessageStreamOptions } from 'ai';
import { keepByPolicy } from '../../session/keep-policy.js';
import { modelErrorOf, responseErrorOf } from './failure.js';
import { type ChatRequest, isChatRequest, readChatRequest } from './request.js';

/** The result of `streamText`, or of an agent's `stream`. */
export interface UIMessageSource<ChatMessage extends UIMessage = UIMessage> {
  toUIMessageStream(options?: UIMessageStreamOptions<ChatMessage>): ReadableStream<UIMessageChunk>;
}

/** How to answer: the result of `streamText`, or a stream of UI message chunks, such as one of `createUIMessageStream`. */
export type ChatAnswer<ChatMessage extends UIMessage = UIMessage> =
  | UIMessageSource<ChatMessage>
  | ReadableStream<UIMessageChunk>
  | AsyncIterable<UIMessageChunk>;

export interface ChatHandlerOptions<ChatMessage extends UIMessage = UIMessage> {
  /**
   * For the result of `streamText`: `onFinish`, `messageMetadata`, `sendReasoning`, `sendSources` and the others of
   * `toUIMessageStream`, for each request. `originalMessages`, `generateMessageId` and `onError` have defaults: the
   * messages of the request, random IDs, and an error that reaches the client as its `RequestError`. `onFinish` and the other
   * callbacks are called for a stream of UI message chunks as well; what shapes chunks, such as `messageMetadata`, is not applied to it.
   *
   * @default {}
   */
  readonly stream?:
    | UIMessageStreamOptions<ChatMessage>
    | ((request: ChatRequest<ChatMessage>) => UIMessageStreamOptions<ChatMessage>)
    | undefined;
  /**
   * How answers are kept, so that they can be followed by the name `chat:` and the ID of the chat; `false` keeps none. An
   * answer that cannot be kept because a bound is met is sent as usual, and the server logs that. @default as `keep()` does
   */
  readonly keep?: Omit<KeepOptions, 'name'> | false | undefined;
  /** Answers the requests that are not of a chat. @default they fail with `bad_request` */
  readonly otherwise?: RequestHandler | undefined;
  /** Logs failures of the model, and options of `keep` that are wrong. @default silent */
  readonly logger?: Logger | undefined;
}

/** Options of each handler of chats. */
export const CHAT_KINDS: OptionKinds<Omit<ChatHandlerOptions, 'otherwise'>> = {
  stream: ['object', 'function'],
  keep: ['flag', 'object'],
  logger: 'logger',
};

const KINDS: OptionKinds<ChatHandlerOptions> = { ...CHAT_KINDS, otherwise: 'function' };

const KEEP_KINDS: OptionKinds<Omit<KeepOptions, 'name'>> = {
  ttlMs: 'number',
  abandonAfterMs: 'number',
  share: 'any',
};

/** @throws {ProtocolError} `invalid_option`. */
export function assertKeep(keep: ChatHandlerOptions['keep']): void {
  if (keep !== false) assertOptions(keep, KEEP_KINDS, 'keep');
}

/** Milliseconds that the model has to end its answer once it was stopped. */
const STOP_GRACE_MS = 5_000;

/**
 * Creates a request handler for the chats of `SessionChatTransport` (`@parlance/client/ai`).
 *
 *     createServer({
 *       onRequest: chatHandler(async ({ messages, signal }) =>
 *         streamText({ model, messages: await convertToModelMessages(messages), abortSignal: signal })),
 *     })
 *
 * The answer continues, and `onFinish` is called, also if the client is gone. A stop by any page of the principal aborts
 * `signal`. A `RequestError` of the handler, or of the model, reaches the client with its code; a response of the model's
 * provider with an error status as `rate_limited` or `upstream_status`, and other failures of the model as `model_failed`.
 * Anything else that the handler throws is `internal`, as of every handler.
 *
 * @throws {ProtocolError} `invalid_option`.
 */
export function chatHandler<ChatMessage extends UIMessage = UIMessage>(
  answer: (request: ChatRequest<ChatMessage>) => ChatAnswer<ChatMessage> | Promise<ChatAnswer<ChatMessage>>,
  options: ChatHandlerOptions<ChatMessage> = {},
): RequestHandler {
  assertOptions(options, KINDS);
  const { otherwise, keep = {} } = options;
  const logger = guardLogger(options.logger ?? SILENT_LOGGER);
  assertKeep(keep);

  async function* answerChat(
    request: Parameters<RequestHandler>[0],
    context: RequestContext,
  ): AsyncGenerator<Part> {
    // Also if the reply cannot be kept: `onFinish` stores it.
    context.runToCompletion();
    const chat = readChatRequest<ChatMessage>(request, { ...context, signal: abortOf(context.signal) });
    keepByPolicy(keep, request, context, logger, { name: chatReplyName(chat.id) });
    const log = (error: unknown) => {
      if (context.signal.aborted && comesOfStopping(error)) return;
      logger.warn({ event: 'chat.failed', err: loggable(error) }, 'a chat could not be answered');
    };
    const errors = new StreamErrors();
    const continued = continuedBy(chat);
    if (continued !== undefined) yield { json: continued };
    let chunks: ReadableStream<UIMessageChunk>;
    try {
      chunks = await streamOf(await answer(chat), chat, options, errors);
    } catch (error) {
      log(error);
      throw responseErrorOf(error) ?? error;
    }
    try {
      for await (const chunk of untilEnd(chunks, context.signal)) {
        errors.throwIfFatal(chunk);
        yield { json: chunk };
      }
    } catch (error) {
      log(error);
      throw modelErrorOf(error);
    }
  }

  const handler: RequestHandler = (request, context) =>
    otherwise !== undefined && !isChatRequest(context.metadata)
      ? otherwise(request, context)
      : answerChat(request, context);
  return withPathsOf(handler, otherwise);
}

/** Aborts together with `signal`, and with an `AbortError`, which is what the AI SDK takes for a stop and not for a failure. */
function abortOf(signal: AbortSignal): AbortSignal {
  const controller = new AbortController();
  const abort = () => controller.abort(new DOMException('the answer was stopped', 'AbortError'));
  if (signal.aborted) abort();
  else signal.addEventListener('abort', abort, { once: true });
  return controller.signal;
}

/** The answer continues an assistant's message if that is the last one: the outputs of its tools are there now. */
function continuedBy({ messages }: ChatRequest): Continuation | undefined {
  const message = messages.at(-1);
  return message?.role === 'assistant' ? { type: CONTINUATION, message } : undefined;
}

async function streamOf<ChatMessage extends UIMessage>(
  answer: ChatAnswer<ChatMessage>,
  chat: ChatRequest<ChatMessage>,
  { stream = {} }: ChatHandlerOptions<ChatMessage>,
  errors: StreamErrors,
): Promise<ReadableStream<UIMessageChunk>> {
  const given = (): UIMessageStreamOptions<ChatMessage> => ({
    originalMessages: chat.messages,
    generateMessageId: randomUUID,
    onError: (error) => errors.add(error),
    ...(typeof stream === 'function' ? atOnce(stream(chat), 'stream') : stream),
  });
  if (typeof answer === 'object' && answer !== null) {
    if ('toUIMessageStream' in answer && typeof answer.toUIMessageStream === 'function')
      return answer.toUIMessageStream(given());
    if ('getReader' in answer) return await finished(answer, given());
    if (Symbol.asyncIterator in answer) return await finished(readableOf(answer), given());
  }
  throw new ProtocolError(
    'invalid_argument',
    'chatHandler: expected the result of streamText or a stream of UI message chunks',
  );
}

/** Callbacks that `createUIMessageStream` has as well; those with `End` are of AI SDK 7. */
const CALLBACKS = ['onFinish', 'onEnd', 'onStepFinish', 'onStepEnd'] as const;

/** A stream of the application, with the callbacks that `toUIMessageStream` would call. */
async function finished<ChatMessage extends UIMessage>(
  chunks: ReadableStream<UIMessageChunk>,
  options: UIMessageStreamOptions<ChatMessage>,
): Promise<ReadableStream<UIMessageChunk>> {
  const all: Readonly<Record<string, unknown>> = { ...options };
  const callbacks = Object.fromEntries(
    CALLBACKS.filter((name) => all[name] !== undefined).map((name) => [name, all[name]]),
  );
  if (Object.keys(callbacks).length === 0) return chunks;
  const { createUIMessageStream } = await aiSdk();
  const { originalMessages, generateMessageId: generateId = randomUUID, onError } = options;
  return createUIMessageStream<ChatMessage>({
    execute: ({ writer }) => writer.merge(chunks as Parameters<typeof writer.merge>[0]),
    generateId,
    ...(originalMessages && { originalMessages }),
    ...(onError && { onError }),
    ...callbacks,
  });
}

/** The chunks may be those of an application without the package `ai`. */
async function aiSdk(): Promise<typeof import('ai')> {
  try {
    return await import('ai');
  } catch (cause) {
    throw new ProtocolError(
      'unsupported',
      'chatHandler: onFinish and the other callbacks of stream need the package ai: npm install ai',
      { cause },
    );
  }
}

function readableOf(chunks: AsyncIterable<UIMessageChunk>): ReadableStream<UIMessageChunk> {
  const iterator = chunks[Symbol.asyncIterator]();
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await iterator.next();
        if (done === true) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await iterator.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}

/** The errors that the chunks of a stream tell only as texts. */
class StreamErrors {
  readonly #byText = new Map<string, unknown>();

  /** @returns the text that the chunk is to have. */
  add(error: unknown): string {
    const text = modelErrorOf(error).message;
    // Tools fail with such texts too, as often as the model calls them, so only the latest of each is kept.
    if (this.#byText.size < MAX_TEXTS) this.#byText.set(text, error);
    return text;
  }

  /** An error that ends the answer, unlike that of a tool. */
  throwIfFatal(chunk: UIMessageChunk): void {
    if (chunk.type === 'error' && this.#byText.has(chunk.errorText)) throw this.#byText.get(chunk.errorText);
  }
}
const MAX_TEXTS = 64;

/**
 * The chunks of a stream. If its reader leaves because the answer was stopped, the rest is read and dropped, so that the
 * AI SDK calls `onFinish`; a model that does not heed the signal is left after {@link STOP_GRACE_MS}.
 */
async function* untilEnd(
  stream: ReadableStream<UIMessageChunk>,
  signal: AbortSignal,
): AsyncGenerator<UIMessageChunk> {
  const reader = stream.getReader();
  let timer: NodeJS.Timeout | undefined;
  const leave = () => {
    timer = setTimeout(() => void reader.cancel(signal.reason).catch(() => {}), STOP_GRACE_MS);
  };
  if (signal.aborted) leave();
  else signal.addEventListener('abort', leave, { once: true });
  let isOver = false;
  const read = async (): Promise<UIMessageChunk | undefined> => {
    try {
      const { done, value } = await reader.read();
      isOver = done;
      return value;
    } catch (error) {
      isOver = true;
      throw error;
    }
  };
  try {
    for (let chunk = await read(); chunk !== undefined; chunk = await read()) yield chunk;
  } finally {
    while (!isOver && signal.aborted) await read().catch(() => {});
    if (!isOver) void reader.cancel().catch(() => {});
    clearTimeout(timer);
    signal.removeEventListener('abort', leave);
  }
}
