import { encodeHttpResponse, type HttpHeaders, type RequestContext, RequestError } from '@parlance/protocol';
import { isEventStream, isTextType, withHead } from '@parlance/protocol/internal';
import { readEventParts, readEventsAlone, readPieces } from './events.js';
import { GatewayFailure } from './failure.js';
import { replyHeaders } from './headers.js';
import type { Secret } from './secret.js';
import { retryAfterMs, type UpstreamResponse } from './upstream.js';
import { type Progress, readTokenUsage, USAGE_TAIL_LENGTH } from './usage.js';

/** The reply to one request. */
export interface Reply {
  /**
   * Passes on the response of the upstream.
   *
   * @throws {GatewayFailure} if reading fails.
   * @throws {RequestError} `upstream_status` for an error status if the request has no HTTP head.
   */
  passOn(
    response: UpstreamResponse,
    secret: Secret,
    options: PassOnOptions,
  ): AsyncIterable<string | Uint8Array>;
  /**
   * Sends a failure of the gateway as a response.
   *
   * @throws {RequestError} instead, if a status was already sent or the request has no HTTP head.
   */
  fail(failure: GatewayFailure): Iterable<string>;
}

export interface PassOnOptions {
  /** Bytes. */
  readonly maxEventSize: number;
  /** The reply is kept, so its readers count its parts. */
  readonly isKept: boolean;
  /** Changes a whole text of at most `maxEventSize` bytes. @default it is passed on in pieces */
  readonly rewrite?: ((text: string) => string) | undefined;
}

const JSON_TYPE: HttpHeaders = new Map([['content-type', 'application/json']]);

/** @param progress updated as parts are passed on. */
export function createReply(context: RequestContext, progress: Progress): Reply {
  // A request with an HTTP head, even a malformed one, expects a response with a head.
  const expectsHttp = Object.hasOwn(context.metadata, 'http');
  const begin = (status: number, headers: HttpHeaders): void => {
    progress.status = status;
    context.setMetadata(encodeHttpResponse({ status, headers }));
  };
  const counted = <Piece extends string | Uint8Array>(part: Piece): Piece => {
    progress.parts++;
    progress.replyLength += part.length;
    return part;
  };

  async function* passOnEvents(
    parts: AsyncIterable<string | Uint8Array>,
  ): AsyncGenerator<string | Uint8Array> {
    // The empty part carries the status at once: the first event may take long.
    yield '';
    for await (const part of parts) {
      if (typeof part === 'string') progress.tokens = readTokenUsage(part) ?? progress.tokens;
      yield part.length === 0 ? part : counted(part);
    }
  }

  async function* passOnPieces(
    pieces: AsyncGenerator<string | Uint8Array>,
  ): AsyncGenerator<string | Uint8Array> {
    // Joined once at the end; joining at every piece would copy a long tail each time.
    const tail: string[] = [];
    let tailLength = 0;
    for await (const piece of withHead(pieces)) {
      if (piece.length === 0) {
        yield piece;
        continue;
      }
      if (typeof piece === 'string') {
        tail.push(piece);
        tailLength += piece.length;
        while (tailLength - (tail[0] ?? '').length >= USAGE_TAIL_LENGTH)
          tailLength -= tail.shift()?.length ?? 0;
      }
      yield counted(piece);
    }
    progress.tokens = readTokenUsage(tail.join(''));
  }

  return {
    async *passOn({ status, headers, chunks }, secret, { maxEventSize, isKept, rewrite }) {
      if (status < 200 || status > 599) {
        throw new GatewayFailure('upstream_unusable', `the upstream responded with status ${status}`);
      }
      const type = headers.get('content-type');
      const isText = type === undefined || isTextType(type);
      if (status >= 400 && !expectsHttp) {
        progress.status = status;
        throw await upstreamError(status, headers, readPieces(chunks, secret, isText));
      }
      if (rewrite !== undefined && status === 200) {
        const text = rewrite(await wholeText(readPieces(chunks, secret, isText), maxEventSize));
        begin(status, replyHeaders(headers, secret));
        return yield counted(text);
      }
      begin(status, replyHeaders(headers, secret));
      if (isEventStream(status, type)) {
        // Also if the request has no HTTP head, each event is one part.
        context.setBatch(undefined);
        const read = expectsHttp ? readEventParts : readEventsAlone;
        yield* passOnEvents(read(chunks, secret, { maxSize: maxEventSize, hasSigns: !isKept }));
      } else {
        yield* passOnPieces(readPieces(chunks, secret, isText));
      }
    },

    *fail(failure) {
      if (!expectsHttp || progress.status !== 0) {
        const { code, message, retryable } = failure;
        throw new RequestError(code, message, { retryable });
      }
      begin(failure.status, JSON_TYPE);
      yield failure.toJson();
    },
  };
}

async function wholeText(pieces: AsyncIterable<string | Uint8Array>, maxLength: number): Promise<string> {
  let text = '';
  for await (const piece of pieces) {
    text += typeof piece === 'string' ? piece : Buffer.from(piece).toString();
    if (text.length > maxLength) {
      throw new GatewayFailure(
        'upstream_unusable',
        `the upstream sent a list of more than ${maxLength} characters`,
      );
    }
  }
  return text;
}

/** UTF-16 units of an error that are read: an error frame holds no more. */
const MAX_ERROR_LENGTH = 64 * 1024;

/** An error response of the upstream, for a request without an HTTP head. */
async function upstreamError(
  status: number,
  headers: HttpHeaders,
  pieces: AsyncIterable<string | Uint8Array>,
): Promise<RequestError> {
  let body = '';
  for await (const piece of pieces) {
    body += typeof piece === 'string' ? piece : Buffer.from(piece).toString();
    if (body.length >= MAX_ERROR_LENGTH) break;
  }
  const error = parseError(body);
  const message = typeof error?.message === 'string' ? wellFormed(error.message) : '';
  return new RequestError('upstream_status', message || `the upstream responded with status ${status}`, {
    retryable: status === 429 || status >= 500,
    retryAfterMs: retryAfterMs(headers),
    data: { status, error },
  });
}

function parseError(body: string): { message?: unknown } | undefined {
  try {
    const { error } = JSON.parse(body.replace(/^\ufeff/, '')) as { error?: { message?: unknown } };
    return typeof error === 'object' && error !== null ? error : undefined;
  } catch {
    return undefined;
  }
}

/** Replaces lone surrogates, which JSON may contain as escapes but UTF-8 cannot encode. */
function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, '\ufffd');
}
