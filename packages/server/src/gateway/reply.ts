import { encodeHttpResponse, type HttpHeaders, type RequestContext, RequestError } from '@parlance/protocol';
import { isTextType } from '@parlance/protocol/internal';
import { readBytePieces, readEventParts, readTextPieces } from './events.js';
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
   * @param maxEventLength see {@link readEventParts}.
   * @param rewrite changes a whole text of at most `maxEventLength` characters. @default it is passed on in pieces
   * @throws {GatewayFailure} if reading fails; `upstream_unusable` for a redirect.
   * @throws {RequestError} `upstream_status` for an error status if the request has no HTTP head.
   */
  passOn(
    response: UpstreamResponse,
    secret: Secret,
    maxEventLength: number,
    rewrite?: (text: string) => string,
  ): AsyncIterable<string | Uint8Array>;
  /**
   * Sends a failure of the gateway as a response.
   *
   * @throws {RequestError} instead, if a status was already sent or the request has no HTTP head.
   */
  fail(failure: GatewayFailure): Iterable<string>;
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

  async function* passOnEvents(parts: AsyncIterable<string>): AsyncGenerator<string> {
    // The empty part carries the status at once: the first event may take long.
    yield '';
    for await (const part of parts) {
      progress.tokens = readTokenUsage(part) ?? progress.tokens;
      yield counted(part);
    }
  }

  async function* passOnBytes(
    pieces: AsyncIterable<Uint8Array>,
    onFirst: () => void,
  ): AsyncGenerator<Uint8Array> {
    for await (const piece of pieces) {
      if (progress.parts === 0) onFirst();
      yield counted(piece);
    }
    if (progress.parts === 0) onFirst();
  }

  async function* passOnText(pieces: AsyncIterable<string>, onFirst: () => void): AsyncGenerator<string> {
    // Joined once at the end; joining at every piece would copy a long tail each time.
    const tail: string[] = [];
    let tailLength = 0;
    for await (const piece of pieces) {
      if (progress.parts === 0) onFirst();
      tail.push(piece);
      tailLength += piece.length;
      while (tailLength - (tail[0] ?? '').length >= USAGE_TAIL_LENGTH)
        tailLength -= tail.shift()?.length ?? 0;
      yield counted(piece);
    }
    if (progress.parts === 0) onFirst();
    progress.tokens = readTokenUsage(tail.join(''));
  }

  return {
    async *passOn({ status, headers, chunks }, secret, maxEventLength, rewrite) {
      if (status >= 300 && status < 400) {
        throw new GatewayFailure('upstream_unusable', 'the upstream redirected to another address');
      }
      if (status < 200 || status > 599) {
        throw new GatewayFailure('upstream_unusable', `the upstream responded with status ${status}`);
      }
      const passed = replyHeaders(headers, secret);
      if (status >= 400 && !expectsHttp) {
        progress.status = status;
        throw await upstreamError(status, headers, readTextPieces(chunks, secret));
      }
      if (headers.get('content-type')?.startsWith('text/event-stream')) {
        begin(status, passed);
        yield* passOnEvents(readEventParts(chunks, maxEventLength, secret));
      } else {
        // The status waits for the first piece: until then, a failure can still set its own.
        const onFirst = () => begin(status, passed);
        const type = headers.get('content-type');
        if (type !== undefined && !isTextType(type))
          return yield* passOnBytes(readBytePieces(chunks, secret), onFirst);
        const pieces = readTextPieces(chunks, secret);
        const isRewritten = rewrite !== undefined && status === 200;
        yield* passOnText(isRewritten ? rewritten(pieces, maxEventLength, rewrite) : pieces, onFirst);
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

async function* rewritten(
  pieces: AsyncIterable<string>,
  maxLength: number,
  rewrite: (text: string) => string,
): AsyncGenerator<string> {
  let text = '';
  for await (const piece of pieces) {
    text += piece;
    if (text.length > maxLength) {
      throw new GatewayFailure(
        'upstream_unusable',
        `the upstream sent a list of more than ${maxLength} characters`,
      );
    }
  }
  yield rewrite(text);
}

/** An error response of the upstream, for a request without an HTTP head. */
async function upstreamError(
  status: number,
  headers: HttpHeaders,
  pieces: AsyncIterable<string>,
): Promise<RequestError> {
  let body = '';
  for await (const piece of pieces) {
    body = piece;
    // An error frame holds no more than one piece.
    break;
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
