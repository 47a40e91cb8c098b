import { encodeHttpResponse, type HttpHeaders, type RequestContext, RequestError } from '@parlance/protocol';
import { readEventParts, readTextPieces } from './events.js';
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
   * @throws {GatewayFailure} if reading fails; `upstream_unusable` for a redirect.
   * @throws {RequestError} `upstream_status` for an error status if the request has no HTTP head.
   */
  passOn(response: UpstreamResponse, secret: Secret, maxEventLength: number): AsyncIterable<string>;
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
  const counted = (part: string): string => {
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
    async *passOn({ status, headers, chunks }, secret, maxEventLength) {
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
        yield* passOnText(readTextPieces(chunks, secret), () => begin(status, passed));
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

/** An error response of the upstream, for a request without an HTTP head. */
async function upstreamError(
  status: number,
  headers: Headers,
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
