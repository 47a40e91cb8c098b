import {
  decodeHttpRequest,
  type HttpRequestHead,
  type Message,
  type Part,
  type RequestContext,
  RequestError,
  type Session,
} from '@parlance/protocol';
import { loggable } from '@parlance/protocol/internal';
import { GatewayFailure, readRequest } from './failure.js';
import { requestHeaders } from './headers.js';
import { assertKey, type ResolvedGatewayOptions } from './options.js';
import { createReply } from './reply.js';
import { GatewayBody } from './request-body.js';
import { createSecret } from './secret.js';
import { askUpstream } from './upstream.js';
import { beginProgress, type GatewayRequest } from './usage.js';

/** A path that ends like one of these is that endpoint, whatever stands before it. */
const ENDPOINTS = ['/chat/completions', '/responses', '/embeddings'] as const;
type Endpoint = (typeof ENDPOINTS)[number];

/**
 * Answers one request: checks it, asks the upstream and passes on what comes.
 *
 * @param onOver told what it took, once, whatever happened.
 */
export async function* answerRequest(
  request: Message,
  context: RequestContext,
  gateway: ResolvedGatewayOptions,
  onOver: (request: GatewayRequest) => void,
): AsyncGenerator<Part> {
  const { session, signal } = context;
  const begun = performance.now();
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
    const key = await keyOf(gateway, session);
    const url = urlOf(gateway.baseUrl, endpoint);
    const response = await askUpstream(
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
    // Of an upstream's error only its shape is the gateway's.
    progress.outcome = error instanceof RequestError ? 'completed' : 'failed';
    if (!(error instanceof GatewayFailure)) throw error;
    // What clients ask wrongly is not the operator's trouble, and may be asked often.
    const level = error.status < 500 ? 'debug' : 'warn';
    const fields = { event: 'gateway.failed', err: loggable(error), code: error.code, session: session.id };
    gateway.logger[level](fields, 'the gateway failed');
    yield* reply.fail(error);
  } finally {
    onOver({ ...progress, durationMs: performance.now() - begun });
  }
}

function endpointOf(head: HttpRequestHead | undefined): Endpoint {
  if (head === undefined) return '/chat/completions';
  const path = head.path.split('?', 1)[0] as string;
  const endpoint = ENDPOINTS.find((known) => path.endsWith(known));
  if (endpoint === undefined) {
    throw new GatewayFailure('unknown_path', `only paths that end with ${ENDPOINTS.join(', ')} are served`);
  }
  if (head.method === 'POST') return endpoint;
  throw new GatewayFailure('method_not_allowed', `${endpoint} takes POST, not ${head.method}`);
}

/**
 * Refuses what refers to an earlier answer: the upstream keeps all of them under one key, and does not ask which
 * principal they were for.
 */
function assertSelfContained(content: GatewayBody): void {
  const { found } = content.scanStrictly();
  for (const name of ['previous_response_id', 'conversation'] as const) {
    const key = found.get(name);
    // Several may mean either of them; alone, null is the same as none.
    if (key === undefined || (key.count === 1 && isNull(key.value))) continue;
    throw new GatewayFailure('bad_request', `${name}: stored responses cannot be referred to here`);
  }
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

/** What the gateway says about itself comes last, so that nobody else says it. */
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
