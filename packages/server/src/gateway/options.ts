import { type Logger, ProtocolError, type Session } from '@parlance/protocol';
import { assertOptions, loggable, type OptionKinds, SILENT_LOGGER } from '@parlance/protocol/internal';
import { type AllowedModels, createModelPolicy, type ModelPolicy } from './models.js';
import type { UpstreamOptions } from './upstream.js';
import type { GatewayRequest } from './usage.js';

export interface OpenAIGatewayOptions {
  /** Of an API that is compatible with OpenAI's, version included: `https://api.openai.com/v1`. */
  readonly baseUrl: string | URL;
  /**
   * Sent as a bearer token and nowhere else; a function is asked for each request, so that each principal may have
   * a key of its own. @default none is sent
   */
  readonly apiKey?: string | ((session: Session) => string | Promise<string>) | undefined;
  /** Header fields of every request to the upstream. @default none */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** @default every model */
  readonly models?: AllowedModels | undefined;
  /**
   * Whether requests to `/responses` may refer to what the upstream has stored (`previous_response_id`,
   * `conversation`). Under one API key, each principal that knows an ID can continue what it names.
   * @default true
   */
  readonly storedResponses?: boolean | undefined;
  /** Told of each request once it is over. @default nobody is told */
  readonly onUsage?: ((request: GatewayRequest) => void) | undefined;
  /** How often a request is repeated that cannot have had any effect. @default 2 */
  readonly maxRetries?: number | undefined;
  /** Milliseconds; an upstream that wants a longer pause has its refusal passed on. @default 5,000 */
  readonly maxRetryDelayMs?: number | undefined;
  /** Milliseconds that an upstream may think before it answers at all. @default 300,000 */
  readonly responseTimeoutMs?: number | undefined;
  /** Milliseconds that an upstream may be silent within an answer. @default 300,000 */
  readonly idleTimeoutMs?: number | undefined;
  /** UTF-16 units of an event that is not complete yet. @default 8 Mi */
  readonly maxEventLength?: number | undefined;
  /** @default the runtime's own */
  readonly fetch?: typeof globalThis.fetch | undefined;
  /** Hears why an upstream could not be used; never of what was said, never of the key. @default silent */
  readonly logger?: Logger | undefined;
}

/** A gateway's options once they are checked. */
export interface ResolvedGatewayOptions extends UpstreamOptions {
  readonly baseUrl: URL;
  /** Empty where there is none. */
  readonly apiKey: (session: Session) => string | Promise<string>;
  readonly headers: readonly (readonly [string, string])[];
  /** Of these, what proves who the gateway is. */
  readonly secretHeaders: readonly string[];
  readonly models: ModelPolicy;
  readonly storedResponses: boolean;
  readonly onUsage: (request: GatewayRequest) => void;
  readonly maxEventLength: number;
  readonly logger: Logger;
}

const KINDS: OptionKinds<OpenAIGatewayOptions> = {
  baseUrl: ['text', 'object'],
  apiKey: ['text', 'function'],
  headers: 'object',
  models: ['list', 'function'],
  storedResponses: 'flag',
  onUsage: 'function',
  maxRetries: 'number',
  maxRetryDelayMs: 'number',
  responseTimeoutMs: 'number',
  idleTimeoutMs: 'number',
  maxEventLength: 'number',
  fetch: 'function',
  logger: 'logger',
};

/** Header fields that keys travel in. */
const SECRET_NAME = /auth|key|token|secret/;
const FIVE_MINUTES_MS = 300_000;
const MAX_DELAY_MS = 2 ** 31 - 1;

/** @throws {ProtocolError} `invalid_option`, whose message never has the value of a key or header. */
export function resolveGatewayOptions(options: OpenAIGatewayOptions): ResolvedGatewayOptions {
  assertOptions(options, KINDS);
  const { apiKey = '', models, onUsage, logger = SILENT_LOGGER } = options;
  if (typeof apiKey === 'string') assertKey(apiKey);
  const headers = resolveHeaders(options.headers);
  return Object.freeze({
    baseUrl: resolveBaseUrl(options.baseUrl),
    apiKey: typeof apiKey === 'string' ? () => apiKey : apiKey,
    headers,
    secretHeaders: headers.filter(([name]) => SECRET_NAME.test(name)).map(([, value]) => value),
    models: createModelPolicy(models),
    storedResponses: options.storedResponses ?? true,
    onUsage(request: GatewayRequest) {
      try {
        onUsage?.(request);
      } catch (error) {
        logger.error({ event: 'usage.failed', err: loggable(error) }, 'onUsage threw');
      }
    },
    maxRetries: count('maxRetries', options.maxRetries ?? 2, 0),
    maxRetryDelayMs: count('maxRetryDelayMs', options.maxRetryDelayMs ?? 5_000, 0),
    responseTimeoutMs: count('responseTimeoutMs', options.responseTimeoutMs ?? FIVE_MINUTES_MS, 1),
    idleTimeoutMs: count('idleTimeoutMs', options.idleTimeoutMs ?? FIVE_MINUTES_MS, 1),
    maxEventLength: count('maxEventLength', options.maxEventLength ?? 8 * 1024 * 1024, 1),
    fetch: options.fetch ?? globalThis.fetch,
    logger,
  });
}

/** @throws {ProtocolError} `invalid_option` for a key that fits into no header. */
export function assertKey(key: unknown): asserts key is string {
  if (typeof key === 'string' && /^[!-~]*$/.test(key)) return;
  throw new ProtocolError('invalid_option', 'apiKey: a key is visible ASCII characters, without spaces');
}

function resolveBaseUrl(given: string | URL): URL {
  let url: URL;
  try {
    url = new URL(given);
  } catch {
    throw new ProtocolError('invalid_option', 'baseUrl: a URL such as https://api.openai.com/v1');
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new ProtocolError('invalid_option', `baseUrl: http or https, not ${url.protocol}`);
  }
  if (url.username !== '' || url.password !== '') {
    throw new ProtocolError('invalid_option', 'baseUrl: without credentials; use apiKey or headers');
  }
  return url;
}

function resolveHeaders(given: Readonly<Record<string, string>> = {}): [string, string][] {
  try {
    return [...new Headers(given)];
  } catch {
    throw new ProtocolError('invalid_option', 'headers: names and values as HTTP allows them');
  }
}

function count(name: string, value: number, least: number): number {
  if (Number.isSafeInteger(value) && value >= least && value <= MAX_DELAY_MS) return value;
  throw new ProtocolError('invalid_option', `${name}: a whole number from ${least} to ${MAX_DELAY_MS}`);
}
