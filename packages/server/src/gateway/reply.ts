import { encodeHttpResponse, type HttpHeaders, type RequestContext, RequestError } from '@parlance/protocol';
import { readEventParts, readTextPieces } from './events.js';
import { GatewayFailure } from './failure.js';
import { replyHeaders } from './headers.js';
import type { Secret } from './secret.js';
import { retryAfterMs, type UpstreamResponse } from './upstream.js';
import { type Progress, readTokenUsage, USAGE_TAIL_LENGTH } from './usage.js';

/** What goes back to one requester. */
export interface Reply {
  /**
   * What the upstream answered, as it came.
   *
   * @param maxEventLength see {@link readEventParts}.
   * @throws {GatewayFailure} what reading throws, `upstream_unusable` for a redirect; {@link RequestError}
   * `upstream_status` for an error where the requester expects no status.
   */
  passOn(response: UpstreamResponse, secret: Secret, maxEventLength: number): AsyncIterable<string>;
  /** A failure of the gateway as a response; where there can be none any more, or none is expected, it is thrown. */
  fail(failure: GatewayFailure): Iterable<string>;
}

const JSON_TYPE: HttpHeaders = new Map([['content-type', 'application/json']]);

/** @param progress kept up with what has been passed on. */
export function createReply(context: RequestContext, progress: Progress): Reply {
  // Who said an HTTP head, if only a wrong one, expects one.
  const speaksHttp = Object.hasOwn(context.metadata, 'http');
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
    // The empty part takes the status along: the first event may be long in coming.
    yield '';
    for await (const part of parts) {
      progress.tokens = readTokenUsage(part) ?? progress.tokens;
      yield counted(part);
    }
  }

  async function* passOnText(pieces: AsyncIterable<string>, onFirst: () => void): AsyncGenerator<string> {
    // Joined once: that of a long answer would be copied with every piece.
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
        throw new GatewayFailure('upstream_unusable', 'the upstream redirects to another address');
      }
      if (status < 200 || status > 599) {
        throw new GatewayFailure('upstream_unusable', `the upstream answers with a status of ${status}`);
      }
      const passed = replyHeaders(headers, secret);
      if (status >= 400 && !speaksHttp) {
        progress.status = status;
        throw await upstreamError(status, headers, readTextPieces(chunks, secret));
      }
      if (headers.get('content-type')?.startsWith('text/event-stream')) {
        begin(status, passed);
        yield* passOnEvents(readEventParts(chunks, maxEventLength, secret));
      } else {
        // Until there is something to pass on, a failure still has a status of its own.
        yield* passOnText(readTextPieces(chunks, secret), () => begin(status, passed));
      }
    },

    *fail(failure) {
      if (!speaksHttp || progress.status !== 0) {
        const { code, message, retryable } = failure;
        throw new RequestError(code, message, { retryable });
      }
      begin(failure.status, JSON_TYPE);
      yield failure.toJson();
    },
  };
}

/** An error that the upstream answered, for who expects no status. */
async function upstreamError(
  status: number,
  headers: Headers,
  pieces: AsyncIterable<string>,
): Promise<RequestError> {
  let body = '';
  for await (const piece of pieces) {
    body = piece;
    // More than one piece is more than an error frame holds.
    break;
  }
  const error = parseError(body);
  const message = typeof error?.message === 'string' ? wellFormed(error.message) : '';
  return new RequestError('upstream_status', message || `the upstream answered ${status}`, {
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

/** JSON may escape half of a surrogate pair, which has no UTF-8. */
function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, '\ufffd');
}
