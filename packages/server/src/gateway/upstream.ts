import { GatewayFailure } from './failure.js';

/** One HTTP request to the upstream: what may be tried again is, what takes too long or is not wanted is closed. */

export interface UpstreamOptions {
  readonly fetch: typeof globalThis.fetch;
  /** How often a request is repeated that cannot have had any effect. */
  readonly maxRetries: number;
  /** Milliseconds; who is told to wait longer passes that on. */
  readonly maxRetryDelayMs: number;
  /** Milliseconds until the head of a response. */
  readonly responseTimeoutMs: number;
  /** Milliseconds without anything of a body. */
  readonly idleTimeoutMs: number;
}

export interface UpstreamRequest {
  readonly url: string;
  readonly headers: Headers;
  readonly body: Uint8Array;
  /** The requester wants no more; its reason is what the exchange fails with then. */
  readonly signal: AbortSignal;
}

export interface UpstreamResponse {
  readonly status: number;
  readonly headers: Headers;
  /**
   * The body, once.
   *
   * @throws {GatewayFailure} `upstream_interrupted`, `upstream_timeout`.
   */
  readonly chunks: AsyncIterable<Uint8Array>;
  /** Has to be called: closes the connection where the body was not read to its end. */
  close(): void;
}

/**
 * Asks once more only where that is safe: where the request cannot have arrived, and where the upstream
 * says by 429 or 503 and `Retry-After` that it did nothing and when to come back.
 *
 * @throws {GatewayFailure} `upstream_unreachable`, `upstream_interrupted`, `upstream_timeout`.
 */
export async function askUpstream(
  request: UpstreamRequest,
  options: UpstreamOptions,
): Promise<UpstreamResponse> {
  for (let attempt = 0; ; attempt++) {
    const isLast = attempt >= options.maxRetries;
    const exchange = createExchange(request.signal);
    let delay: number | undefined;
    try {
      const response = await exchange.within(options.responseTimeoutMs, (signal) =>
        options.fetch(request.url, {
          method: 'POST',
          headers: request.headers,
          body: request.body as Uint8Array<ArrayBuffer>,
          // Wherever it leads, the key is not for there.
          redirect: 'manual',
          signal,
        }),
      );
      delay = isLast ? undefined : retryDelay(response, options.maxRetryDelayMs);
      if (delay === undefined) {
        const { status, headers } = response;
        return { status, headers, chunks: read(response, exchange, options), close: exchange.close };
      }
      exchange.close();
    } catch (error) {
      exchange.close();
      if (isLast || !(error instanceof GatewayFailure) || error.code !== 'upstream_unreachable') throw error;
      delay = Math.min(options.maxRetryDelayMs, FIRST_DELAY_MS * 2 ** attempt);
    }
    await pause(delay, request.signal);
  }
}

const FIRST_DELAY_MS = 100;

async function* read(
  response: Response,
  exchange: Exchange,
  { idleTimeoutMs }: UpstreamOptions,
): AsyncGenerator<Uint8Array> {
  const reader = response.body?.getReader();
  if (reader === undefined) return;
  for (;;) {
    // Time that the requester takes is not the upstream's.
    const { value, done } = await exchange.within(idleTimeoutMs, () => reader.read());
    if (done) return;
    yield value;
  }
}

/** What goes wrong with one connection to the upstream, by whose fault. */
interface Exchange {
  /** Runs one step; too long or not wanted any more, it fails and the connection is closed. */
  within<Result>(ms: number, step: (signal: AbortSignal) => Promise<Result>): Promise<Result>;
  /** Closes the connection, where it is still open. */
  close(): void;
}

function createExchange(wanted: AbortSignal): Exchange {
  wanted.throwIfAborted();
  const controller = new AbortController();
  const onUnwanted = () => controller.abort(wanted.reason);
  wanted.addEventListener('abort', onUnwanted, { once: true });
  return {
    async within(ms, step) {
      const timer = setTimeout(
        () =>
          controller.abort(new GatewayFailure('upstream_timeout', `the upstream was silent for ${ms} ms`)),
        ms,
      );
      try {
        return await step(controller.signal);
      } catch (cause) {
        // A closed connection breaks what is under way, whatever that calls it.
        throw controller.signal.aborted ? controller.signal.reason : failureOf(cause);
      } finally {
        clearTimeout(timer);
      }
    },
    close() {
      wanted.removeEventListener('abort', onUnwanted);
      controller.abort();
    },
  };
}

/** Failures before anything was sent. */
const UNREACHED: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

function failureOf(cause: unknown): GatewayFailure {
  if (cause instanceof GatewayFailure) return cause;
  const { code } = ((cause as Error | undefined)?.cause ?? cause ?? {}) as { code?: unknown };
  return UNREACHED.has(code)
    ? new GatewayFailure('upstream_unreachable', 'the upstream cannot be reached', { cause })
    : new GatewayFailure('upstream_interrupted', 'the connection to the upstream was lost', { cause });
}

/** Milliseconds after which a refused request may be repeated; `undefined` where the refusal stands. */
function retryDelay({ status, headers }: Response, maxMs: number): number | undefined {
  if ((status !== 429 && status !== 503) || headers.get('x-should-retry') === 'false') return undefined;
  const delay = retryAfterMs(headers);
  return delay !== undefined && delay <= maxMs ? delay : undefined;
}

/** How long an upstream wants to be left alone. */
export function retryAfterMs(headers: Headers): number | undefined {
  const ms = Number.parseFloat(headers.get('retry-after-ms') ?? '');
  const delay = Number.isNaN(ms) ? parseRetryAfter(headers.get('retry-after') ?? '') : ms;
  return delay >= 0 ? Math.round(delay) : undefined;
}

/** Seconds or a date, as milliseconds from now. */
function parseRetryAfter(value: string): number {
  return /^\d+(\.\d+)?$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now();
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
  });
}
