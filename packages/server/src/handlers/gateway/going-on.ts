import { type Message, RequestError } from '@parlance/protocol';
import { type EventPartsOptions, get, isEventStream, isFields } from '@parlance/protocol/internal';
import type { EndpointRequest } from './endpoints.js';
import { readEventParts } from './events.js';
import type { Secret } from './secret.js';
import type { UpstreamResponse } from './upstream.js';
import { type Progress, readTokenUsage } from './usage.js';

/** Continues an answer that another node has begun to pass on before it died. */

/** The position of the former node in an answer. */
export interface Position {
  /** Of a response that the upstream works on in the background. */
  readonly id: string;
  /** The number of the last recorded event. */
  readonly after: number;
}

/**
 * @param said the recorded events.
 * @throws {RequestError} `interrupted` if the answer has ended with the connection of the node that died.
 */
export function positionIn(said: readonly Message[]): Position {
  let id: unknown;
  let after = -1;
  for (const { text } of said) {
    const event = eventIn(text);
    const response = get(event, 'response');
    if (isFields(response) && get(response, 'background') === true) id ??= get(response, 'id');
    const number = get(event, 'sequence_number');
    if (Number.isSafeInteger(number)) after = Math.max(after, number as number);
  }
  if (typeof id === 'string' && ID.test(id) && after >= 0) return { id, after };
  // Whether the upstream was asked is not known, so it is not asked again: that could cost, or have effects, twice.
  throw new RequestError('interrupted', 'cut short: the server was restarted', { retryable: true });
}

/** The request for the rest of a response. */
export function restOf({ id, after }: Position): EndpointRequest {
  const path = `/responses/${id}?stream=true&starting_after=${after}`;
  const none = { listsModels: false, namedModel: undefined, hasBody: false, isBinary: false };
  return { name: '/responses', method: 'GET', path, model: undefined, ...none };
}

/**
 * Passes on the rest of a response, whose head the client has.
 *
 * @throws {GatewayFailure} as `Reply.passOn`. @throws {RequestError} `upstream_interrupted` if the upstream has no rest.
 */
export async function* passOnRest(
  { status, headers, chunks }: UpstreamResponse,
  secret: Secret,
  options: EventPartsOptions,
  progress: Progress,
): AsyncGenerator<string | Uint8Array> {
  progress.status = status;
  if (!isEventStream(status, headers.get('content-type')))
    throw new RequestError(
      'upstream_interrupted',
      `the upstream responded with status ${status} to the request for the rest of its response`,
      { retryable: true },
    );
  for await (const part of readEventParts(chunks, secret, options)) {
    if (typeof part === 'string') progress.tokens = readTokenUsage(part) ?? progress.tokens;
    if (part.length > 0) progress.parts++;
    progress.replyLength += part.length;
    yield part;
  }
}

/** As upstreams write them: it becomes part of a path. */
const ID = /^[\w-]{1,256}$/;

function eventIn(part: string): Readonly<Record<string, unknown>> {
  const data = /(?:^|\n)data: ?(.*)/.exec(part)?.[1] ?? part;
  try {
    const event: unknown = JSON.parse(data);
    return isFields(event) ? event : {};
  } catch {
    return {};
  }
}
