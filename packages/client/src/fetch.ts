import {
  type Body,
  decodeHttpResponse,
  encodeHttpRequest,
  eventTextOf,
  type HttpHeaders,
  type HttpResponseHead,
  type Message,
  ProtocolError,
  type Session,
} from '@parlance/protocol';

/**
 * `fetch` over a session: what an HTTP client would send to its server goes to the session's server
 * instead, which needs an `onRequest` that answers HTTP, such as the gateway of
 * `@parlance/server/openai`.
 *
 * The path and the query of the URL travel, its host does not: a session has one server. Credentials do
 * not travel either: who this is, the session has said already. The response's body is as long as it
 * takes: reading slowly holds the sender back, an abort or a cancelled body stops it, a connection that
 * is lost and comes back leaves no trace.
 *
 * What a session cannot carry rejects with a `ProtocolError`: `unsupported` for a body that is no text
 * and no bytes and for a URL that is not HTTP's, `invalid_argument` for what is malformed. So do failures
 * of the session (`session_lost`, `session_closed`, …), and a `RequestError` of the server's in the
 * middle of a body. An abort rejects with the signal's reason.
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
        'the server answered without an HTTP status; its onRequest has to be one that answers HTTP, such as createOpenAIGateway',
      );
    }
    return createResponse(url, head, first, parts);
  };
}

interface Parts {
  next(): Promise<IteratorResult<Message>>;
  /** Wants no more. */
  return(): Promise<unknown>;
}

/** An aborted reader hears the reason, whatever it is, and nothing that had arrived before. */
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

/** Only for URLs without a host of their own; never connected to. */
const ANY_HOST = 'http://session';

async function readRequest(input: RequestInfo | URL, init: RequestInit = {}): Promise<OutgoingRequest> {
  const given = typeof Request !== 'undefined' && input instanceof Request ? input : undefined;
  const url = readUrl(given?.url ?? String(input));
  const method = (init.method ?? given?.method ?? 'GET').toUpperCase();
  if (!METHODS.includes(method)) throw unsupported(`the method ${method.slice(0, 20)}`);
  const headers = new Headers(init.headers ?? given?.headers);
  const body = init.body === undefined && given !== undefined ? await bodyOf(given) : readBody(init.body);
  if (method === 'GET' && body !== '') {
    throw new ProtocolError('invalid_argument', 'a GET request has no body');
  }
  return {
    url: url.href,
    body,
    metadata: encodeHttpRequest({ method, path: url.pathname + url.search, headers: travelling(headers) }),
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

/** A `Request` has turned whatever it was given into bytes; only its content type tells what they were. */
async function bodyOf(request: Request): Promise<Body> {
  if (request.headers.get('content-type')?.startsWith('multipart/')) throw unsupported('a form as body');
  return textIfPossible(new Uint8Array(await request.clone().arrayBuffer()));
}

/** More codecs take text than bytes. */
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
    `session.fetch does not carry ${what}: it takes http(s) URLs, ${METHODS.join(', ')}, and text or bytes`,
  );
}

/** What says who is asking, or how this connection works, is not for the far end. */
const KEPT = new Set([
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
/** What a server expects anyway. */
const EXPECTED = new Map([
  ['content-type', /^application\/json\b/],
  ['accept', /^(\*\/\*|application\/json|text\/event-stream)$/],
]);

/** A request's headers would be half of its bytes: what tells the far end nothing stays here. */
function travelling(headers: Headers): HttpHeaders {
  const kept = (name: string, value: string) =>
    KEPT.has(name) || name.startsWith('x-stainless-') || EXPECTED.get(name)?.test(value) === true;
  return new Map([...headers].filter(([name, value]) => !kept(name, value)));
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

/** Nothing is read ahead, so what the reader leaves holds credit, and its sender back. */
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
