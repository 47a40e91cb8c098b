import {
  type HttpHeaders,
  type HttpRequestHead,
  type Message,
  type Part,
  type RequestContext,
  RequestError,
  type RequestHandler,
} from '@parlance/protocol';
import {
  decodeIncoming,
  type IncomingHead,
  loggable,
  messageLimitOf,
  SILENT_LOGGER,
} from '@parlance/protocol/internal';
import { keepByPolicy } from '../../session/keep-policy.js';
import { ServedSession } from '../../session/served-session.js';
import { answerOf } from './ask.js';
import { isForm, jsonTypeOf, readForm, readJsonBody, type UpstreamBody } from './body.js';
import { unusedProxy } from './connections.js';
import { CHAT_COMPLETIONS, type EndpointRequest, endpointOf, isServedPath } from './endpoints.js';
import { GatewayFailure, readRequest } from './failure.js';
import { passOnRest, positionIn, restOf } from './going-on.js';
import { replyName, requestHeaders } from './headers.js';
import { notAllowed } from './models.js';
import {
  assertKey,
  type OpenAIGatewayOptions,
  type ResolvedGatewayOptions,
  resolveGatewayOptions,
} from './options.js';
import { createReply } from './reply.js';
import type { GatewayBody } from './request-body.js';
import type { Secret } from './secret.js';
import { assertSelfContained } from './stored-responses.js';
import { callUpstream } from './upstream.js';
import {
  beginProgress,
  createUsageCounter,
  type GatewayRequest,
  type GatewayUsage,
  type Progress,
} from './usage.js';

export type { KeepPolicy } from '../../session/keep-policy.js';
export type { TokenUsage } from '../../session/observer.js';
export type { FilesPolicy } from './endpoints.js';
export type { GatewayErrorCode } from './failure.js';
export type { AllowedModels } from './models.js';
export type { OpenAIGatewayOptions } from './options.js';
export type { GatewayRequest, GatewayUsage, UsageTotals } from './usage.js';

/** A request handler that also counts usage. */
export type OpenAIGateway = RequestHandler & {
  readonly usage: GatewayUsage;
  /** Beside `onFetch`: whether the gateway answers requests for a path. Only paths that begin with `/v1/` are its own. */
  readonly servesPath: (path: string) => boolean;
  /**
   * Opens a connection to the upstream if none is open, so that the next request does not wait for one. It is closed after
   * 15 s without a request. A server calls this when a session begins.
   */
  readonly prepare: () => void;
};

/**
 * Creates a request handler that forwards requests to an OpenAI-compatible API: chat completions, responses, embeddings,
 * moderations, images, audio, files and the list of models, streamed or not, including errors.
 *
 *     createServer({ onRequest: createOpenAIGateway({ baseUrl, apiKey }) })
 *
 * The HTTP head of a request selects the endpoint (docs/protocol/http.md); a request without a head
 * is a chat completion. Bodies are passed on byte for byte in both directions; each event of a stream
 * becomes one part. If a request is cancelled or its session ends, the connection to the upstream is
 * closed at once; with the option `keep`, streams continue when their session ends, and can be followed.
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
  const servesPath = (path: string) => isServedPath(path, gateway.files);
  return Object.assign(handler, { usage, servesPath, prepare: gateway.prepare });
}

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
  const observer = ServedSession.observerOf(session);
  const reply = createReply(context, progress);
  let secret: Secret | undefined;
  // An answer that cannot continue elsewhere fails there with a code of the gateway.
  context.ifProcessDies('again');
  try {
    if (context.attempt > 1) return yield* goOn(context, gateway, progress);
    const head = readRequest(() => decodeIncoming(context.metadata));
    const endpoint =
      head === undefined ? CHAT_COMPLETIONS : endpointOf(head.method, head.path, gateway.files);
    progress.endpoint = endpoint.name;
    const allowed = endpoint.model === 'json' ? undefined : await gateway.models.allowed(context);
    const body = endpoint.hasBody
      ? await bodyOf({ request, context, gateway, head, endpoint, allowed, progress })
      : undefined;
    if (endpoint.namedModel !== undefined && allowed?.(endpoint.namedModel) === false) {
      throw notAllowed(endpoint.namedModel);
    }
    const key = await keyOf(gateway, context);
    secret = gateway.secretOf([key, ...gateway.secretHeaders]);
    const response = await callUpstream(
      {
        url: urlOf(gateway.baseUrl, endpoint),
        method: endpoint.method,
        headers: headersOf(gateway, key, head, progress.principal, endpoint, body?.type),
        body: body?.content,
        signal,
        onAttempt: observer && ((attempt) => observer.handleUpstream({ ...attempt, model: progress.model })),
      },
      gateway,
    );
    try {
      const rewrite = endpoint.listsModels && allowed !== undefined ? onlyAllowed(allowed) : undefined;
      const options = {
        maxEventSize: maxEventSize(gateway, context),
        isKept: body?.isKept === true,
        rewrite,
      };
      yield* reply.passOn(response, secret, options);
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
    const { code, message } = error;
    const hint = code === 'upstream_unreachable' ? unusedProxy(gateway.baseUrl) : undefined;
    const detail = { ...error.detail, ...(hint !== undefined && { hint }) };
    const hidden = Object.entries(detail).map(([name, value]) => [name, secret?.hide(value) ?? value]);
    const logger = gateway.logger ?? ServedSession.loggerOf(session) ?? SILENT_LOGGER;
    logger[level](
      {
        event: 'gateway.failed',
        err: loggable(error),
        code,
        ...Object.fromEntries(hidden),
        session: session.id,
      },
      `a request to the gateway failed: ${message}`,
    );
    yield* reply.fail(error);
  } finally {
    observer?.handleTokens(progress.model, progress.tokens);
    onOver({ ...progress, durationMs: performance.now() - startedAt });
  }
}

/** Bytes of the longest event: one is a message. */
function maxEventSize({ maxEventLength }: ResolvedGatewayOptions, { session }: RequestContext): number {
  return Math.min(maxEventLength, messageLimitOf(session));
}

/** Another node has passed on the beginning of the answer, and died. */
async function* goOn(
  context: RequestContext,
  gateway: ResolvedGatewayOptions,
  progress: Progress,
): AsyncGenerator<Part> {
  const { signal, yielded } = context;
  const endpoint = restOf(positionIn(yielded));
  progress.endpoint = endpoint.name;
  const key = await keyOf(gateway, context);
  const headers = headersOf(gateway, key, undefined, progress.principal, endpoint, undefined);
  const { method } = endpoint;
  const call = { url: urlOf(gateway.baseUrl, endpoint), method, headers, body: undefined, signal };
  const response = await callUpstream(call, gateway);
  try {
    const secret = gateway.secretOf([key, ...gateway.secretHeaders]);
    const options = { maxSize: maxEventSize(gateway, context), hasSigns: false };
    yield* passOnRest(response, secret, options, progress);
    progress.outcome = 'completed';
  } finally {
    response.close();
  }
}

interface Incoming {
  readonly request: Message;
  readonly context: RequestContext;
  readonly gateway: ResolvedGatewayOptions;
  readonly head: IncomingHead | undefined;
  readonly endpoint: EndpointRequest;
  /** `undefined` if every model is allowed, and if the body is JSON. */
  readonly allowed: ((model: string) => boolean) | undefined;
  readonly progress: Progress;
}

/** The body for the upstream, once the model that it names is allowed. */
async function bodyOf(incoming: Incoming): Promise<UpstreamBody> {
  const { request, context, gateway, head, endpoint, allowed, progress } = incoming;
  if (endpoint.model !== 'json' && isForm(head)) {
    return readForm(request, context, {
      endpoint,
      head,
      assertAllowed:
        allowed &&
        ((model) => {
          if (!allowed(model)) throw notAllowed(model);
        }),
      maxSize: gateway.maxBodySize,
      onModel: (model) => {
        progress.model = model;
      },
      onBytes: (count) => {
        progress.requestBytes = count;
      },
    });
  }
  if (endpoint.model === undefined) {
    throw new GatewayFailure('bad_request', `${endpoint.name} requires a form`);
  }
  const content = await readJsonBody(request, context, head);
  progress.model = await gateway.models.admit(content, context);
  if (endpoint.name === '/responses' && !gateway.storedResponses) assertSelfContained(content);
  const { bytes } = content;
  progress.requestBytes = bytes.length;
  const isKept = keepStream(request, context, gateway, head, content);
  return { type: jsonTypeOf(head), content: bytes, isKept };
}

/** Leaves out of a list of models what the principal may not use. */
function onlyAllowed(isAllowed: (model: string) => boolean): (text: string) => string {
  return (text) => {
    try {
      const list = JSON.parse(text) as { data: readonly { id?: unknown }[] };
      const data = list.data.filter(({ id }) => typeof id === 'string' && isAllowed(id));
      return JSON.stringify({ ...list, data });
    } catch (cause) {
      throw new GatewayFailure(
        'upstream_unusable',
        'the upstream sent something else than a list of models',
        {
          cause,
        },
      );
    }
  };
}

/** Keeps the reply to a request for a stream if the options say so. */
function keepStream(
  request: Message,
  context: RequestContext,
  { keep, logger = SILENT_LOGGER }: ResolvedGatewayOptions,
  head: HttpRequestHead | undefined,
  content: GatewayBody,
): boolean {
  if (keep === false || !content.isForStream) return false;
  const name = head === undefined ? undefined : replyName(head.headers);
  return keepByPolicy(keep, request, context, logger, { name });
}

async function keyOf(gateway: ResolvedGatewayOptions, { session, signal }: RequestContext): Promise<string> {
  try {
    const key = await answerOf(gateway.apiKey(session), signal);
    assertKey(key);
    return key;
  } catch (cause) {
    throw new GatewayFailure('upstream_unreachable', 'the gateway has no key for its upstream', { cause });
  }
}

function urlOf(baseUrl: URL, { path }: EndpointRequest): URL {
  const url = new URL(baseUrl);
  const [pathname, query] = path.split('?');
  url.pathname = `${url.pathname.replace(/\/$/, '')}${pathname}`;
  if (query !== undefined)
    for (const [name, value] of new URLSearchParams(query)) url.searchParams.append(name, value);
  return url;
}

/** The gateway's own headers come last, so that a client cannot override them. */
function headersOf(
  gateway: ResolvedGatewayOptions,
  key: string,
  head: HttpRequestHead | undefined,
  principal: string,
  endpoint: EndpointRequest,
  type: string | undefined,
): HttpHeaders {
  const headers = new Map(head === undefined ? [] : requestHeaders(head.headers, principal));
  headers.set('accept', endpoint.isBinary ? '*/*' : 'application/json, text/event-stream');
  if (type !== undefined) headers.set('content-type', type);
  for (const [name, value] of gateway.headers) headers.set(name, value);
  if (key !== '') headers.set('authorization', `Bearer ${key}`);
  return headers;
}
