import { createHash } from 'node:crypto';
import { decodeHttpRequest, type Part, type RequestContext, type RequestHandler } from '@parlance/protocol';
import type { OwnContext } from '@parlance/protocol/internal';

/**
 * Has a handler state at the end of each reply that the chat page names what it has yielded, before anything was coded. The metadata of
 * the reply then have `sum`:
 *
 * - `chunks`: how many, without empty ones;
 * - `sha256`: 64 hexadecimal digits. It begins as nothing, and becomes with each chunk the SHA-256 of itself and the chunk;
 * - `ms`: when the first and the last of them were yielded, after the request. Missing if another process has yielded the beginning.
 *
 * A handler that is called again continues the sum of the one before.
 */
export function withSum<Handler extends RequestHandler>(handler: Handler): Handler {
  const summing: RequestHandler = (request, context) => {
    const reply = handler(request, context);
    const isNamed = decodeHttpRequest(context.metadata)?.headers.has('x-parlance-reply-name') === true;
    return isNamed && isStream(reply) ? summed(reply, context) : reply;
  };
  // The gateway has members that the server calls.
  return Object.assign(summing, handler) as Handler;
}

async function* summed(parts: AsyncIterable<Part>, context: RequestContext): AsyncGenerator<Part> {
  const begun = performance.now();
  let sha256 = Buffer.alloc(0);
  let chunks = 0;
  const add = (chunk: string | Uint8Array) => {
    sha256 = createHash('sha256').update(sha256).update(chunk).digest();
    chunks++;
  };
  for (const { bytes } of context.yielded) add(bytes);
  let first: number | undefined;
  let last = 0;
  /** Token IDs have no bytes of their own. */
  let isKnown = true;
  for await (const part of parts) {
    const hasBytes = typeof part === 'string' || part instanceof Uint8Array;
    isKnown &&= hasBytes;
    if (hasBytes && part.length > 0) {
      last = Math.round(performance.now() - begun);
      first ??= last;
      add(part);
    }
    yield part;
  }
  if (chunks === 0 || !isKnown) return;
  const ms = context.attempt === 1 && first !== undefined ? { ms: [first, last] } : {};
  // A reader that gets all of the reply at once reads its status in the metadata that came last.
  const { replyMetadata } = context as OwnContext;
  context.setMetadata({ ...replyMetadata, sum: { chunks, sha256: sha256.toString('hex'), ...ms } });
}

function isStream(reply: ReturnType<RequestHandler>): reply is AsyncIterable<Part> {
  return typeof reply === 'object' && reply !== null && Symbol.asyncIterator in reply;
}
