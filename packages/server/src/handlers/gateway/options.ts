import { type Logger, ProtocolError, type Session } from '@parlance/protocol';
import { assertOptions, guardLogger, loggable, notify, type OptionKinds } from '@parlance/protocol/internal';
import type { KeepPolicy } from '../../session/keep-policy.js';
import type { FilesPolicy } from './endpoints.js';
import { type AllowedModels, createModelPolicy, type ModelPolicy } from './models.js';
import { createSecrets } from './secret.js';
import { createSender, sendWith } from './send.js';
import type { UpstreamOptions } from './upstream.js';
import type { GatewayRequest } from './usage.js';

export interface OpenAIGatewayOptions {
  /** Base URL of an OpenAI-compatible API, including the version: `https://api.openai.com/v1`. */
  readonly baseUrl: string | URL;
  /**
   * Key to send as a bearer token. A function is called for each request, so that each principal may have a key of
   * its own; after 10 s without an answer, the gateway has no key (`upstream_unreachable`). @default none
   */
  readonly apiKey?: string | ((session: Session) => string | Promise<string>) | undefined;
  /** Header fields for every request to the upstream. @default none */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Models that clients may use. A function has 10 s to answer, and then the request fails. @default every model */
  readonly models?: AllowedModels | undefined;
  /**
   * Whether requests to `/responses` may refer to stored responses (`previous_response_id`, `conversation`, items of the
   * type `item_reference`). With one API key for all, any principal that knows an ID can continue the conversation it
   * names. If `false`, a body that some reader might take for such a request is refused too, with `bad_request`.
   * @default true
   */
  readonly storedResponses?: boolean | undefined;
  /**
   * Who may use the files that the upstream stores. It stores them under the API key and does not check which principal
   * they belong to, so every principal that knows the ID of a file may read and delete it. `'all'` also lists the files of all
   * principals; `false` serves no files. @default 'byId'
   */
  readonly files?: FilesPolicy | undefined;
  /** Bytes of a form; JSON has the limit of a message. @default 512 Mi */
  readonly maxBodySize?: number | undefined;
  /**
   * Which streamed generations (`"stream": true`) are kept, so that the upstream continues when the page that asked is
   * gone, and the principal can follow the answer from any event: `session.follow`, or `session.fetch` with the header
   * `x-parlance-follow`. A name comes from this option or from the header `x-parlance-reply-name` of the request. A
   * generation that cannot be kept because a bound is met is sent as usual, and logged. @default false
   */
  readonly keep?: KeepPolicy | undefined;
  /** Called with the usage of each request when it is over. @default none */
  readonly onUsage?: ((request: GatewayRequest) => unknown) | undefined;
  /**
   * How often to repeat a request that could not be sent, or that the upstream refused with 429 or 503 and a `retry-after`. Clients repeat
   * such requests themselves, and each of their attempts would be repeated so often. @default 0
   */
  readonly maxRetries?: number | undefined;
  /**
   * Longest pause before a retry, in milliseconds. If the upstream asks for more, its refusal is passed on.
   * @default 5,000
   */
  readonly maxRetryDelayMs?: number | undefined;
  /** Longest time until the head of a response, in milliseconds. @default 300,000 */
  readonly responseTimeoutMs?: number | undefined;
  /** Longest silence within a response, in milliseconds. @default 300,000 */
  readonly idleTimeoutMs?: number | undefined;
  /** Longest event, in bytes; never more than a message. @default the limit of a message, 16 Mi */
  readonly maxEventLength?: number | undefined;
  /**
   * Sends the requests to the upstream. A redirect of a streamed form is `upstream_interrupted` then. @default Node's HTTP client, which
   * takes less time, and the proxies of the environment if Node does (`NODE_USE_ENV_PROXY=1`, from Node 22.21 and 24.5)
   */
  readonly fetch?: typeof globalThis.fetch | undefined;
  /** Logs failures of the upstream, never content or keys. @default that of the server */
  readonly logger?: Logger | undefined;
}

/** Validated options with defaults filled in. */
export interface ResolvedGatewayOptions extends UpstreamOptions {
  readonly baseUrl: URL;
  /** Returns an empty string if there is no key. */
  readonly apiKey: (session: Session) => string | Promise<string>;
  readonly headers: readonly (readonly [string, string])[];
  /** Values of the headers that may be credentials. */
  readonly secretHeaders: readonly string[];
  readonly secretOf: ReturnType<typeof createSecrets>;
  readonly models: ModelPolicy;
  readonly storedResponses: boolean;
  readonly files: FilesPolicy;
  readonly maxBodySize: number;
  readonly keep: KeepPolicy;
  readonly onUsage: (request: GatewayRequest) => void;
  /** A request may follow soon. */
  readonly prepare: () => void;
  readonly maxEventLength: number;
  /** @default that of the server of each session */
  readonly logger: Logger | undefined;
}

const KINDS: OptionKinds<OpenAIGatewayOptions> = {
  baseUrl: ['text', 'object'],
  apiKey: ['text', 'function'],
  headers: 'object',
  models: ['list', 'function'],
  storedResponses: 'flag',
  files: ['text', 'false'],
  maxBodySize: 'number',
  keep: ['flag', 'object', 'function'],
  onUsage: 'function',
  maxRetries: 'number',
  maxRetryDelayMs: 'number',
  responseTimeoutMs: 'number',
  idleTimeoutMs: 'number',
  maxEventLength: 'number',
  fetch: 'function',
  logger: 'logger',
};

/** Matches names of header fields that carry credentials. */
const SECRET_NAME = /auth|key|token|secret/;
const FIVE_MINUTES_MS = 300_000;
const MAX_DELAY_MS = 2 ** 31 - 1;

/** @throws {ProtocolError} `invalid_option`; its message never contains the value of a key or header. */
export function resolveGatewayOptions(
  // Without any, the first one that is missing is named.
  options: OpenAIGatewayOptions = {} as OpenAIGatewayOptions,
): ResolvedGatewayOptions {
  assertOptions(options, KINDS);
  const { apiKey = '', models, onUsage } = options;
  const logger = options.logger && guardLogger(options.logger);
  if (typeof apiKey === 'string') assertKey(apiKey);
  const headers = resolveHeaders(options.headers);
  const baseUrl = resolveBaseUrl(options.baseUrl);
  const { send, prepare } =
    options.fetch === undefined
      ? createSender(baseUrl)
      : { send: sendWith(options.fetch), prepare: () => {} };
  return Object.freeze({
    baseUrl,
    apiKey: typeof apiKey === 'string' ? () => apiKey : apiKey,
    headers,
    secretHeaders: headers.filter(([name]) => SECRET_NAME.test(name)).map(([, value]) => value),
    secretOf: createSecrets(),
    models: createModelPolicy(models),
    storedResponses: options.storedResponses ?? true,
    files: resolveFiles(options.files),
    maxBodySize: count('maxBodySize', options.maxBodySize ?? 512 * 1024 * 1024, 1),
    keep: options.keep ?? false,
    onUsage(request: GatewayRequest) {
      notify(
        () => onUsage?.(request),
        (error) => logger?.error({ event: 'usage.failed', err: loggable(error) }, 'onUsage threw'),
      );
    },
    maxRetries: count('maxRetries', options.maxRetries ?? 0, 0),
    maxRetryDelayMs: count('maxRetryDelayMs', options.maxRetryDelayMs ?? 5_000, 0),
    responseTimeoutMs: count('responseTimeoutMs', options.responseTimeoutMs ?? FIVE_MINUTES_MS, 1),
    idleTimeoutMs: count('idleTimeoutMs', options.idleTimeoutMs ?? FIVE_MINUTES_MS, 1),
    maxEventLength: count('maxEventLength', options.maxEventLength ?? MAX_DELAY_MS, 1),
    send,
    prepare,
    logger,
  });
}

/** @throws {ProtocolError} `invalid_option` if the key cannot be sent in a header. */
export function assertKey(key: unknown): asserts key is string {
  if (typeof key === 'string' && /^[!-~]*$/.test(key)) return;
  throw new ProtocolError('invalid_option', 'apiKey: expected visible ASCII characters without spaces');
}

function resolveBaseUrl(given: string | URL): URL {
  if (!URL.canParse(`${given}`))
    throw new ProtocolError('invalid_option', 'baseUrl: expected a URL such as https://api.openai.com/v1');
  const url = new URL(given);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new ProtocolError('invalid_option', `baseUrl: expected http: or https:, not ${url.protocol}`);
  }
  if (url.username !== '' || url.password !== '') {
    throw new ProtocolError('invalid_option', 'baseUrl: must not contain credentials; use apiKey or headers');
  }
  return url;
}

function resolveFiles(files: FilesPolicy = 'byId'): FilesPolicy {
  if (files === 'byId' || files === 'all' || files === false) return files;
  throw new ProtocolError('invalid_option', "files: expected 'byId', 'all' or false");
}

function resolveHeaders(given: Readonly<Record<string, string>> = {}): [string, string][] {
  try {
    return [...new Headers(given)];
  } catch {
    throw new ProtocolError('invalid_option', 'headers: expected valid HTTP header names and values');
  }
}

function count(name: string, value: number, least: number): number {
  if (Number.isSafeInteger(value) && value >= least && value <= MAX_DELAY_MS) return value;
  throw new ProtocolError(
    'invalid_option',
    `${name}: expected a whole number from ${least} to ${MAX_DELAY_MS}`,
  );
}
