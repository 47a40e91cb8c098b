import {
  assertKnownOptions,
  type BatchOptions,
  type Capabilities,
  type CapabilityOptions,
  type Limits,
  type Logger,
  type M2MSecurity,
  ProtocolError,
  type RequestHandler,
  type ResolvedBatchOptions,
  resolveBatchOptions,
  resolveCapabilities,
  resolveLimits,
  resolveTimers,
  type Session,
  SILENT_LOGGER,
  type Timers,
} from '@parlance/protocol';
import type { Authenticate } from './admission.js';

export interface ServerOptions extends CapabilityOptions {
  /** Path of the WebSocket endpoint. @default '/session' */
  readonly path?: string | undefined;
  /**
   * Origins of web pages that may connect besides the server's own, as browsers write them; `*` admits
   * every page. @default none
   */
  readonly origins?: readonly string[] | undefined;
  /** @default DEFAULT_LIMITS */
  readonly limits?: Partial<Limits> | undefined;
  /** @default DEFAULT_TIMERS */
  readonly timers?: Partial<Timers> | undefined;
  /** Without it only loopback peers are served, each as a principal of its own. */
  readonly authenticate?: Authenticate | undefined;
  /** Runs for each session; when it rejects, that session closes with 4500. */
  readonly onSession?: ((session: Session) => void | Promise<void>) | undefined;
  /** Answers requests. @default answers `unsupported` */
  readonly onRequest?: RequestHandler | undefined;
  /** Joins the parts of replies; a handler may say otherwise for its own. @default every part by itself */
  readonly batch?: BatchOptions | undefined;
  /** @default silent */
  readonly logger?: Logger | undefined;
  /** Protection that M2M frames of every session carry and demand. @default none */
  readonly security?: M2MSecurity | undefined;
}

export interface ResolvedServerOptions {
  readonly path: string;
  readonly origins: readonly string[];
  readonly limits: Limits;
  readonly timers: Timers;
  readonly capabilities: Capabilities;
  readonly authenticate: Authenticate | undefined;
  readonly onSession: ServerOptions['onSession'];
  readonly onRequest: RequestHandler | undefined;
  readonly batch: ResolvedBatchOptions | undefined;
  readonly logger: Logger;
  readonly security: M2MSecurity | undefined;
}

const KNOWN = [
  'path',
  'origins',
  'limits',
  'timers',
  'authenticate',
  'onSession',
  'onRequest',
  'batch',
  'logger',
  'security',
  'algorithms',
  'encodings',
  'extensions',
] as const satisfies readonly (keyof ServerOptions)[];

/** @throws {ProtocolError} `invalid_option`. */
export function resolveServerOptions(options: ServerOptions): ResolvedServerOptions {
  assertKnownOptions(options, KNOWN);
  const { path = '/session', origins = [] } = options;
  if (!path.startsWith('/'))
    throw new ProtocolError('invalid_option', `path begins with "/", unlike "${path}"`);
  for (const origin of origins) {
    if (origin !== '*' && (!URL.canParse(origin) || new URL(origin).origin !== origin)) {
      throw new ProtocolError(
        'invalid_option',
        `origins: "${origin}" is no origin; write it as https://app.example`,
      );
    }
  }
  const limits = resolveLimits(options.limits);
  return Object.freeze({
    path,
    origins,
    limits,
    timers: resolveTimers(options.timers),
    capabilities: resolveCapabilities(options, limits),
    authenticate: options.authenticate,
    onSession: options.onSession,
    onRequest: options.onRequest,
    batch: resolveBatchOptions(options.batch),
    logger: options.logger ?? SILENT_LOGGER,
    security: options.security,
  });
}
