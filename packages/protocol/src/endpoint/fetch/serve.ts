import { comesOfStopping } from '../../base/callbacks.js';
import { isProtocolError, ProtocolError, RequestError } from '../../base/errors.js';
import { unlessAborted, whenAborted } from '../../base/when-aborted.js';
import { EventParts } from '../http/event-parts.js';
import { decodeIncoming, encodeHttpResponse, type IncomingHead } from '../http/head.js';
import { isEventStream, isTextType } from '../http/media-type.js';
import { messageLimitOf } from '../http/message-limit.js';
import type { PathHandler } from '../http/paths.js';
import { collectUpload, readUpload } from '../http/uploads.js';
import { withHead } from '../http/with-head.js';
import { loggable } from '../loggable.js';
import type { Message } from '../messages/message.js';
import type { Part } from '../messages/part.js';
import { refuse } from '../messages/undecodable.js';
import type { Logger } from '../ports.js';
import type { RequestContext } from '../requests/handler-context.js';
import type { RequestHandler } from '../requests/responder.js';
import type { Session } from '../session.js';
import { BodyBounds } from './body-bounds.js';
import type { SessionFetch } from './fetch.js';
import { type ReadResponse, readResponse } from './response.js';
import { type ChunkReader, createSource, readChunks, streamOf } from './source.js';

/** A session as a fetch handler gets it: it can fetch from the end that asks. */
export type FetchSession = Session & { readonly fetch: SessionFetch };

/** Passed to a fetch handler with the request. */
export interface FetchContext<Own extends Session = FetchSession>
  extends Pick<RequestContext, 'keep' | 'runToCompletion'> {
  readonly session: Own;
  /** Server: the principal that the client authenticated as. */
  readonly principal: string | undefined;
  /** Server: `session.data`. */
  readonly data: Own extends { readonly data: infer Data } ? Data : unknown;
  /** Client: the other client that asks, as in `message.from`. */
  readonly from: Message['from'];
}

/**
 * Answers HTTP requests of the other end's `session.fetch`: `app.fetch` of Hono, a route handler of Next.js, or a
 * function of your own. The host of the URL is `session`. `request.signal` aborts when the requester cancels or the
 * session ends. The body of the request is read when the handler reads it, and that of the response as fast as the
 * requester reads it.
 *
 * An error that it throws is reported as that of any handler, and answered with status 500; a `RequestError` reaches the
 * requester, whose `fetch` rejects with it.
 */
export type FetchHandler<Own extends Session = FetchSession> = (
  request: Request,
  context: FetchContext<Own>,
) => Response | Promise<Response>;

export interface HandlerOptions {
  readonly onRequest?: RequestHandler | undefined;
  readonly onFetch: FetchHandler<never>;
  /** Bytes of a body that is streamed. */
  readonly maxBodySize: number;
  readonly logger: Logger;
  /** Lets other sessions have the event loop between two slices of long work for this one. @default the `yield` of the clock */
  readonly restOf?: ((session: Session) => Promise<void> | undefined) | undefined;
}

/** The handler of an end with `onFetch`: HTTP requests go to it, except those of paths that `onRequest` serves. */
export function createFetchHandler(options: HandlerOptions): RequestHandler {
  const { onRequest } = options;
  const serve = new FetchServer(options);
  const { servesPath }: PathHandler = onRequest ?? unsupported;
  return (request, context) => {
    const head = readHead(context);
    if (head === undefined) return (onRequest ?? unsupported)(request, context);
    if (onRequest !== undefined && !(head instanceof Error) && servesPath?.(head.path) === true) {
      return onRequest(request, context);
    }
    return serve.answer(request, context, head);
  };
}

const unsupported: RequestHandler = () => {
  throw refuse(
    new RequestError('unsupported', 'this end answers HTTP requests only: it has no onRequest handler'),
  );
};

/** The head of an HTTP request, or the reason why it is malformed; `undefined` for another request. */
function readHead({ metadata }: RequestContext): IncomingHead | Error | undefined {
  try {
    return decodeIncoming(metadata);
  } catch (error) {
    if (isProtocolError(error)) return error;
    throw error;
  }
}

const WITHOUT_BODY: readonly number[] = [204, 205, 304];
/** Names of dropped headers that are remembered, so that each is logged once. */
const MAX_NAMES = 64;

class FetchServer {
  readonly #options: HandlerOptions;
  readonly #dropped = new Set<string>();

  constructor(options: HandlerOptions) {
    this.#options = options;
  }

  async *answer(request: Message, context: RequestContext, head: IncomingHead | Error): AsyncGenerator<Part> {
    if (head instanceof Error) return yield* refusal(context, head.message);
    const { signal } = context;
    // Stops reading the body of the request when the reply is over.
    const reading = new AbortController();
    const stop = () => reading.abort(signal.reason);
    const free = whenAborted(signal, stop);
    if (signal.aborted) stop();
    try {
      const bounds = attempt(() => this.#boundsOf(head, context, reading.signal));
      if (bounds instanceof Error) return yield* refusal(context, bounds.message);
      let body: Content;
      try {
        body = await bodyOf(request, context, head, reading.signal, bounds);
      } catch (error) {
        if (bounds.exceeded === undefined) throw error;
        return yield* tooLarge(context, bounds.exceeded);
      }
      const asked = attempt(() => createRequest(head, body, signal));
      if (asked instanceof Error) return yield* refusal(context, asked.message);
      let isKept = false;
      const response = await this.#ask(asked, request, context, head, () => {
        isKept = true;
      });
      if (response === undefined) {
        const { exceeded } = bounds;
        return yield* exceeded === undefined ? failure(context) : tooLarge(context, exceeded);
      }
      yield* this.#send(response, context, isKept);
    } finally {
      free();
      reading.abort(new ProtocolError('cancelled', 'the reply is over'));
    }
  }

  #boundsOf({ headers }: IncomingHead, { session }: RequestContext, signal: AbortSignal): BodyBounds {
    const { maxBodySize, restOf } = this.#options;
    const type = headers.get('content-type');
    return new BodyBounds({ most: maxBodySize, type, signal, rest: () => restOf?.(session) });
  }

  /** Calls the handler. `undefined` if it fails, which is reported then. */
  async #ask(
    asked: Request,
    request: Message,
    context: RequestContext,
    { method }: IncomingHead,
    onKeep: () => void,
  ): Promise<ReadResponse | undefined> {
    const { signal, session } = context;
    const onFetch = this.#options.onFetch as FetchHandler;
    const answering = (async () => await onFetch(asked, contextOf(request, context, onKeep)))();
    try {
      const response = await unlessAborted(answering, signal);
      const hasBody = method !== 'HEAD' && !WITHOUT_BODY.includes(response?.status);
      return readResponse(response, hasBody);
    } catch (error) {
      const report = (err: unknown) => {
        const fields = { event: 'request.failed', session: session.id, err: loggable(err) };
        this.#options.logger.warn(fields, 'onFetch failed');
      };
      if (signal.aborted) {
        // The handler may answer after all, or fail.
        const handleLate = (late: unknown) => comesOfStopping(late) || report(late);
        answering.then((late) => readChunks(late.body).cancel(signal.reason), handleLate).catch(() => {});
        throw error;
      }
      if (error instanceof RequestError) throw error;
      report(error);
      return undefined;
    }
  }

  async *#send(response: ReadResponse, context: RequestContext, isKept: boolean): AsyncGenerator<Part> {
    const { status, headers, body, dropped } = response;
    const { session, signal } = context;
    this.#report(dropped, session);
    const free = whenAborted(signal, () => body?.cancel(signal.reason));
    try {
      context.setMetadata(encodeHttpResponse({ status, headers }));
      if (body === undefined) return;
      const type = headers.get('content-type');
      const events = { maxSize: messageLimitOf(session), hasSigns: !isKept };
      const parts = isEventStream(status, type)
        ? eventsOf(body, new EventParts(events))
        : piecesOf(body, isTextType(type));
      yield* withHead(parts);
    } finally {
      free();
      body?.cancel(undefined);
    }
  }

  #report(dropped: readonly string[], session: Session): void {
    for (const header of dropped) {
      if (this.#dropped.has(header) || this.#dropped.size >= MAX_NAMES) continue;
      this.#dropped.add(header);
      const fields = { event: 'http.header_dropped', session: session.id, header };
      this.#options.logger.warn(
        fields,
        'a header of a response cannot be sent over a session and was left out',
      );
    }
  }
}

async function* eventsOf(body: ChunkReader, events: EventParts): AsyncGenerator<string | Uint8Array> {
  for (let chunk = await body.next(); chunk !== undefined; chunk = await body.next())
    yield* events.push(chunk);
  yield* events.end();
}

async function* piecesOf(body: ChunkReader, isText: boolean): AsyncGenerator<string | Uint8Array> {
  const source = createSource(body, isText);
  for (let piece = await source.next(); piece !== undefined; piece = await source.next()) yield piece;
}

function contextOf({ from }: Message, context: RequestContext, onKeep: () => void): FetchContext {
  const session = context.session as FetchSession;
  return {
    session,
    from,
    get principal() {
      return session.principal;
    },
    get data() {
      return 'data' in session ? session.data : undefined;
    },
    keep(options) {
      const kept = context.keep(options);
      if (kept !== undefined) onKeep();
      return kept;
    },
    runToCompletion: () => context.runToCompletion(),
  };
}

/** Bytes are copied by the request. */
type Content = Uint8Array | ReadableStream<Uint8Array<ArrayBuffer>> | undefined;

/** The body of a request; `undefined` if it has none. */
async function bodyOf(
  { from, bytes }: Message,
  { session }: RequestContext,
  { upload }: IncomingHead,
  signal: AbortSignal,
  bounds: BodyBounds,
): Promise<Content> {
  if (upload === undefined) {
    await bounds.checkForm(bytes);
    return bytes.length === 0 ? undefined : bytes;
  }
  if (from !== undefined) {
    throw refuse(new RequestError('unsupported', 'a body that comes from another client cannot be streamed'));
  }
  if (hasRequestStreams())
    return streamOf(readLater(() => bounds.limit(readUpload(session, upload, signal))));
  const collected = await collectUpload(session, upload, signal);
  await bounds.checkForm(collected);
  return collected;
}

/** Begins to read with the first chunk that is asked for. */
function readLater(begin: () => AsyncIterable<Uint8Array>): ChunkReader {
  let chunks: ChunkReader | undefined;
  return {
    async next() {
      chunks ??= readChunks(begin());
      return await chunks.next();
    },
    cancel: (reason) => chunks?.cancel(reason),
  };
}

let requestStreams: boolean | undefined;

/** Firefox and Safari make a text of a stream that is the body of a request. */
function hasRequestStreams(): boolean {
  if (requestStreams === undefined) {
    let isAsked = false;
    const init = {
      method: 'POST',
      body: new ReadableStream(),
      get duplex() {
        isAsked = true;
        return 'half';
      },
    };
    const hasType = new Request('http://session/', init).headers.has('content-type');
    requestStreams = isAsked && !hasType;
  }
  return requestStreams;
}

function attempt<Value>(make: () => Value): Value | Error {
  try {
    return make();
  } catch (error) {
    return error instanceof Error ? error : new Error('it is malformed');
  }
}

/** @throws {TypeError} for a request that HTTP does not allow. */
function createRequest(
  { method, path, headers: given }: IncomingHead,
  body: Content,
  signal: AbortSignal,
): Request {
  const headers = new Headers([...given]);
  // A peer may state any length, which handlers take for the real one.
  for (const name of ['content-length', 'transfer-encoding']) headers.delete(name);
  // The content type that requests do not state.
  if (body !== undefined && !headers.has('content-type')) headers.set('content-type', 'application/json');
  const init = { method, headers, body, signal, duplex: 'half' };
  return new Request(`http://session${path}`, init as RequestInit);
}

function* refusal(context: RequestContext, reason: string): Generator<Part> {
  yield* plain(context, 400, `Bad Request: ${reason}`);
}

function* failure(context: RequestContext): Generator<Part> {
  yield* plain(context, 500, 'Internal Server Error');
}

function* tooLarge(context: RequestContext, reason: string): Generator<Part> {
  yield* plain(context, 413, `Content Too Large: ${reason}`);
}

function* plain(context: RequestContext, status: number, text: string): Generator<Part> {
  const headers = new Map([['content-type', 'text/plain;charset=UTF-8']]);
  context.setMetadata(encodeHttpResponse({ status, headers }));
  yield text;
}
