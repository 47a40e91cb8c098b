import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import {
  AgreementCache,
  CloseCode,
  CloseReason,
  createSweep,
  type Endpoint,
  type EventRoute,
  Extension,
  type HelloPayload,
  type LoadableCodec,
  loadCodecs,
  loadEncoding,
  loggable,
  ProtocolError,
  type RequestHandler,
  type Session,
  Subprotocol,
  sweepInterval,
  systemClock,
} from '@parlance/protocol';
import { createWebSocketAdapter } from './adapters/ws.js';
import { addressKey, clientAddress, isForwarded } from './addresses.js';
import { checkHost, checkOrigin, chooseSubprotocol, pathOf, type Refusal } from './admission.js';
import { type ConnectionHost, serveConnection } from './connection.js';
import { Directory } from './directory.js';
import { Drain, type DrainOptions, type DrainResult, resolveDrainOptions, returnDelay } from './drain.js';
import { Handshakes } from './handshakes.js';
import { instrument } from './instrument.js';
import { closeListener, type Listener, type ListenOptions, openListener } from './listener.js';
import type { Metrics } from './metrics.js';
import { resolveServerOptions, type ServerOptions } from './options.js';
import { Quotas } from './quotas.js';
import { Policy } from './relay/policy.js';
import { Relay, type RelayStats } from './relay/relay.js';
import { createStatusPages } from './status.js';
import { Totals } from './totals.js';
import { loadTracing, type Tracing } from './tracing.js';
import { refuseUpgrade } from './upgrade.js';

export interface Listening {
  readonly port: number;
  readonly host: string;
  /** Where clients connect to. */
  readonly url: string;
}

export interface Server extends AsyncDisposable {
  /** Sessions that are established, by ID. */
  readonly sessions: ReadonlyMap<string, Session>;
  /** What was carried from agent to agent; all 0 where there are no agents. */
  relayStats(): RelayStats;
  /**
   * Starts an HTTP server of its own, which also answers `/healthz` and `/readyz`.
   *
   * @throws {ProtocolError} `connection_failed` where the port is taken.
   */
  listen(options?: ListenOptions): Promise<Listening>;
  /** Serves the session path of an HTTP server that exists; the returned function takes it back. */
  attach(server: HttpServer): () => void;
  /**
   * Serves health, readiness and metrics on a port of their own, and metrics no longer on that of the
   * sessions.
   *
   * @throws {ProtocolError} `connection_failed` where the port is taken.
   */
  listenMetrics(options?: ListenOptions): Promise<Listening>;
  /**
   * Answers `/healthz`, `/readyz` and, where they are on, the metrics: for an HTTP server that exists.
   * Returns `false` where the request is for none of them.
   */
  respond(request: IncomingMessage, response: ServerResponse): boolean;
  /**
   * Sends every session away and admits no new one; connections that were lost may still be taken up again.
   * Streams may finish until the deadline, then what is left is closed. Stops listening and resolves when no
   * session is left.
   *
   * @throws {ProtocolError} `invalid_option`.
   */
  drain(options?: DrainOptions): Promise<DrainResult>;
  /** Closes every session, waits for them up to the closing timeout, and stops listening. */
  close(): Promise<void>;
}

/**
 * Creates a session server; `listen` or `attach` opens it.
 *
 * @throws {ProtocolError} `invalid_option`.
 */
export function createServer(options: ServerOptions = {}): Server {
  return new SessionServer(options);
}

/** Connections of all addresses that are no session yet. */
const MAX_HANDSHAKES = 10_000;
/** How often addresses are forgotten about which there is nothing to remember. */
const FORGET_INTERVAL_MS = 30_000;

/** Room for the header of a frame that carries a message of the largest size. */
const FRAME_HEAD_ROOM = 16 * 1024;

class SessionServer implements Server, ConnectionHost {
  readonly options: ConnectionHost['options'];
  readonly agreements = new AgreementCache();
  readonly #sessions = new Map<string, Endpoint>();
  /** Every connection, also those that are no session yet. */
  readonly #connections = new Set<Endpoint>();
  readonly #attached = new Set<() => void>();
  readonly #adapter;
  readonly #sweep;
  /** In place where sessions are authenticated: an agent ID that nobody proved names nobody. */
  readonly #directory: Directory | undefined;
  readonly #relay: Relay | undefined;
  readonly #quotas: Quotas;
  readonly #handshakes: Handshakes<Endpoint>;
  readonly #totals = new Totals();
  readonly #status;
  readonly onRequest: RequestHandler | undefined;
  #listener: Listener | undefined;
  #metricsListener: Listener | undefined;
  #metrics: Metrics | undefined;
  #tracing: Tracing | undefined;
  #loading: Promise<void> | undefined;
  #isLoaded = false;
  #isClosing = false;
  #hasWarned = false;
  #drain: Drain | undefined;
  #drained: Promise<DrainResult> | undefined;
  #returnWithinMs = 0;
  #forgetting: (() => void) | undefined;

  constructor(options: ServerOptions) {
    this.options = resolveServerOptions(options);
    const { limits, timers, onRequest } = this.options;
    this.onRequest =
      onRequest &&
      instrument(
        onRequest,
        () => this.#metrics,
        () => this.#tracing,
      );
    this.#quotas = new Quotas(limits);
    this.#handshakes = new Handshakes(limits.handshakesPerIp, MAX_HANDSHAKES);
    this.#status = createStatusPages({
      isReady: () => this.#isLoaded && !this.#isDraining && !this.#isClosing,
      metrics: () => this.#metrics,
    });
    this.#sweep = createSweep(sweepInterval(timers));
    this.#adapter = createWebSocketAdapter({
      maxPayload: Math.min(
        Math.max(limits.maxMessageSize, limits.maxHandshakeSize) + FRAME_HEAD_ROOM,
        2 ** 31 - 1,
      ),
      maxFragments: Number.isFinite(limits.maxFragments) ? limits.maxFragments : 0,
      closeTimeoutMs: Math.min(timers.closingTimeoutMs, 2 ** 31 - 1),
    });
    const { agents, logger } = this.options;
    if (agents !== undefined) {
      this.#directory = new Directory({
        onConflict: agents.onConflict ?? 'takeOver',
        mayList: (from, to) => policy.mayList(from, to),
        limits,
        logger,
      });
      const policy = new Policy(agents, this.#directory, logger);
      this.#relay = new Relay(this.#directory, policy, logger);
    }
    if (this.options.authenticate === undefined) {
      this.options.logger.warn(
        { event: 'server.unauthenticated' },
        'no authenticate option: only loopback peers are served, each as a principal of its own',
      );
    }
  }

  get sessions(): ReadonlyMap<string, Session> {
    return this.#sessions;
  }

  relayStats(): RelayStats {
    return { forwarded: 0, recoded: 0, refused: 0, unknown: 0, ...this.#relay?.stats };
  }

  async listen(options: ListenOptions = {}): Promise<Listening> {
    if (this.#listener !== undefined)
      throw new ProtocolError('invalid_argument', 'the server listens already');
    await this.#load();
    const { path, timers, logger, metricsPath } = this.options;
    const listener = await openListener(options, timers.helloTimeoutMs, (request, response) => {
      const metrics = this.#metricsListener === undefined ? metricsPath : undefined;
      if (this.#status.respond(request, response, metrics)) return;
      response.writeHead(426, { 'content-type': 'text/plain; charset=utf-8', upgrade: 'websocket' });
      response.end(`This is a Parlance session server. Connect with a WebSocket to ${path}.\n`);
    });
    this.#listener = listener;
    this.#attach(listener.http, true);
    const { port, host, authority } = listener;
    logger.info({ event: 'server.listening', host, port, path }, 'listening');
    return { port, host, url: `ws://${authority}${path}` };
  }

  attach(server: HttpServer): () => void {
    // Whoever connects before this has finished waits for it: see the endpoint.
    this.#load().catch((error: unknown) =>
      this.options.logger.error(
        { event: 'server.failed', err: loggable(error) },
        'loading vocabularies failed',
      ),
    );
    return this.#attach(server, false);
  }

  async listenMetrics(options: ListenOptions = {}): Promise<Listening> {
    const { metricsPath = '/metrics', timers, logger } = this.options;
    if (this.#metricsListener !== undefined)
      throw new ProtocolError('invalid_argument', 'the metrics have a port already');
    await this.#loadMetrics();
    const listener = await openListener(options, timers.helloTimeoutMs, (request, response) => {
      if (this.#status.respond(request, response, metricsPath)) return;
      response.writeHead(404, { 'content-type': 'text/plain; charset=utf-8' });
      response.end(`There is nothing here; metrics are at ${metricsPath}.\n`);
    });
    this.#metricsListener = listener;
    const { port, host, authority } = listener;
    logger.info({ event: 'metrics.listening', host, port, path: metricsPath }, 'metrics are served');
    return { port, host, url: `http://${authority}${metricsPath}` };
  }

  respond(request: IncomingMessage, response: ServerResponse): boolean {
    return this.#status.respond(request, response, this.options.metricsPath);
  }

  drain(options: DrainOptions = {}): Promise<DrainResult> {
    if (this.#drained !== undefined) return this.#drained;
    const { timeoutMs, returnWithinMs, releasePort } = resolveDrainOptions(options);
    const { logger } = this.options;
    const sessions = this.#sessions.size;
    logger.info({ event: 'server.draining', sessions, timeoutMs, returnWithinMs }, 'draining');
    this.#returnWithinMs = returnWithinMs;
    this.#drain = new Drain(this.#sessions, returnWithinMs, Date.now() + timeoutMs);
    if (releasePort) this.#stopListening();
    this.#drained = this.#drain.run(timeoutMs).then((result) => {
      this.#stopListening();
      logger.info({ event: 'server.drained', ...result }, 'drained');
      return result;
    });
    return this.#drained;
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    const closed = this.#stopListening();
    await Promise.all(
      [...this.#connections].map((session) =>
        session.hasWire
          ? session.shutdown(CloseReason.SERVER_SHUTDOWN, 'the server closes')
          : this.onWireLost(session),
      ),
    );
    for (const listener of [this.#listener, this.#metricsListener]) listener?.http.closeAllConnections();
    await closed;
    if (this.#metricsListener !== undefined) await closeListener(this.#metricsListener.http);
    this.#listener = undefined;
    this.#metricsListener = undefined;
    this.#forgetting?.();
    this.#sweep.stop();
    this.options.logger.info({ event: 'server.closed' }, 'closed');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  // --- as the host of connections

  admit(address: string, principal: string | undefined): Refusal | undefined {
    if (this.#isClosing || this.#isDraining) {
      return {
        code: 'SERVER_BUSY',
        message: 'the server shuts down',
        closeCode: CloseCode.DRAINING,
        retryAfterMs: returnDelay(this.#returnWithinMs),
      };
    }
    return this.#quotas.admit(address, principal, systemClock.now());
  }

  release(address: string, principal: string | undefined): void {
    this.#quotas.release(address, principal);
  }

  find(sessionId: string): Endpoint | undefined {
    return this.#sessions.get(sessionId);
  }

  routeOf(session: () => Endpoint): EventRoute | undefined {
    const relay = this.#relay;
    return relay && { take: (event) => relay.take(session(), event) };
  }

  claim(session: Endpoint, { extensions }: HelloPayload): Refusal | undefined {
    return this.#directory?.claim(session, extensions);
  }

  onReady(session: Endpoint): void {
    this.#handshakes.delete(session);
    this.#metrics?.handleAccepted(false);
    this.#sessions.set(session.id, session);
    this.#directory?.join(session);
    if (session.hasEnded) return;
    const { onSession, logger } = this.options;
    if (onSession === undefined) return;
    Promise.resolve()
      .then(() => onSession(session))
      .catch((error: unknown) => {
        // A reader that ends because its session has ended is no fault of anybody.
        if (session.state === 'closed') return;
        const fields = { event: 'session.failed', session: session.id, err: loggable(error) };
        logger.error(fields, 'onSession failed, the session is closed');
        session.abort(new ProtocolError('internal', 'the server failed', { cause: error }));
      });
  }

  onWireLost(session: Endpoint): void {
    // Nobody can come back to a server that takes no more connections.
    if (this.#isClosing) session.abort(new ProtocolError('draining', 'the server closes'));
  }

  onTakenUp(_session: Endpoint, own: Endpoint): void {
    this.#metrics?.handleAccepted(true);
    this.#forget(own);
  }

  onRefused(refusal: Refusal): void {
    this.#metrics?.handleRefused(refusal);
  }

  onEnded(session: Endpoint, error: ProtocolError | undefined): void {
    const isEstablished = this.#sessions.get(session.id) === session;
    this.#forget(session);
    if (!isEstablished) return;
    this.#sessions.delete(session.id);
    const reason = error?.code ?? 'closed';
    this.#metrics?.handleEnded(reason);
    this.options.logger.info({ event: 'session.ended', session: session.id, reason }, 'session ended');
    this.#drain?.handleEnded();
  }

  /** What a connection leaves behind is what it has sent and received. */
  #forget(session: Endpoint): void {
    this.#handshakes.delete(session);
    this.#connections.delete(session);
    this.#sweep.delete(session);
    this.#totals.add(session.stats());
    this.#directory?.leave(session);
    this.#relay?.handleEnded(session);
  }

  get #isDraining(): boolean {
    return this.#drain !== undefined;
  }

  // --- upgrades

  #attach(server: HttpServer, ownsServer: boolean): () => void {
    const onUpgrade = (request: IncomingMessage, socket: Duplex, head: Buffer) =>
      this.#handleUpgrade(request, socket, head, ownsServer);
    server.on('upgrade', onUpgrade);
    const detach = () => {
      server.off('upgrade', onUpgrade);
      this.#attached.delete(detach);
    };
    this.#attached.add(detach);
    return detach;
  }

  #handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer, ownsServer: boolean): void {
    if (pathOf(request) !== this.options.path) {
      // Another path of somebody else's server is somebody else's business.
      if (ownsServer)
        refuseUpgrade(socket, 404, `There is nothing here; sessions are at ${this.options.path}.`);
      return;
    }
    const subprotocol = chooseSubprotocol(request.headers['sec-websocket-protocol']);
    if (subprotocol === undefined) {
      refuseUpgrade(
        socket,
        400,
        `Offer one of the subprotocols ${Subprotocol.BINARY} and ${Subprotocol.JSON}.`,
      );
      return;
    }
    const { origins, trustedProxies } = this.options;
    if (trustedProxies.isEmpty && isForwarded(request)) this.#warnOfProxy();
    const ip = clientAddress(request, trustedProxies);
    const address = addressKey(ip);
    const banMs = this.#quotas.banMs(address, systemClock.now());
    if (banMs > 0) {
      refuseUpgrade(socket, 429, 'Too many new sessions from this address.', banMs);
      return;
    }
    const refusal = checkHost(request, origins) ?? checkOrigin(request, origins);
    this.#adapter.upgrade(request, socket, head, subprotocol, (wire) => {
      const session = serveConnection(this, wire, { ip, request }, subprotocol, refusal);
      if (session.state === 'closed') return;
      this.#connections.add(session);
      this.#sweep.add(session);
      const oldest = this.#handshakes.add(session, address);
      oldest?.abort(new ProtocolError('rate_limited', 'too many handshakes at a time from this address'));
    });
  }

  /** Behind a proxy that nobody told of, all clients have one address, and its limits between them. */
  #warnOfProxy(): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    this.options.logger.warn(
      { event: 'server.proxied' },
      'X-Forwarded-For is not believed: list the proxy in trustedProxies if it is yours',
    );
  }

  /** Takes no new connections; those that are open go on. */
  #stopListening(): Promise<void> {
    for (const detach of this.#attached) detach();
    const http = this.#listener?.http;
    return http?.listening ? closeListener(http) : Promise.resolve();
  }

  #load(): Promise<void> {
    if (this.#loading === undefined) {
      this.#loading = this.#loadAll();
      // What could not be loaded may be there the next time.
      this.#loading.catch(() => {
        this.#loading = undefined;
      });
    }
    return this.#loading;
  }

  async #loadAll(): Promise<void> {
    const { capabilities, metricsPath, tracing } = this.options;
    const { algorithms, encodings, extensions } = capabilities;
    const codecs: LoadableCodec[] = [...algorithms];
    if (extensions[Extension.CONTEXT] !== undefined) codecs.push('CONTEXT');
    await Promise.all([
      loadCodecs(codecs),
      ...encodings.map((name) => loadEncoding(name)),
      metricsPath === undefined ? undefined : this.#loadMetrics(),
      tracing
        ? loadTracing().then((loaded) => {
            this.#tracing = loaded;
          })
        : undefined,
    ]);
    this.#isLoaded = true;
    const forget = setInterval(() => this.#quotas.sweep(systemClock.now()), FORGET_INTERVAL_MS).unref();
    this.#forgetting = () => clearInterval(forget);
  }

  /** The metrics library is only read where somebody wants metrics. */
  async #loadMetrics(): Promise<void> {
    if (this.#metrics !== undefined) return;
    const { createMetrics } = await import('./metrics.js');
    const server = this;
    this.#metrics ??= createMetrics({
      get isDraining() {
        return server.#isDraining;
      },
      get connections() {
        return [...server.#connections].filter(({ hasWire }) => hasWire).length;
      },
      sessions: () => this.#sessions.values(),
      totals: () => this.#totals.with([...this.#connections].map((session) => session.stats())),
    });
  }
}
