import type { Body, HttpHeaders, HttpResponseHead, Message, Session } from '@parlance/protocol';
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
 * Rejects with a `ProtocolError`: `unsupported` if the body is neither text nor bytes or the URL is not an
 * HTTP URL, `invalid_argument` if the request is malformed, and the code of the session's failure
 * (`session_lost`, `session_closed`, …). A failure of the server in the middle of a body is a
 * `RequestError`. An abort rejects with the reason of the signal.
 */
export type SessionFetch = typeof globalThis.fetch;

export function createFetch(session: Pick<Session, 'stream'>): SessionFetch {
  return async (input, init) => {
    const { url, signal, body, metadata } = await readRequest(input, init);
    signal?.throwIfAborted();
    const reply = session.stream(body, { metadata, signal });
    const parts = readUntilAborted(reply, signal);
    const first = await parts.next();
    const head = decodeHttpResponse(reply.metadata);
    if (head === undefined) {
      await parts.return();
      throw new ProtocolError(
        'unsupported',
        'the server answered without an HTTP status; its onRequest must answer HTTP, such as createOpenAIGateway',
      );
    }
    return createResponse(url, head, first, parts);
  };
}

interface Parts {
  next(): Promise<IteratorResult<Message>>;
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
  readonly body: Body;
  readonly metadata: ReturnType<typeof encodeHttpRequest>;
  readonly signal: AbortSignal | undefined;
}

/** Base of relative URLs; no connection is made to it. */
const ANY_HOST = 'http://session';

async function readRequest(input: RequestInfo | URL, init: RequestInit = {}): Promise<OutgoingRequest> {
  const given = typeof Request !== 'undefined' && input instanceof Request ? input : undefined;
  const url = readUrl(given?.url ?? String(input));
  const method = (init.method ?? given?.method ?? 'GET').toUpperCase();
  if (!METHODS.includes(method)) throw unsupported(`the method ${method.slice(0, 20)}`);
  const headers = new Headers(init.headers ?? given?.headers);
  const body = init.body === undefined && given !== undefined ? await bodyOf(given) : readBody(init.body);
  if (method === 'GET' && body !== '') {
    throw new ProtocolError('invalid_argument', 'a GET request cannot have a body');
  }
  return {
    url: url.href,
    body,
    metadata: encodeHttpRequest({ method, path: url.pathname + url.search, headers: headersToSend(headers) }),
    signal: (init.signal === undefined ? given?.signal : init.signal) ?? undefined,
  };
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

const WITHOUT_BODY: readonly number[] = [204, 205, 304];

function createResponse(
  url: string,
  { status, headers }: HttpResponseHead,
  first: IteratorResult<Message>,
  parts: Parts,
): Response {
  const isEvents = headers.get('content-type')?.startsWith('text/event-stream') ?? false;
  const hasBody = !WITHOUT_BODY.includes(status);
  if (!hasBody) void parts.return();
  const body = hasBody ? createBody(first, parts, isEvents) : null;
  const response = new Response(body, { status, headers: [...headers] });
  Object.defineProperty(response, 'url', { value: url });
  return response;
}

const utf8 = new TextEncoder();

/** Reads nothing ahead: unread parts keep their credit and so hold the sender back. */
function createBody(
  first: IteratorResult<Message>,
  parts: Parts,
  isEvents: boolean,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let pending: IteratorResult<Message> | undefined = first;
  const next = () => {
    const result = pending;
    pending = undefined;
    return result ?? parts.next();
  };
  return new ReadableStream(
    {
      async pull(controller) {
        for (;;) {
          const { value, done } = await next();
          if (done) return controller.close();
          const bytes = isEvents ? utf8.encode(eventTextOf(value.text)) : new Uint8Array(value.bytes);
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
