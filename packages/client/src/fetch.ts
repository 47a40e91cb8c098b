import type { Body, HttpHeaders, Message, ReplyStream, Session } from '@parlance/protocol';
import { ProtocolError } from '@parlance/protocol/client';
import { decodeHttpResponse, encodeHttpRequest, eventTextOf } from '@parlance/protocol/http';

/**
 * `fetch` over a session: requests go to the session's server, whose `onRequest` must answer HTTP, such as
 * the gateway of `@parlance/server/openai`.
 *
 * Only the path and the query of the URL are sent, as a session has a single server. Credentials are not
 * sent either: the session is already authenticated. The body of the response streams: reading slowly holds
 * the sender back, an abort or a cancelled body stops it, and a resumed connection goes unnoticed.
 *
 * If the server keeps the reply, the response has the headers `x-parlance-reply`, its ID, and `x-parlance-after`, the
 * number of the part that the body begins after. A request with the header `x-parlance-follow`, an ID or the name of a
 * kept reply, follows that reply in place of asking: with any method and URL, it gets the status and headers of the
 * original response, and the body from the part on that follows number `x-parlance-after` of the request (default 0).
 * Each event of a stream is one part, so a page that stores `x-parlance-after` of the response plus the number of events
 * it has read can go on there. The response has status 204 if the server has no such reply. An abort of such a request
 * stops the following and not the answer, which `session.follow(id).stop()` stops.
 *
 * Rejects with a `ProtocolError`: `unsupported` if the body is neither text nor bytes or the URL is not an
 * HTTP URL, or if the server keeps no replies to follow; `invalid_argument` if the request is malformed; and the
 * code of the session's failure (`session_lost`, `session_closed`, …). A failure of the server in the middle of a body is a
 * `RequestError`. An abort rejects with the reason of the signal.
 */
export type SessionFetch = typeof globalThis.fetch;

export function createFetch(session: Pick<Session, 'stream' | 'follow'>): SessionFetch {
  return async (input, init) => {
    const outgoing = readRequest(input, init);
    const { url, signal, followed, after } = outgoing;
    signal?.throwIfAborted();
    // The part before tells the head at once, also if the next part is yet to be written.
    const options = { after: Math.max(0, after - 1), signal };
    const reply = followed === undefined ? await ask(session, outgoing) : session.follow(followed, options);
    const parts = readUntilAborted(reply, signal);
    const first = await parts.next().catch((error: unknown) => {
      if (followed !== undefined && isUnknown(error)) return undefined;
      throw error;
    });
    if (first === undefined) return responseOf(url, null, { status: NO_CONTENT });
    const head = decodeHttpResponse(reply.metadata);
    if (head === undefined) {
      await parts.return();
      throw new ProtocolError(
        'unsupported',
        'the server answered without an HTTP status; its onRequest must answer HTTP, such as createOpenAIGateway',
      );
    }
    // A part without content is not an event, so the reader of the body cannot count it.
    const isUnread = after === 0 && first.done !== true && first.value.bytes.length > 0;
    const unread = isUnread ? first.value : undefined;
    const headers = new Headers([...head.headers]);
    if (reply.keptId !== undefined) {
      headers.set(REPLY, reply.keptId);
      headers.set(AFTER, String(Math.max(after, reply.position - (unread === undefined ? 0 : 1))));
    }
    return createResponse(url, { ...head, headers }, unread, parts);
  };
}

const REPLY = 'x-parlance-reply';
const FOLLOW = 'x-parlance-follow';
const AFTER = 'x-parlance-after';
const NO_CONTENT = 204;

/**
 * An unknown reply is status 204, because pages ask for one that may have been forgotten: the AI SDK's
 * `reconnectToStream` takes 204 as "nothing to resume", and shows any other failure to the user.
 */
function isUnknown(error: unknown): boolean {
  return error instanceof ProtocolError && error.code === 'unknown_reply';
}

interface Parts {
  next(): Promise<IteratorResult<Message, undefined>>;
  /** Stops reading. */
  return(): Promise<unknown>;
}

/** After an abort, reading throws the reason of the signal, even if parts have already arrived. */
function readUntilAborted(reply: AsyncIterable<Message>, signal: AbortSignal | undefined): Parts {
  const parts = reply[Symbol.asyncIterator]();
  return {
    async next() {
      signal?.throwIfAborted();
      try {
        return await parts.next();
      } catch (error) {
        signal?.throwIfAborted();
        throw error;
      }
    },
    return: async () => await parts.return?.(),
  };
}

interface OutgoingRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  readonly signal: AbortSignal | undefined;
  readonly readBody: () => Body | Promise<Body>;
  /** A kept reply to follow in place of asking. */
  readonly followed: string | undefined;
  /** The number of its part after which to begin. */
  readonly after: number;
}

/** Base of relative URLs; no connection is made to it. */
const ANY_HOST = 'http://session';

function readRequest(input: RequestInfo | URL, init: RequestInit = {}): OutgoingRequest {
  const given = typeof Request !== 'undefined' && input instanceof Request ? input : undefined;
  const { href: url } = readUrl(given?.url ?? String(input));
  const method = (init.method ?? given?.method ?? 'GET').toUpperCase();
  const headers = new Headers(init.headers ?? given?.headers);
  const signal = (init.signal === undefined ? given?.signal : init.signal) ?? undefined;
  const followed = headers.get(FOLLOW) ?? undefined;
  return {
    url,
    method,
    headers,
    signal,
    readBody: () => (init.body === undefined && given !== undefined ? bodyOf(given) : readBody(init.body)),
    followed,
    after: followed === undefined ? 0 : readAfter(headers.get(AFTER) ?? '0'),
  };
}

function readAfter(text: string): number {
  // 15 digits are a safe integer.
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new ProtocolError('invalid_argument', `${AFTER}: expected a number of parts`);
}

async function ask(
  session: Pick<Session, 'stream'>,
  { url, method, headers, signal, readBody }: OutgoingRequest,
): Promise<ReplyStream> {
  if (!METHODS.includes(method)) throw unsupported(`the method ${method.slice(0, 20)}`);
  const body = await readBody();
  signal?.throwIfAborted();
  if (method === 'GET' && body !== '') {
    throw new ProtocolError('invalid_argument', 'a GET request cannot have a body');
  }
  const { pathname, search } = new URL(url);
  const metadata = encodeHttpRequest({ method, path: pathname + search, headers: headersToSend(headers) });
  return session.stream(body, { metadata, signal });
}

const METHODS: readonly string[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

function readUrl(text: string): URL {
  let url: URL;
  try {
    url = new URL(text, ANY_HOST);
  } catch (cause) {
    throw new ProtocolError('invalid_argument', `not a URL: ${JSON.stringify(text.slice(0, 200))}`, {
      cause,
    });
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw unsupported(`a URL of ${url.protocol}`);
  return url;
}

function readBody(body: BodyInit | null | undefined): Body {
  if (body === undefined || body === null) return '';
  if (typeof body === 'string') return body;
  if (body instanceof URLSearchParams) return body.toString();
  if (body instanceof ArrayBuffer) return textIfPossible(new Uint8Array(body));
  if (ArrayBuffer.isView(body)) {
    return textIfPossible(new Uint8Array(body.buffer, body.byteOffset, body.byteLength));
  }
  throw unsupported(`a ${body.constructor?.name ?? typeof body} as body`);
}

/** A `Request` has already turned its body into bytes; only the content type shows that it was a form. */
async function bodyOf(request: Request): Promise<Body> {
  if (request.headers.get('content-type')?.startsWith('multipart/')) throw unsupported('a form as body');
  return textIfPossible(new Uint8Array(await request.clone().arrayBuffer()));
}

/** Text if possible, because more codecs encode text than bytes. */
function textIfPossible(bytes: Uint8Array): Body {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return bytes;
  }
}

function unsupported(what: string): ProtocolError {
  return new ProtocolError(
    'unsupported',
    `session.fetch does not support ${what}; supported: http(s) URLs, ${METHODS.join(', ')}, text and bytes`,
  );
}

/** Headers with credentials, or about an HTTP connection that does not exist. */
const OMITTED = new Set([
  'authorization',
  'proxy-authorization',
  'cookie',
  'api-key',
  'x-api-key',
  'host',
  'origin',
  'referer',
  'connection',
  'content-length',
  'accept-encoding',
  'user-agent',
]);
/** Headers with these values are the server's default. */
const DEFAULTS = new Map([
  ['content-type', /^application\/json\b/],
  ['accept', /^(\*\/\*|application\/json|text\/event-stream)$/],
]);

/** Headers can be half of the bytes of a request, so those without information for the server are omitted. */
function headersToSend(headers: Headers): HttpHeaders {
  const isOmitted = (name: string, value: string) =>
    OMITTED.has(name) || name.startsWith('x-stainless-') || DEFAULTS.get(name)?.test(value) === true;
  return new Map([...headers].filter(([name, value]) => !isOmitted(name, value)));
}

const WITHOUT_BODY: readonly number[] = [NO_CONTENT, 205, 304];

function createResponse(
  url: string,
  { status, headers }: { readonly status: number; readonly headers: Headers },
  first: Message | undefined,
  parts: Parts,
): Response {
  const isEvents = headers.get('content-type')?.startsWith('text/event-stream') ?? false;
  const hasBody = !WITHOUT_BODY.includes(status);
  if (!hasBody) void parts.return();
  return responseOf(url, hasBody ? createBody(first, parts, isEvents) : null, { status, headers });
}

function responseOf(url: string, body: BodyInit | null, init: ResponseInit): Response {
  const response = new Response(body, init);
  Object.defineProperty(response, 'url', { value: url });
  return response;
}

const utf8 = new TextEncoder();

/** Reads nothing ahead: unread parts keep their credit and so hold the sender back. */
function createBody(
  first: Message | undefined,
  parts: Parts,
  isEvents: boolean,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let unread = first;
  const next = async () => {
    const part = unread;
    unread = undefined;
    return part ?? (await parts.next()).value;
  };
  return new ReadableStream(
    {
      async pull(controller) {
        for (;;) {
          const part = await next();
          if (part === undefined) return controller.close();
          const bytes = isEvents ? utf8.encode(eventTextOf(part.text)) : new Uint8Array(part.bytes);
          if (bytes.length > 0) return controller.enqueue(bytes);
        }
      },
      async cancel() {
        await parts.return();
      },
    },
    { highWaterMark: 0 },
  );
}
