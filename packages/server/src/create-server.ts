import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import type { AsyncDisposal } from '@parlance/protocol';
import { addForeignMethods, showAs } from '@parlance/protocol/internal';
import { AGENTS, agents } from './agents/feature.js';
import type { RelayStats } from './agents/transit.js';
import { singleNode } from './cluster/single-node.js';
import { GROUPS, groups } from './groups/feature.js';
import type { Group } from './groups/group.js';
import { ADMIN } from './operate/admin/feature.js';
import { METRICS, metricsOnDemand } from './operate/observe/feature.js';
import { tracing } from './operate/observe/tracing-feature.js';
import { keptReplies } from './replies/feature.js';
import type { CloseServerOptions, DrainOptions, DrainResult } from './server/drain-options.js';
import { chooseFeatures, isRemoved } from './server/features/choose-features.js';
import type { Feature, Service } from './server/features/feature.js';
import type { OwnHooks } from './server/features/own-feature.js';
import { FOREIGN_OF_SERVER } from './server/foreign-names.js';
import { httpStream } from './server/http-stream/feature.js';
import { SessionServer } from './server/server.js';
import { resolveServerOptions, type ServerOptions } from './server/server-options.js';
import { tensors } from './server/tensors/feature.js';
import type { ServerSession } from './session/served-session.js';
import type { Listening, ListenOptions } from './transport/http/listener.js';

/**
 * The server as an application sees it.
 *
 * @typeParam Data of `session.data`.
 */
export interface Server<Data = unknown> extends AsyncDisposal {
  /** Established sessions, by ID. */
  readonly sessions: ReadonlyMap<string, ServerSession<Data>>;
  /**
   * The group of this name, which need not exist.
   *
   * @param name 1 to 256 UTF-16 units.
   * @throws {ProtocolError} `invalid_argument`.
   */
  group(name: string): Group<Data>;
  /** Counts of the messages and requests relayed between agents; all 0 without agents. */
  relayStats(): RelayStats;
  /**
   * Starts an HTTP server, which also answers `/healthz`, `/readyz`, sessions over HTTP and, if they are on, the metrics.
   *
   * @throws {ProtocolError} `invalid_option`; `connection_failed` if the port cannot be opened; `invalid_argument` if
   * the server is already listening, is about to, or was closed, meanwhile too.
   */
  listen(options?: ListenOptions): Promise<Listening>;
  /**
   * Serves sessions on an existing HTTP server, at `path`. Returns a function that stops this. Upgrades for other paths are
   * left to its other listeners; those that none takes are answered with 404.
   *
   * @throws {ProtocolError} `invalid_argument` if it is not an HTTP server, such as an Express app, or is attached already, or
   * if this server was closed.
   */
  attach(server: HttpServer): () => void;
  /**
   * Serves health, readiness and metrics on a separate port; the port of the sessions no longer serves metrics.
   *
   * @throws {ProtocolError} `invalid_option`; `connection_failed` if the port cannot be opened; `invalid_argument` if
   * metrics are already being served, are about to be, or the server was closed.
   */
  listenMetrics(options?: ListenOptions): Promise<Listening>;
  /**
   * Answers a request to an existing HTTP server for `/healthz`, `/readyz` or, if they are on, the metrics, and those of sessions
   * over HTTP. Returns `false` for other requests.
   */
  respond(request: IncomingMessage, response: ServerResponse): boolean;
  /** The address of the operator's port, as soon as it is open; `undefined` without `admin()`. */
  readonly admin: Listening | undefined;
  /**
   * Sends GOAWAY to every session and admits no new ones; sessions that lose their connection may still resume.
   * Streams may finish until the deadline; sessions that are left then are closed. The drain does not wait for a client
   * that has been away for 5 s, unless other nodes continue its session. Stops listening and resolves when no session
   * is left.
   *
   * @throws {ProtocolError} `invalid_option`.
   */
  drain(options?: DrainOptions): Promise<DrainResult>;
  /**
   * Stops at once: a drain whose deadline is now. Each client is notified that the server goes away, and comes back to
   * the next one; replies that are not complete fail there with `session_lost`. Records of durable sessions stay. Waits
   * for clients to leave up to `closingTimeoutMs`, and stops listening. Ports that are being opened are given up: a
   * `listen` that has not resolved rejects. All calls get one promise; the options of the first one count.
   *
   * @throws {ProtocolError} `invalid_option`.
   */
  close(options?: CloseServerOptions): Promise<void>;
}

/** A server as applications have it: what its features are asked for has a name of its own. */
class DefaultServer extends SessionServer implements Server {
  group(name: string): Group {
    return this.#needed(GROUPS).named(name);
  }

  relayStats(): RelayStats {
    return { forwarded: 0, recoded: 0, refused: 0, unknown: 0, ...this.features.use(AGENTS)?.relay.stats };
  }

  get admin(): Listening | undefined {
    return this.features.use(ADMIN)?.listening;
  }

  async listenMetrics(options: ListenOptions = {}): Promise<Listening> {
    this.assertOpen();
    return await this.#needed(METRICS).listen(options);
  }

  /** @throws {ProtocolError} `unsupported` if the feature was removed. */
  #needed<Value>(service: Service<Value>): Value {
    const value = this.features.use(service);
    if (value === undefined) throw isRemoved(service.name);
    return value;
  }
}

showAs(DefaultServer, 'Server', ({ sessions }) => ({ sessions: sessions.size }));
addForeignMethods(DefaultServer.prototype, 'server', FOREIGN_OF_SERVER);

/**
 * Creates a session server; `listen` or `attach` opens it.
 *
 * @typeParam Data of `session.data`: what `authenticate` returns as `data`. Write `authenticate` before the handlers, so
 * that the compiler finds it there.
 * @throws {ProtocolError} `invalid_option`.
 */
export function createServer<Data = unknown>(options: ServerOptions<Data> = {}): Server<Data> {
  // The type of the data exists for the application alone.
  const given = options as ServerOptions;
  const resolved = resolveServerOptions(given);
  const features = chooseFeatures(defaultFeatures(resolved), given.features);
  return new DefaultServer(resolved, features) as Server<Data>;
}

/** The features that a server has without a setting. */
export function defaultFeatures({
  authenticate,
  engine,
}: Pick<ServerOptions, 'authenticate' | 'engine'>): readonly Feature[] {
  const agreed = ['link', 'resume', 'context'].map(agreedOn);
  const node = engine === undefined ? [] : [singleNode()];
  const proven = authenticate === undefined ? [] : [agents()];
  return [
    ...agreed,
    metricsOnDemand(),
    tracing(),
    tensors(),
    ...node,
    httpStream(),
    keptReplies(),
    ...proven,
    groups(),
  ];
}

/** An extension that sessions agree on, and that the sessions themselves have. */
const agreedOn = (name: string): Feature => ({ name, install: (): OwnHooks => ({ extensions: [name] }) });
