import {
  decodeHttpRequest,
  type HttpRequestHead,
  type Message,
  type Part,
  type RequestContext,
  RequestError,
  type RequestHandler,
  type Session,
} from '@parlance/protocol';
import { loggable } from '@parlance/protocol/internal';
import { keepByPolicy } from '../replies/keep-policy.js';
import { GatewayFailure, readRequest } from './failure.js';
import { replyName, requestHeaders } from './headers.js';
import {
  assertKey,
  type OpenAIGatewayOptions,
  type ResolvedGatewayOptions,
  resolveGatewayOptions,
} from './options.js';
import { createReply } from './reply.js';
import { GatewayBody } from './request-body.js';
import { createSecret } from './secret.js';
import { callUpstream } from './upstream.js';
import { beginProgress, createUsageCounter, type GatewayRequest, type GatewayUsage } from './usage.js';

export type { KeepPolicy } from '../replies/options.js';
export type { GatewayErrorCode } from './failure.js';
export type { AllowedModels } from './models.js';
export type { OpenAIGatewayOptions } from './options.js';
export type { GatewayRequest, GatewayUsage, TokenUsage, UsageTotals } from './usage.js';

/** A request handler that also counts usage. */
export type OpenAIGateway = RequestHandler & { readonly usage: GatewayUsage };

/**
 * Creates a request handler that forwards requests to an OpenAI-compatible API: chat completions,
 * responses and embeddings, streamed or not, including errors.
 *
 *     createServer({ onRequest: createOpenAIGateway({ baseUrl, apiKey }) })
 *
 * The HTTP head of a request selects the endpoint (docs/PROTOCOL.md, section 9); a request without a head
 * is a chat completion. Bodies are passed on byte for byte in both directions; each event of a stream
 * becomes one part. If a request is cancelled or its session ends, the connection to the upstream is
 * closed at once; with the option `keep`, streams go on when their session ends, and can be followed.
 *
 * Failures of the gateway itself have a {@link GatewayErrorCode}. They arrive as an HTTP status with an
 * error in OpenAI's shape, or as a `RequestError` with that code if a status was already sent or if the
 * request had no head.
 *
 * @throws {ProtocolError} `invalid_option` if an option is invalid.
 */
export function createOpenAIGateway(options: OpenAIGatewayOptions): OpenAIGateway {
  const gateway = resolveGatewayOptions(options);
  const usage = createUsageCounter();
  const handler: RequestHandler = (request, context) =>
    answerRequest(request, context, gateway, (record) => {
      usage.add(record);
      gateway.onUsage(record);
    });
  return Object.assign(handler, { usage });
}

/** The end of a path selects the endpoint; the rest is ignored. */
const ENDPOINTS = ['/chat/completions', '/responses', '/embeddings'] as const;
type Endpoint = (typeof ENDPOINTS)[number];

/**
 * Answers one request: checks it, calls the upstream and passes on the response.
 *
 * @param onOver called exactly once with the usage of the request, even if it fails.
 */
async function* answerRequest(
  request: Message,
  context: RequestContext,
  gateway: ResolvedGatewayOptions,
  onOver: (request: GatewayRequest) => void,
): AsyncGenerator<Part> {
  const { session, signal } = context;
  const startedAt = performance.now();
  const progress = beginProgress(session);
  const reply = createReply(context, progress);
  try {
    const head = readRequest(() => decodeHttpRequest(context.metadata));
    const endpoint = endpointOf(head);
    progress.endpoint = endpoint;
    const content = new GatewayBody(request);
    progress.model = await gateway.models.admit(content, session);
    if (endpoint === '/responses' && !gateway.storedResponses) assertSelfContained(content);
    const body = content.bytes;
    progress.requestBytes = body.length;
    keepStream(request, context, gateway, head, content);
    const key = await keyOf(gateway, session);
    const url = urlOf(gateway.baseUrl, endpoint);
    const response = await callUpstream(
      { url, headers: headersOf(gateway, key, head, progress.principal), body, signal },
      gateway,
    );
    try {
      const secret = createSecret([key, ...gateway.secretHeaders]);
      yield* reply.passOn(response, secret, gateway.maxEventLength);
      progress.outcome = 'completed';
    } finally {
      response.close();
    }
  } catch (error) {
    if (signal.aborted) throw error;
    // A `RequestError` is an error response of the upstream, not a failure of the gateway.
    progress.outcome = error instanceof RequestError ? 'completed' : 'failed';
    if (!(error instanceof GatewayFailure)) throw error;
    // Client errors are not the operator's problem and may be frequent.
    const level = error.status < 500 ? 'debug' : 'warn';
    const fields = { event: 'gateway.failed', err: loggable(error), code: error.code, session: session.id };
    gateway.logger[level](fields, 'gateway request failed');
    yield* reply.fail(error);
  } finally {
    onOver({ ...progress, durationMs: performance.now() - startedAt });
  }
}

function endpointOf(head: HttpRequestHead | undefined): Endpoint {
  if (head === undefined) return '/chat/completions';
  const path = head.path.split('?', 1)[0] as string;
  const endpoint = ENDPOINTS.find((known) => path.endsWith(known));
  if (endpoint === undefined) {
    throw new GatewayFailure('unknown_path', `unknown path; supported endpoints: ${ENDPOINTS.join(', ')}`);
  }
  if (head.method === 'POST') return endpoint;
  throw new GatewayFailure('method_not_allowed', `${endpoint} requires POST, not ${head.method}`);
}

/**
 * Refuses references to earlier responses: the upstream stores all of them under one key and does not check which
 * principal they belong to.
 */
function assertSelfContained(content: GatewayBody): void {
  const { found } = content.scanStrictly();
  for (const name of ['previous_response_id', 'conversation'] as const) {
    const key = found.get(name);
    // With several keys it is unclear which one counts; a single null is the same as an absent key.
    if (key === undefined || (key.count === 1 && isNull(key.value))) continue;
    throw new GatewayFailure('bad_request', `${name}: references to stored responses are not allowed`);
  }
}

/** Keeps the reply to a request for a stream if the options say so. */
function keepStream(
  request: Message,
  context: RequestContext,
  { keep, logger }: ResolvedGatewayOptions,
  head: HttpRequestHead | undefined,
  content: GatewayBody,
): void {
  if (keep === false || !content.isForStream) return;
  const name = head === undefined ? undefined : replyName(head.headers);
  keepByPolicy(keep, request, context, logger, { name });
}

function isNull(value: Uint8Array): boolean {
  return value.length === 4 && value[0] === 0x6e;
}

async function keyOf(gateway: ResolvedGatewayOptions, session: Session): Promise<string> {
  try {
    const key = await gateway.apiKey(session);
    assertKey(key);
    return key;
  } catch (cause) {
    throw new GatewayFailure('upstream_unreachable', 'the gateway has no key for its upstream', { cause });
  }
}

function urlOf(baseUrl: URL, endpoint: Endpoint): string {
  const url = new URL(baseUrl);
  url.pathname = `${url.pathname.replace(/\/$/, '')}${endpoint}`;
  return url.href;
}

/** The gateway's own headers come last, so that a client cannot override them. */
function headersOf(
  gateway: ResolvedGatewayOptions,
  key: string,
  head: HttpRequestHead | undefined,
  principal: string,
): Headers {
  const headers = new Headers(head === undefined ? [] : requestHeaders(head.headers, principal));
  headers.set('accept', 'application/json, text/event-stream');
  headers.set('content-type', 'application/json');
  for (const [name, value] of gateway.headers) headers.set(name, value);
  if (key !== '') headers.set('authorization', `Bearer ${key}`);
  return headers;
}
