import {
  type CapabilityOptions,
  type Limits,
  type Logger,
  type M2MSecurity,
  MAX_ASSEMBLED_SIZE,
  type OnError,
  ProtocolError,
  type RequestHandler,
  resolveLimits,
  resolveTimers,
  type Timers,
} from '@parlance/protocol';
import {
  assertOptions,
  createErrorPrinter,
  foreignOption,
  guardLogger,
  loggable,
  notify,
  type OptionKinds,
  type PathHandler,
  reportError,
  resolveSecurity,
  SILENT_LOGGER,
  systemClock,
} from '@parlance/protocol/internal';
import { createFetchHandler, type FetchHandler } from '@parlance/protocol/serve-http';
import { EventFeed } from '../base/event-feed.js';
import { limitedBySession } from '../base/limited-log.js';
import { resolveLoopShare, resolveProcessMemory } from '../base/resources.js';
import type { Engine } from '../engine/engine.js';
import { sealOf } from '../engine/seal/sealed.js';
import type { Authenticate } from '../session/admission/admission.js';
import { ServedSession, type ServerSession } from '../session/served-session.js';
import { createTrustedProxies } from '../transport/http/addresses.js';
import { assertNoApp } from '../transport/http/attachable.js';
import { faultOfOrigin, faultOfPath } from '../transport/http/origins.js';
import { WIRE_KINDS } from '../transport/websocket/adapter.js';
import type { Feature } from './features/feature.js';
import { FOREIGN_OPTIONS } from './foreign-names.js';
import type { ResolvedServerOptions } from './options.js';

/** @typeParam Data of `session.data`. */
export interface ServerOptions<Data = unknown> extends Pick<CapabilityOptions, 'algorithms' | 'encodings'> {
  /** Path of the WebSocket endpoint, as clients write it: percent-encoded, without a query. @default '/session' */
  readonly path?: string | undefined;
  /**
   * Origins of pages and apps that may connect in addition to the server's own pages, as browsers write them: `https://app.example`,
   * `capacitor://localhost`, `chrome-extension://…`. `https://*.app.example` admits each subdomain at any depth, and not `app.example`
   * itself; `*` admits every page. A page of a file has `file://` or `null`; any site can make a page with `null`, so admit that only with
   * tokens. @default none
   */
  readonly origins?: readonly string[] | undefined;
  /**
   * Host names of the server (`app.example`; with a port, only at that port). Requests for other names are refused,
   * so that no page can re-point its own name at the server (DNS rebinding).
   * @default loopback names if it listens on loopback, else every name
   */
  readonly hosts?: readonly string[] | undefined;
  /** @default DEFAULT_LIMITS */
  readonly limits?: Partial<Record<keyof Limits, number | undefined>> | undefined;
  /** @default DEFAULT_TIMERS */
  readonly timers?: Partial<Record<keyof Timers, number | undefined>> | undefined;
  /**
   * Bytes of memory that all sessions together may take for data that their peers have sent or not read yet. No principal and no
   * address gets more than a quarter of it, but to decode a single message; at least four times `limits.maxMessageSize`, if that
   * is set. With `Infinity`, only `limits.sessionMemory` applies, to each session. @default a quarter of the machine's memory, at
   * most half of the heap limit
   */
  readonly processMemory?: number | undefined;
  /**
   * The share of the event loop's time that one principal may use while others are served: a number over 0 up to 1,
   * which means no limit. @default 0.45
   */
  readonly loopShare?: number | undefined;
  /** Authenticates clients. @default only clients on this machine are served, each as a principal of its own */
  readonly authenticate?: Authenticate<Data> | undefined;
  /**
   * Runs for each session; if it throws or rejects, that session closes with 4500. Without it the server reads no
   * one-way messages and no tensors, and its clients' `send` throws `unsupported`.
   */
  readonly onSession?: ((session: ServerSession<Data>) => void | Promise<void>) | undefined;
  /** Answers requests. @default answers `unsupported` */
  readonly onRequest?: RequestHandler<ServerSession<Data>> | undefined;
  /**
   * Answers what clients send with `session.fetch`: `app.fetch` of Hono, a route handler of Next.js, or any other function
   * of a `Request`. Paths that `onRequest` serves, as the OpenAI gateway does, go to that.
   *
   * @default HTTP requests go to `onRequest`
   */
  readonly onFetch?: FetchHandler<ServerSession<Data>> | undefined;
  /**
   * Gets a line for each thing that happens, with neither content nor tokens nor messages of the application's errors. Of one
   * event of one session it gets 60 warnings and errors in a minute; the next one says in `omitted` how many were left out.
   *
   * @default silent, but see {@link onError}
   */
  readonly logger?: Logger | undefined;
  /**
   * Called with each error that a handler or another function of the application throws, and with faults of what the
   * server depends on, such as Redis, in full.
   *
   * @default prints them with `console.error` if there is no `logger`, else nothing; 20 at once, then one a second
   */
  readonly onError?: OnError | undefined;
  /**
   * Protection that every body must have, in both directions. Sessions then use M2M only, without context coding,
   * tokens and tensors; a body without the protection ends the session with `security_required`. Metadata and errors
   * are not protected. @default none
   */
  readonly security?: M2MSecurity | undefined;
  /**
   * Addresses and networks (`10.0.0.0/8`) of reverse proxies whose `X-Forwarded-For` is trusted to hold the client's
   * address. @default none: the address of the connection is used
   */
  readonly trustedProxies?: readonly string[] | undefined;
  /**
   * Reads the WebSockets: `net`, this package on the sockets of Node, or `ws`, the library of that name. Clients notice no
   * difference; under load `net` takes less time. Bun and Deno have `ws`.
   *
   * @default `net`, or what the environment variable `PARLANCE_WIRE` says
   */
  readonly wire?: 'net' | 'ws' | undefined;
  /**
   * How sessions come to this server. Without `http`, `<path>/stream` and `<path>/frames` are answered with 404.
   *
   * @default ['websocket', 'http']
   */
  readonly transports?: readonly ['websocket', 'http'?] | undefined;
  /**
   * Reads HELLO from the upgrade requests of clients that offer it there, which makes their sessions ready a round trip
   * earlier. With `false`, clients send it as the first message.
   *
   * @default true
   */
  readonly earlyHello?: boolean | undefined;
  /**
   * Keeps state that outlives the server's process, for features such as `cluster()` and `durable()`: `sqlite(file)` of
   * `@parlance/server/sqlite`, `redis(…)` of `@parlance/server/redis`,
   * `postgres(…)` of `@parlance/server/postgres`, or `memoryCluster()` in tests. `sealed(engine, …)` encrypts what the
   * engine gets.
   *
   * @default none
   */
  readonly engine?: Engine | undefined;
  /**
   * Adds features to the server, or replaces those of the same name that it has by default; `without(name)` removes one.
   *
   * @default `keptReplies()`, `tensors()`, `groups()`, `tracing()`, `httpStream()`, and `agents()` with {@link authenticate}
   */
  readonly features?: readonly Feature[] | undefined;
}

const KINDS: OptionKinds<ServerOptions> = {
  algorithms: 'list',
  encodings: 'list',
  path: 'text',
  origins: 'list',
  hosts: 'list',
  limits: 'object',
  processMemory: 'number',
  loopShare: 'number',
  timers: 'object',
  authenticate: 'function',
  onSession: 'function',
  onRequest: 'function',
  onFetch: 'function',
  logger: 'logger',
  onError: 'function',
  security: 'object',
  trustedProxies: 'list',
  wire: 'text',
  transports: 'list',
  earlyHello: 'flag',
  engine: 'object',
  features: 'list',
};

/** @throws {ProtocolError} `invalid_option`. */
export function resolveServerOptions(options: ServerOptions): ResolvedServerOptions {
  const foreign = foreignOption(options, KINDS, FOREIGN_OPTIONS);
  if (foreign !== undefined) throw foreign;
  assertOptions(options, KINDS);
  const { path = '/session', origins = [], hosts = [] } = options;
  const fault = faultOfPath(path);
  if (fault !== undefined)
    throw new ProtocolError('invalid_option', `path: "${path}" is never reached; ${fault}`);
  for (const origin of origins) {
    const why = faultOfOrigin(origin);
    if (why === undefined) continue;
    throw new ProtocolError('invalid_option', `origins: "${origin}" is the origin of no page; ${why}`);
  }
  for (const host of hosts) {
    if (typeof host !== 'string' || !URL.canParse(`http://${host}`) || !isHost(host)) {
      throw new ProtocolError(
        'invalid_option',
        `hosts: "${host}" is not a host; write it as app.example or app.example:8443`,
      );
    }
  }
  if (options.wire !== undefined && !WIRE_KINDS.includes(options.wire))
    throw new ProtocolError('invalid_option', `wire must be "net" or "ws", not "${options.wire}"`);
  const { transports = ['websocket', 'http'] } = options;
  if (!['websocket', 'websocket,http'].includes(transports.join()))
    throw new ProtocolError('invalid_option', "transports: expected ['websocket'] or ['websocket', 'http']");
  const limits = resolveLimits(options.limits);
  const { onFetch, engine, algorithms, encodings } = options;
  assertNoApp(onFetch, 'onFetch');
  assertNoApp(options.onRequest, 'onRequest');
  if (String(options.onSession?.constructor.name).endsWith('GeneratorFunction'))
    throw new ProtocolError('invalid_option', 'onSession: a generator would never run; write async function');
  // Each session of a server is a `ServerSession`.
  const onRequest = options.onRequest as PathHandler | undefined;
  const feed = new EventFeed();
  const logger = feed.around(resolveLogger(options));
  return Object.freeze({
    path,
    origins,
    hosts: hosts.map((host) => host.toLowerCase()),
    limits,
    processMemory: resolveProcessMemory(options.processMemory, limits, logger),
    loopShare: resolveLoopShare(options.loopShare),
    maxAssembledSize: options.limits?.maxTransferSize ?? MAX_ASSEMBLED_SIZE,
    timers: resolveTimers(options.timers),
    capabilities: { algorithms, encodings },
    authenticate: options.authenticate,
    onSession: options.onSession,
    onRequest:
      onFetch === undefined
        ? onRequest
        : createFetchHandler({
            onRequest,
            onFetch,
            maxBodySize: limits.maxTransferSize,
            restOf: ServedSession.restOf,
            logger,
          }),
    prepare: preparation(onRequest, logger),
    logger,
    feed,
    security: resolveSecurity(options.security),
    trustedProxies: createTrustedProxies(options.trustedProxies ?? []),
    engine,
    seal: sealOf(engine),
    wire: options.wire,
    overHttp: transports.length > 1,
    earlyHello: options.earlyHello ?? true,
  });
}

/** Has a handler prepare for a session; what it throws stays out of the session. */
function preparation(handler: PathHandler | undefined, logger: Logger): () => void {
  const prepare = handler?.prepare;
  if (typeof prepare !== 'function') return () => {};
  const failed = (error: unknown) =>
    logger.warn(
      { event: 'handler.unprepared', err: loggable(error) },
      'the handler of requests failed to prepare',
    );
  return () => notify(prepare, failed);
}

function resolveLogger({ logger, onError }: ServerOptions): Logger {
  const report = onError ?? (logger === undefined ? printError() : undefined);
  return guardLogger(
    logger === undefined ? SILENT_LOGGER : limitedBySession(logger),
    report && ((fields, message) => reportError(report, fields, message)),
  );
}

function printError(): OnError {
  return createErrorPrinter(
    (line, error) => console.error(line, error),
    () => systemClock.now(),
  );
}

/** A host does not change when it is written into a URL and read back, except that a default port is dropped. */
function isHost(host: string): boolean {
  const lower = host.toLowerCase();
  if (lower.includes('*')) return false;
  return [80, 443].includes(Number(/:(\d+)$/.exec(lower)?.[1])) || new URL(`http://${lower}`).host === lower;
}
