import { called } from '../../base/callbacks.js';
import { ProtocolError } from '../../base/errors.js';
import { whenAborted } from '../../base/when-aborted.js';
import { asIsOf, eventTextOf } from '../http/events.js';
import { decodeHttpResponse, encodeHttpRequest, type HttpRequestHead } from '../http/head.js';
import { keptInit } from '../http/kept-init.js';
import { isEventStream } from '../http/media-type.js';
import { messageLimitOf } from '../http/message-limit.js';
import type { OfferedUpload } from '../http/uploads.js';
import type { Message } from '../messages/message.js';
// Declares `session.follow`.
import type {} from '../requests/follow.js';
import type { ReplyStream } from '../requests/reply.js';
import type { Session } from '../session.js';
import type { BodyLimits, OutgoingBody, StreamedBody } from './outgoing.js';

/**
 * `fetch` over a session: requests go to the other end, whose `onFetch` answers them, or whose `onRequest` answers HTTP,
 * such as the gateway of `@parlance/server/openai`.
 *
 * Only the path and the query of the URL are sent, as a session has a single other end. Credentials and cookies are not
 * sent either: the session is already authenticated. Redirects are not followed. The body of the response streams: reading
 * slowly holds the sender back, an abort or a cancelled body stops it, and a resumed connection goes unnoticed. So does
 * the body of the request if it is a stream, or a form, a file or bytes of more than the other end takes at once.
 *
 * If the server keeps the reply, the response has the headers `x-parlance-reply`, its ID, and `x-parlance-after`, the
 * number of the part that the body begins after. A request with the header `x-parlance-follow`, an ID or the name of a
 * kept reply, follows that reply in place of asking: with any method and URL, it gets the status and headers of the
 * original response, and the body from the part on that follows number `x-parlance-after` of the request (default 0).
 * Each event of a stream is one part, so a page that stores `x-parlance-after` of the response plus the number of events
 * it has read can continue there. The response has status 204 if the server has no such reply. An abort of such a request
 * stops the following and not the answer, which `session.follow(id).stop()` stops.
 *
 * Rejects with a `ProtocolError`: `unsupported` if the body is not one that `fetch` takes or the URL is not an
 * HTTP URL, or if the server keeps no reply to follow; `invalid_argument` if the request is malformed; and the
 * code of the session's failure (`session_lost`, `session_closed`, …). A failure of the other end in the middle of a body
 * is a `RequestError`. An abort rejects with the reason of the signal, and a stream that fails with its error.
 */
export type SessionFetch = typeof globalThis.fetch;

/** @param mayStream whether the other end can ask this session for a body. @default true */
export function createFetch(session: Session, mayStream = true): SessionFetch {
  const fetchIn: SessionFetch = async (input, init) => {
    const outgoing = readRequest(input, init && keptInit(init));
    const { url, method, signal, followed, after } = outgoing;
    signal?.throwIfAborted();
    // The part before tells the head at once, also if the next part is yet to be written.
    const options = { after: Math.max(0, after - 1), signal };
    const { reply, parts } =
      followed === undefined
        ? await ask(session, outgoing, mayStream)
        : reading(session.follow(followed, options), signal);
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
        'the other end answered without an HTTP status; it needs onFetch, or an onRequest such as createOpenAIGateway',
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
    return createResponse(url, { ...head, headers, isHead: method === 'HEAD' }, unread, parts);
  };
  return (input, init) => called(() => fetchIn(input, init));
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

interface Reading {
  readonly reply: Omit<ReplyStream, 'cancel'>;
  readonly parts: Parts;
}

/**
 * After an abort, reading throws the reason of the signal, even if parts have already arrived.
 *
 * @param onOver called when nothing more is read.
 */
function reading(reply: Reading['reply'], signal: AbortSignal | undefined, onOver?: () => void): Reading {
  const iterator = reply[Symbol.asyncIterator]();
  const parts: Parts = {
    async next() {
      try {
        signal?.throwIfAborted();
        const next = await iterator.next();
        if (next.done === true) onOver?.();
        return next;
      } catch (error) {
        onOver?.();
        signal?.throwIfAborted();
        throw error;
      }
    },
    async return() {
      onOver?.();
      return await iterator.return?.();
    },
  };
  return { reply, parts };
}

interface OutgoingRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  readonly signal: AbortSignal | undefined;
  readonly readBody: (limits: BodyLimits) => Promise<OutgoingBody>;
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
    readBody: (limits) => readBody(init.body, given, headers.get('content-type'), limits),
    followed,
    after: followed === undefined ? 0 : readAfter(headers.get(AFTER) ?? '0'),
  };
}

/** Most bodies are strings; a page loads the code for others with the first of them. */
async function readBody(
  body: BodyInit | null | undefined,
  given: Request | undefined,
  type: string | null,
  limits: BodyLimits,
): Promise<OutgoingBody> {
  if (body === null || (body === undefined && (given === undefined || given.body === null)))
    return { whole: '' };
  // A UTF-16 unit takes at most 3 bytes.
  if (typeof body === 'string' && body.length * 3 <= limits.whole) {
    return { whole: body, type: type ?? 'text/plain;charset=UTF-8' };
  }
  const outgoing = await import('./outgoing.js');
  return await outgoing.readBody(body, given, type, limits);
}

function readAfter(text: string): number {
  // 15 digits are a safe integer.
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new ProtocolError('invalid_argument', `${AFTER}: expected a number of parts`);
}

async function ask(
  session: Session,
  { url, method, headers, signal, readBody }: OutgoingRequest,
  mayStream: boolean,
): Promise<Reading> {
  if (!METHODS.includes(method)) throw unsupported(`the method ${method.slice(0, 20)}`);
  const { whole, streamed, type } = await readBody({ whole: messageLimitOf(session), mayStream });
  try {
    signal?.throwIfAborted();
    if ((method === 'GET' || method === 'HEAD') && whole !== '') {
      throw new ProtocolError('invalid_argument', `a ${method} request cannot have a body`);
    }
    if (whole !== '' && type !== undefined) headers.set('content-type', type);
    const { pathname, search } = new URL(url);
    const sent = headersToSend(headers);
    // The other end may refuse a body before it asks for it.
    if (streamed?.size !== undefined) sent.set('content-length', String(streamed.size));
    const head = { method, path: pathname + search, headers: sent };
    if (streamed !== undefined) return upload(session, streamed, head, signal);
    return reading(session.stream(whole ?? '', { metadata: encodeHttpRequest(head), signal }), signal);
  } catch (error) {
    streamed?.cancel(error);
    throw error;
  }
}

/** Sends a request whose body the other end asks for. */
function upload(
  session: Session,
  body: StreamedBody,
  head: HttpRequestHead,
  signal: AbortSignal | undefined,
): Reading {
  // Aborts with the signal of the caller, or with the error of the body.
  const controller = new AbortController();
  const over = (reason: unknown) => {
    free();
    offered.withdraw(reason);
    controller.abort(reason);
  };
  const offered: OfferedUpload = body.offer(session, over);
  const free = whenAborted(signal, () => over(signal?.reason));
  try {
    const metadata = encodeHttpRequest(head, offered.id);
    const reply = session.stream('', { metadata, signal: controller.signal });
    return reading(reply, controller.signal, () => {
      free();
      offered.withdraw(undefined);
    });
  } catch (error) {
    over(error);
    throw error;
  }
}

const METHODS: readonly string[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

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

function unsupported(what: string): ProtocolError {
  return new ProtocolError(
    'unsupported',
    `session.fetch does not support ${what}; supported: http(s) URLs and ${METHODS.join(', ')}`,
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
/** Headers can be half of the bytes of a request, so those without information for the other end are omitted. */
function headersToSend(headers: Headers): Map<string, string> {
  // Such an SDK accepts JSON and events in every request, and tells a lot about itself.
  const isGenerated = headers.has('x-stainless-lang');
  const accepted = isGenerated ? /^(\*\/\*|application\/json|text\/event-stream)$/ : /^\*\/\*$/;
  const isOmitted = (name: string, value: string) =>
    OMITTED.has(name) ||
    name.startsWith('x-stainless-') ||
    (name === 'content-type' && value === 'application/json') ||
    (name === 'accept' && accepted.test(value));
  return new Map([...headers].filter(([name, value]) => !isOmitted(name, value)));
}

const WITHOUT_BODY: readonly number[] = [NO_CONTENT, 205, 304];

function createResponse(
  url: string,
  {
    status,
    headers,
    isHead,
  }: { readonly status: number; readonly headers: Headers; readonly isHead: boolean },
  first: Message | undefined,
  parts: Parts,
): Response {
  const isEvents = isEventStream(status, headers.get('content-type'));
  const hasBody = !isHead && !WITHOUT_BODY.includes(status);
  if (!hasBody) parts.return().catch(() => {});
  return responseOf(url, hasBody ? createBody(first, parts, isEvents) : null, { status, headers });
}

function responseOf(url: string, body: BodyInit | null, init: ResponseInit): Response {
  const response = new Response(body, init);
  Object.defineProperty(response, 'url', { value: url });
  return response;
}

const utf8 = new TextEncoder();
/** A comment: the source of the events lives. */
const SIGN = utf8.encode(':\n\n');

/** The event that stands for a part in a stream of events. */
function inStream(part: Message): Uint8Array<ArrayBuffer> {
  const { bytes } = part;
  if (bytes.length === 0) return SIGN.slice();
  const asIs = asIsOf(bytes);
  return asIs === undefined ? utf8.encode(eventTextOf(part.text)) : new Uint8Array(asIs);
}

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
          const bytes = isEvents ? inStream(part) : new Uint8Array(part.bytes);
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
