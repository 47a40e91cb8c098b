import { setTimeout as pause } from 'node:timers/promises';
import type { HttpHeaders } from '@parlance/protocol';
import { unlessAborted, whenAborted } from '@parlance/protocol/internal';
import { GatewayFailure } from './failure.js';
import { type BegunResponse, metOldConnection, type RequestToSend, type Send } from './send.js';

export interface UpstreamOptions {
  readonly send: Send;
  /** How often to repeat a request that could not be sent, or was refused with a pause. */
  readonly maxRetries: number;
  /** Longest pause before a retry, in milliseconds; longer ones are left to the client. */
  readonly maxRetryDelayMs: number;
  /** Longest time until the head of a response, in milliseconds. */
  readonly responseTimeoutMs: number;
  /** Longest silence within a response, in milliseconds. */
  readonly idleTimeoutMs: number;
}

/** A body of chunks, which is read once. An error that it throws fails the call. @param signal aborts when the rest is not wanted */
export type BodyChunks = (signal: AbortSignal) => AsyncIterable<Uint8Array>;

export interface UpstreamRequest extends Omit<RequestToSend, 'body'> {
  readonly url: URL;
  /** A request with chunks is never repeated. */
  readonly body: Uint8Array | BodyChunks | undefined;
  /** Called for each attempt, when its response begins or it has failed. @default not called */
  readonly onAttempt?: ((attempt: Attempt) => void) | undefined;
}

export interface Attempt {
  /** `undefined` if no response began. */
  readonly status: number | undefined;
  readonly isRetry: boolean;
  readonly seconds: number;
}

export interface UpstreamResponse {
  readonly status: number;
  readonly headers: HttpHeaders;
  /**
   * The body; can be read once.
   *
   * @throws {GatewayFailure} `upstream_interrupted`, `upstream_timeout`.
   */
  readonly chunks: AsyncIterable<Uint8Array>;
  /** Must be called: closes the connection if the body was not read to its end. */
  close(): void;
}

/** As in the `fetch` of Node. */
const MAX_REDIRECTS = 20;

/**
 * Sends one HTTP request to the upstream, and again to where it redirects within its origin.
 *
 * @throws {GatewayFailure} `upstream_unreachable`, `upstream_interrupted`, `upstream_timeout`, `upstream_unusable`.
 */
export async function callUpstream(
  request: UpstreamRequest,
  options: UpstreamOptions,
): Promise<UpstreamResponse> {
  let { url } = request;
  for (let redirects = 0; ; redirects++) {
    const response = await call({ ...request, url }, options);
    if (!REDIRECTS.has(response.status)) return response;
    response.close();
    if (redirects === MAX_REDIRECTS) throw redirected(`redirected more than ${MAX_REDIRECTS} times`, url);
    url = targetOf(request, url, response);
  }
}

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** The same request again, with its body. */
const REPEATING: ReadonlySet<number> = new Set([307, 308]);

/** @throws {GatewayFailure} `upstream_unusable`. */
function targetOf({ method, body }: UpstreamRequest, url: URL, { status, headers }: UpstreamResponse): URL {
  const location = headers.get('location') ?? '';
  const target = location !== '' && URL.canParse(location, url.href) ? new URL(location, url) : undefined;
  if (target === undefined) throw redirected('redirected without an address', url);
  // The key must not be sent to another address.
  if (target.origin !== url.origin) throw redirected('redirected to another origin', target);
  if (method !== 'GET' && !REPEATING.has(status))
    throw redirected(`redirected a ${method} with status ${status}`, target);
  if (typeof body === 'function') throw redirected('redirected a form, which is sent once', target);
  return target;
}

/** Without its query, which may have credentials. */
function redirected(what: string, { origin, pathname }: URL): GatewayFailure {
  const target = `${origin}${pathname}`.slice(0, MAX_TARGET);
  return new GatewayFailure('upstream_unusable', `the upstream ${what}`, { detail: { target } });
}

const MAX_TARGET = 300;

/** Sends one request, and again if it cannot have been processed. */
async function call(request: UpstreamRequest, options: UpstreamOptions): Promise<UpstreamResponse> {
  const { url, method, headers, body } = request;
  const isSending = typeof body === 'function';
  let mayBeOld = method === 'GET';
  for (let attempt = 0, repeats = 0; ; attempt++) {
    const isLast = repeats >= options.maxRetries || isSending;
    const call = createCall(request.signal, isSending);
    let delay: number | undefined;
    const begun = performance.now();
    const report = (status: number | undefined): void =>
      request.onAttempt?.({ status, isRetry: attempt > 0, seconds: (performance.now() - begun) / 1000 });
    try {
      const response = await call.within(options.responseTimeoutMs, (signal) =>
        options.send(url, { method, headers, body: isSending ? observe(body, call, signal) : body, signal }),
      );
      report(response.status);
      delay = isLast ? undefined : retryDelay(response, options.maxRetryDelayMs);
      if (delay === undefined) {
        const chunks = read(response, call, options);
        return { status: response.status, headers: response.headers, chunks, close: call.close };
      }
      call.close();
    } catch (error) {
      call.close();
      // A call that the requester has cancelled says nothing about the upstream.
      if (!request.signal.aborted) report(undefined);
      if (!(error instanceof GatewayFailure)) throw error;
      if (mayBeOld && metOldConnection(error.cause)) {
        // A request that only reads may be made again; any other may have been processed.
        mayBeOld = false;
        continue;
      }
      if (isLast || error.code !== 'upstream_unreachable') throw error;
      delay = Math.min(options.maxRetryDelayMs, FIRST_DELAY_MS * 2 ** repeats);
    }
    repeats++;
    const { signal } = request;
    await pause(delay, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}

/** As long as the requester sends, the upstream is not silent. */
async function* observe(body: BodyChunks, call: Call, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of body(signal)) {
      call.restart();
      yield chunk;
      // After an abort, the `fetch` of Node reads the body to its end and drops it.
      signal.throwIfAborted();
    }
    call.restart();
    call.sent();
  } catch (error) {
    // Otherwise the failure would be that of the connection.
    call.fail(error);
    throw error;
  }
}

const FIRST_DELAY_MS = 100;

async function* read(
  { chunks }: BegunResponse,
  call: Call,
  { idleTimeoutMs }: UpstreamOptions,
): AsyncGenerator<Uint8Array> {
  for (;;) {
    // Measures only the upstream: the time that the requester takes does not count.
    const { value, done } = await call.within(idleTimeoutMs, () => chunks.next());
    if (done === true) return call.end();
    yield value;
  }
}

/** One connection to the upstream: maps every failure to its cause. */
interface Call {
  /** Runs one step. On timeout or cancellation it fails, even if the step ignores the signal, and the connection is closed. */
  within<Result>(ms: number, step: (signal: AbortSignal) => Promise<Result>): Promise<Result>;
  /** Begins the time of the present step again. */
  restart(): void;
  /** Closes the connection; the present step fails with `error`. */
  fail(error: unknown): void;
  /** The body of the request was sent to its end. */
  sent(): void;
  /** The response was read to its end. Another call may use the connection from now on, unless the body is still being sent. */
  end(): void;
  /** Closes the connection if it is still open. */
  close(): void;
}

const CLOSED = new GatewayFailure('upstream_interrupted', 'the gateway closed the connection');

/** @param isSending the body of the request is sent in chunks. */
function createCall(signal: AbortSignal, isSending: boolean): Call {
  signal.throwIfAborted();
  const controller = new AbortController();
  const free = whenAborted(signal, () => controller.abort(signal.reason));
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  let isSent = !isSending;
  return {
    async within(ms, step) {
      timer = setTimeout(
        () =>
          controller.abort(new GatewayFailure('upstream_timeout', `the upstream was silent for ${ms} ms`)),
        ms,
      );
      try {
        controller.signal.throwIfAborted();
        return await unlessAborted(step(controller.signal), controller.signal);
      } catch (cause) {
        // After an abort, the reason of the abort is the cause, not the error that it provoked.
        throw controller.signal.aborted ? controller.signal.reason : failureOf(cause);
      } finally {
        clearTimeout(timer);
        timer = undefined;
      }
    },
    restart: () => void timer?.refresh(),
    fail: (error) => controller.abort(error),
    sent() {
      isSent = true;
    },
    end() {
      isOver = true;
    },
    close() {
      free();
      // A reason of its own, as the default one is an exception with a stack.
      if (!isOver || !isSent) controller.abort(CLOSED);
    },
  };
}

/** Error codes of failures before anything was sent. */
const UNREACHED: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
  'ERR_PROXY_TUNNEL',
]);

function failureOf(cause: unknown): GatewayFailure {
  if (cause instanceof GatewayFailure) return cause;
  const { code } = ((cause as Error | undefined)?.cause ?? cause ?? {}) as { code?: unknown };
  return UNREACHED.has(code)
    ? new GatewayFailure('upstream_unreachable', 'the upstream cannot be reached', { cause })
    : new GatewayFailure('upstream_interrupted', 'the connection to the upstream was lost', { cause });
}

/** Milliseconds after which to repeat a rejected request; `undefined` if the rejection is final. */
function retryDelay({ status, headers }: BegunResponse, maxMs: number): number | undefined {
  if ((status !== 429 && status !== 503) || headers.get('x-should-retry') === 'false') return undefined;
  const delay = retryAfterMs(headers);
  return delay !== undefined && delay <= maxMs ? delay : undefined;
}

/** The pause that an upstream asks for, in milliseconds. */
export function retryAfterMs(headers: HttpHeaders): number | undefined {
  const ms = Number.parseFloat(headers.get('retry-after-ms') ?? '');
  const delay = Number.isNaN(ms) ? parseRetryAfter(headers.get('retry-after') ?? '') : ms;
  return delay >= 0 ? Math.round(delay) : undefined;
}

/** Parses seconds or a date; returns milliseconds from now. */
function parseRetryAfter(value: string): number {
  return /^\d+(\.\d+)?$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now();
}
