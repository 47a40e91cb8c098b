import { withArticle } from '../../base/article.js';
import { concatBytes, copyBytes } from '../../base/bytes.js';
import { ProtocolError } from '../../base/errors.js';
import { isTextType } from '../http/media-type.js';
import { textIfPossible } from '../http/pieces.js';
import { type BodySource, type OfferedUpload, offerUpload } from '../http/uploads.js';
import { bytesOf } from '../messages/part.js';
import type { Session } from '../session.js';
import { type ChunkReader, createSource, createSourceOf, readChunks } from './source.js';

/** Bodies of requests other than short strings; a page loads this with the first of them. */

/** The body of a request, with the content type that `fetch` gives it. */
export interface OutgoingBody {
  /** The body that is sent with the request; `undefined` if the receiver has to ask for it. */
  readonly whole: string | Uint8Array | undefined;
  readonly streamed?: StreamedBody | undefined;
  /** @default none */
  readonly type?: string | undefined;
}

/** A body that the receiver asks for. */
export interface StreamedBody {
  /** Bytes; `undefined` if that is not known yet. */
  readonly size: number | undefined;
  /** See `offerUpload`. */
  offer(session: Session, onFailed: (error: unknown) => void): OfferedUpload;
  /** It is not offered. */
  cancel(reason: unknown): void;
}

export interface BodyLimits {
  /** Bytes that may be sent with a request. */
  readonly whole: number;
  /** The other end can ask for a body. */
  readonly mayStream: boolean;
}

/** Bytes of a form, a file or a request up to which they are sent with the request, which saves a round trip. */
const SHORT = 1024 * 1024;
const BYTES = 'application/octet-stream';
const NOTHING: OutgoingBody = { whole: '' };

/**
 * @param given whose body is used if `body` is `undefined`.
 * @param type the content type of the request, if it has one.
 * @throws {ProtocolError} `unsupported` for something else; `message_too_large` if it has to be whole and is too large.
 * Errors of the body itself.
 */
export async function readBody(
  body: BodyInit | null | undefined,
  given: Request | undefined,
  type: string | null,
  limits: BodyLimits,
): Promise<OutgoingBody> {
  if (body === null) return NOTHING;
  if (body === undefined) return given === undefined ? NOTHING : await readGiven(given, type, limits);
  if (typeof body === 'string') return sized(body, type ?? 'text/plain;charset=UTF-8', limits);
  if (body instanceof URLSearchParams) {
    return sized(body.toString(), type ?? 'application/x-www-form-urlencoded;charset=UTF-8', limits);
  }
  const bytes = bytesOf(body);
  if (bytes !== undefined) return sized(bytes, type ?? BYTES, limits);
  if (typeof Blob !== 'undefined' && body instanceof Blob) {
    const ownType = type ?? (body.type === '' ? BYTES : body.type);
    return await short(readChunks(body.stream()), ownType, limits, body.size);
  }
  if (typeof FormData !== 'undefined' && body instanceof FormData) {
    const form = new Response(body);
    return await short(readChunks(form.body), type ?? form.headers.get('content-type') ?? BYTES, limits);
  }
  if (typeof body === 'object' && ('getReader' in body || Symbol.asyncIterator in body)) {
    const ownType = type ?? BYTES;
    return limits.mayStream
      ? streamed(readChunks(body), ownType)
      : await short(readChunks(body), ownType, limits);
  }
  const name = (body as object).constructor?.name ?? typeof body;
  throw new ProtocolError('unsupported', `session.fetch cannot send ${withArticle(name)} as body`);
}

/** The body of a `Request`, which knows its content type. The request can be used again. */
async function readGiven(given: Request, type: string | null, limits: BodyLimits): Promise<OutgoingBody> {
  const copy = given.clone();
  // Firefox has no streams of requests.
  if (copy.body === undefined) return sized(new Uint8Array(await copy.arrayBuffer()), type ?? BYTES, limits);
  return copy.body === null ? NOTHING : await short(readChunks(copy.body), type ?? BYTES, limits);
}

function sized(content: string | Uint8Array, type: string, limits: BodyLimits): OutgoingBody {
  // A UTF-16 unit takes at most 3 bytes.
  const isShort = content.length * (typeof content === 'string' ? 3 : 1) <= limits.whole;
  if (typeof content === 'string' && isShort) return { whole: content, type };
  const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content;
  // One that may not be streamed is refused when it is sent.
  if (bytes.length <= limits.whole || !limits.mayStream) return { whole: textIfPossible(bytes), type };
  return later(createSourceOf(bytes, isTextType(type)), type, bytes.length);
}

/** Reads a body to its end if it is short. */
async function short(
  chunks: ChunkReader,
  type: string,
  limits: BodyLimits,
  size?: number,
): Promise<OutgoingBody> {
  const most = limits.mayStream ? Math.min(SHORT, limits.whole) : limits.whole;
  const read: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const chunk = await chunks.next();
    if (chunk === undefined) return { whole: textIfPossible(concatBytes(read)), type };
    // A producer may fill the same buffer again.
    read.push(copyBytes(chunk));
    length += chunk.length;
    if (length > most) break;
  }
  if (limits.mayStream) return later(createSource(chunks, isTextType(type), read), type, size);
  chunks.cancel(undefined);
  throw new ProtocolError('message_too_large', `a body of more than ${most} bytes cannot be sent here`);
}

function streamed(chunks: ChunkReader, type: string): OutgoingBody {
  return later(createSource(chunks, isTextType(type)), type);
}

function later(source: BodySource, type: string, size?: number): OutgoingBody {
  const streamed: StreamedBody = {
    size,
    offer: (session, onFailed) => offerUpload(session, source, onFailed),
    cancel: (reason) => source.cancel(reason),
  };
  return { whole: undefined, streamed, type };
}
