import {
  type AvpOptions,
  type BatchOptions,
  type Capabilities,
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
  CAPABILITY_KINDS,
  createErrorPrinter,
  guardLogger,
  type OptionKinds,
  type ResolvedBatchOptions,
  reportError,
  resolveBatchOptions,
  resolveCapabilities,
  resolveSecurity,
  SILENT_LOGGER,
  systemClock,
} from '@parlance/protocol/internal';
import { createFetchHandler, type FetchHandler } from '@parlance/protocol/serve-http';
import { type AdminOptions, type ResolvedAdminOptions, resolveAdminOptions } from './admin/options.js';
import type { Authenticate } from './admission/admission.js';
import type { AgentsOptions } from './agents/policy.js';
import type { Scan } from './agents/scan.js';
import type { Backplane } from './backplane/backplane.js';
import { type NodeOptions, type ResolvedNodeOptions, resolveNodeOptions } from './cluster/options.js';
import {
  type DurabilityOptions,
  type DurablePolicy,
  type ResolvedDurability,
  resolveDurability,
} from './durable/options.js';
import type { Hook } from './hooks/hook.js';
import { hookRequests } from './hooks/run-hooks.js';
import { createTrustedProxies, type TrustedProxies } from './http/addresses.js';
import { EventFeed } from './observe/event-feed.js';
import {
  type RepliesOptions,
  type ResolvedRepliesOptions,
  resolveRepliesOptions,
} from './replies/options.js';
import { resolveLoopShare, resolveProcessMemory } from './resources.js';
import { resolveSeal, type Seal, type SealOptions } from './seal/keys.js';
import type { ServerSession } from './served-session.js';

/** @typeParam Data of `session.data`. */
export interface ServerOptions<Data = unknown> extends CapabilityOptions {
  /** Path of the WebSocket endpoint. @default '/session' */
  readonly path?: string | undefined;
  /**
   * Origins of web pages that may connect in addition to the server's own, as browsers write them
   * (`https://app.example`); `*` admits every page. @default none
   */
  readonly origins?: readonly string[] | undefined;
  /**
   * Host names of the server (`app.example`; with a port, only at that port). Requests for other names are refused,
   * so that no page can re-point its own name at the server (DNS rebinding).
   * @default loopback names if it listens on loopback, else every name
   */
  readonly hosts?: readonly string[] | undefined;
  /** @default DEFAULT_LIMITS */
  readonly limits?: Partial<Limits> | undefined;
  /** @default DEFAULT_TIMERS */
  readonly timers?: Partial<Timers> | undefined;
  /**
   * Bytes of memory that all sessions together may take for data that their peers have sent or not read yet. No
   * principal and no address gets more than a quarter of it. With `Infinity`, only `limits.sessionMemory` applies, to
   * each session. @default a quarter of the machine's memory, at most half of the heap limit
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
   * Hooks around requests and messages, the first one outermost: for measuring, limits and checks that all have in common.
   * They do not run for what `onRequest` never gets, such as messages between agents.
   *
   * @default none
   */
  readonly use?: readonly Hook<Data>[] | undefined;
  /** Joins small parts of replies; a handler may override it. @default every part is sent separately */
  readonly batch?: BatchOptions | undefined;
  /**
   * Which sessions with an agent ID may see and address each other. Requires `authenticate`.
   *
   * @default agents of one principal see and reach each other
   */
  readonly agents?: AgentsOptions | undefined;
  /** Which replies are kept, for how long, and who may follow them. @default those whose handler calls `keep` */
  readonly replies?: RepliesOptions | undefined;
  /**
   * Gets a line for each thing that happens, with neither content nor tokens nor messages of the application's errors.
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
  /** Checks every message, request and relayed reply before it is delivered. @default none */
  readonly scan?: Scan | undefined;
  /**
   * Serves metrics in Prometheus format at `path`, by default `/metrics`, to every client that can connect; see
   * `listenMetrics` for a separate port. @default false
   */
  readonly metrics?: boolean | { readonly path?: string | undefined } | undefined;
  /**
   * Opens a port for the operator, with the server: `GET /admin/state`, `/admin/sessions` and `/admin/events`, a page that
   * shows them, and, with `mode: 'operate'`, `POST /admin/sessions/ID/close` and `/admin/drain`. Each request presents the
   * token. @default none
   */
  readonly admin?: AdminOptions | undefined;
  /**
   * Creates a span for each request if the package `@opentelemetry/api` is installed and a tracer is registered.
   * @default true
   */
  readonly tracing?: boolean | undefined;
  /**
   * Joins the nodes of a cluster, so that a connection may resume its session through any of them: `redis(…)` of
   * `@parlance/server/redis`, or `memoryCluster()` in tests. @default the server is on its own
   */
  readonly cluster?: Backplane | undefined;
  /**
   * Which sessions are put on record in the engine of {@link cluster}, so that they survive the death of this process, if
   * their clients understand that. All nodes need the same. @default false
   */
  readonly durable?: DurablePolicy | undefined;
  /** How sessions are put on record. */
  readonly durability?: DurabilityOptions | undefined;
  /** How other nodes of the cluster reach this one. @default a free port of 127.0.0.1 */
  readonly node?: NodeOptions | undefined;
  /**
   * Encrypts durable sessions and kept replies before the engine of the `cluster` gets them, so that those who can read it
   * learn neither content nor principals, and those who can write it change nothing unnoticed. The same at all nodes.
   *
   * @default the engine can read them
   */
  readonly seal?: SealOptions | undefined;
}

export interface ResolvedServerOptions {
  readonly path: string;
  readonly origins: readonly string[];
  readonly hosts: readonly string[];
  readonly limits: Limits;
  /** Bytes. */
  readonly processMemory: number;
  readonly loopShare: number;
  readonly maxAssembledSize: number;
  readonly timers: Timers;
  readonly capabilities: Capabilities;
  readonly authenticate: Authenticate | undefined;
  readonly onSession: ServerOptions['onSession'];
  readonly onRequest: RequestHandler | undefined;
  readonly use: readonly Hook[];
  readonly batch: ResolvedBatchOptions | undefined;
  /** `undefined` without agents. */
  readonly agents: AgentsOptions | undefined;
  readonly replies: ResolvedRepliesOptions;
  readonly logger: Logger;
  /** What {@link logger} gets. */
  readonly feed: EventFeed;
  readonly security: M2MSecurity | undefined;
  readonly trustedProxies: TrustedProxies;
  readonly scan: Scan | undefined;
  /** The path of the metrics; `undefined` without metrics. */
  readonly metricsPath: string | undefined;
  /** `undefined` without an admin port. */
  readonly admin: ResolvedAdminOptions | undefined;
  readonly tracing: boolean;
  /** `undefined` if no session is put on record. */
  readonly durability: ResolvedDurability | undefined;
  /** `undefined` without a cluster. */
  readonly node: ResolvedNodeOptions | undefined;
  readonly seal: Seal | undefined;
  readonly avp: AvpOptions | undefined;
  readonly transfers: CapabilityOptions['transfers'];
}

const KINDS: OptionKinds<ServerOptions> = {
  ...CAPABILITY_KINDS,
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
  use: 'list',
  batch: 'object',
  agents: 'object',
  replies: 'object',
  logger: 'logger',
  onError: 'function',
  security: 'object',
  trustedProxies: 'list',
  scan: 'function',
  metrics: ['flag', 'object'],
  admin: 'object',
  tracing: 'flag',
  cluster: 'object',
  durable: ['flag', 'function'],
  durability: 'object',
  node: 'object',
  seal: 'object',
};

/** @throws {ProtocolError} `invalid_option`. */
export function resolveServerOptions(options: ServerOptions): ResolvedServerOptions {
  assertOptions(options, KINDS);
  const { path = '/session', origins = [], hosts = [] } = options;
  if (!path.startsWith('/'))
    throw new ProtocolError('invalid_option', `path must begin with "/", not "${path}"`);
  for (const origin of origins) {
    if (origin !== '*' && (!URL.canParse(origin) || new URL(origin).origin !== origin)) {
      throw new ProtocolError(
        'invalid_option',
        `origins: "${origin}" is not an origin; write it as https://app.example`,
      );
    }
  }
  for (const host of hosts) {
    if (typeof host !== 'string' || !URL.canParse(`http://${host}`) || !isHost(host)) {
      throw new ProtocolError(
        'invalid_option',
        `hosts: "${host}" is not a host; write it as app.example or app.example:8443`,
      );
    }
  }
  const limits = resolveLimits(options.limits);
  const { metrics = false, scan, onFetch } = options;
  // Each session of a server is a `ServerSession`.
  const onRequest = options.onRequest as RequestHandler | undefined;
  const feed = new EventFeed();
  const logger = feed.around(resolveLogger(options));
  if (typeof metrics === 'object') assertOptions(metrics, { path: 'text' }, 'metrics');
  const metricsPath = metrics === false ? undefined : ((metrics === true ? {} : metrics).path ?? '/metrics');
  if (metricsPath !== undefined && !metricsPath.startsWith('/'))
    throw new ProtocolError('invalid_option', `metrics.path must begin with "/", not "${metricsPath}"`);
  const agents = resolveAgents(options);
  const use = resolveHooks(options.use);
  const durability = resolveDurability(options.durable, options.durability, options.cluster);
  return Object.freeze({
    path,
    origins,
    hosts: hosts.map((host) => host.toLowerCase()),
    limits,
    processMemory: resolveProcessMemory(options.processMemory),
    loopShare: resolveLoopShare(options.loopShare),
    maxAssembledSize: options.limits?.maxTransferSize ?? MAX_ASSEMBLED_SIZE,
    timers: resolveTimers(options.timers),
    capabilities: resolveCapabilities(
      {
        securityScanning: scan !== undefined,
        ...options,
        takesMessages: options.onSession !== undefined,
        rebuilds: true,
        moves: options.cluster !== undefined,
        durables: durability !== undefined,
        extensions: { ...options.extensions, agents: agents !== undefined },
      },
      limits,
    ),
    authenticate: options.authenticate,
    onSession: options.onSession,
    onRequest: hookRequests(
      onFetch === undefined
        ? onRequest
        : createFetchHandler({ onRequest, onFetch, maxBodySize: limits.maxTransferSize, logger }),
      use,
    ),
    use,
    batch: resolveBatchOptions(options.batch),
    agents,
    replies: resolveRepliesOptions(options.replies),
    logger,
    feed,
    security: resolveSecurity(options.security),
    trustedProxies: createTrustedProxies(options.trustedProxies ?? []),
    scan,
    metricsPath,
    admin: resolveAdminOptions(options.admin),
    tracing: options.tracing ?? true,
    durability,
    node: resolveNodeOptions(options.cluster, options.node),
    seal: resolveSeal(options.seal, options.cluster),
    avp: options.avp,
    transfers: options.transfers,
  });
}

/** @throws {ProtocolError} `invalid_option`. */
function resolveHooks(hooks: readonly Hook[] = []): readonly Hook[] {
  if (hooks.every((hook) => typeof hook === 'function')) return [...hooks];
  throw new ProtocolError('invalid_option', 'use: a list of functions is expected');
}

function resolveLogger({ logger, onError }: ServerOptions): Logger {
  const report = onError ?? (logger === undefined ? printError() : undefined);
  return guardLogger(
    logger ?? SILENT_LOGGER,
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

const KINDS_OF_AGENTS: OptionKinds<AgentsOptions> = {
  onConflict: 'text',
  authorize: 'function',
  route: 'function',
};

const CONFLICTS: readonly AgentsOptions['onConflict'][] = ['takeOver', 'refuse'];

/** Agent IDs are proven by `authenticate`, so there are no agents without it. */
function resolveAgents({ agents, authenticate, extensions }: ServerOptions): AgentsOptions | undefined {
  assertOptions(agents, KINDS_OF_AGENTS, 'agents');
  if (agents?.onConflict !== undefined && !CONFLICTS.includes(agents.onConflict)) {
    throw new ProtocolError('invalid_option', `agents.onConflict must be one of ${CONFLICTS.join(', ')}`);
  }
  if (authenticate !== undefined) return extensions?.['agents'] === false ? undefined : (agents ?? {});
  if (agents === undefined && extensions?.['agents'] !== true) return undefined;
  throw new ProtocolError('invalid_option', 'agents requires authenticate, which proves agent IDs');
}
