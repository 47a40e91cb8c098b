import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import {
  CloseCode,
  CloseReason,
  Extension,
  type HelloPayload,
  type LoadableCodec,
  loadCodecs,
  loadEncoding,
  ProtocolError,
  type RequestHandler,
  type Session,
  type SessionOptions,
  Subprotocol,
} from '@parlance/protocol';
import {
  AgreementCache,
  attempt,
  createSweep,
  type EventRoute,
  guardLater,
  loggable,
  MemoryBudget,
  sweepInterval,
  systemClock,
} from '@parlance/protocol/internal';
import type { Refusal } from './admission/admission.js';
import { Handshakes } from './admission/handshakes.js';
import { Quotas } from './admission/quotas.js';
import { Directory } from './agents/directory.js';
import { Policy } from './agents/policy.js';
import { Relay } from './agents/relay.js';
import type { RelayStats } from './agents/transit.js';
import type { Listening, Server } from './api.js';
import { Connection, type ConnectionHost, type Peer } from './connection.js';
import { Drain, type DrainOptions, type DrainResult, resolveDrainOptions, returnDelay } from './drain.js';
import type { ServerEndpoint } from './endpoint.js';
import { addressKey } from './http/addresses.js';
import { closeListener, type Listener, type ListenOptions, openListener } from './http/listener.js';
import { Upgrades } from './http/upgrade.js';
import type { ServerWire } from './http/ws.js';
import { LoopShares } from './loop-shares.js';
import type { Observed } from './observe/metrics.js';
import { Observation } from './observe/observation.js';
import { Totals } from './observe/totals.js';
import { resolveServerOptions, type ServerOptions } from './options.js';

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
/** How often suspended sessions are looked at that hold too much memory. */
const EVICT_INTERVAL_MS = 1_000;

class SessionServer implements Server, ConnectionHost {
  readonly options: ConnectionHost['options'];
  readonly #sessionOptions = new Map<Subprotocol, SessionOptions>();
  readonly #endpoints = new Map<string, ServerEndpoint>();
  /** The same sessions as their application holds them. */
  readonly sessions = new Map<string, Session>();
  /** Every connection, also those that are no session yet. */
  readonly #connections = new Set<ServerEndpoint>();
  readonly #upgrades: Upgrades;
  readonly #sweep;
  /** In place where sessions are authenticated: an agent ID that nobody proved names nobody. */
  readonly #directory: Directory | undefined;
  readonly #relay: Relay | undefined;
  readonly #quotas: Quotas;
  readonly #handshakes: Handshakes<ServerEndpoint>;
  readonly #totals = new Totals();
  readonly #observation: Observation;
  readonly onRequest: RequestHandler | undefined;
  readonly loop: LoopShares;
  /** What all sessions together hold. */
  readonly memory: MemoryBudget;
  #listener: Listener | undefined;
  #loading: Promise<void> | undefined;
  #isLoaded = false;
  #isClosing = false;
  #drain: Drain | undefined;
  #drained: Promise<DrainResult> | undefined;
  #returnWithinMs = 0;
  #forgetting: (() => void) | undefined;

  constructor(options: ServerOptions) {
    this.options = resolveServerOptions(options);
    const { limits, timers, onRequest, capabilities, avp, security } = this.options;
    const agreements = new AgreementCache();
    const { timeOrigin } = systemClock;
    for (const subprotocol of Object.values(Subprotocol)) {
      const shared = { capabilities, limits, timers, avp, security, agreements, timeOrigin };
      this.#sessionOptions.set(subprotocol, { role: 'server', subprotocol, ...shared });
    }
    this.#observation = new Observation(
      this.options,
      this.#observed(),
      () => this.#isLoaded && !this.#isDraining && !this.#isClosing,
    );
    this.onRequest = onRequest && this.#observation.instrument(onRequest);
    this.loop = new LoopShares({
      share: this.options.loopShare,
      now: () => systemClock.now(),
      soon: (task) => void setImmediate(task),
      after: (ms, task) => void systemClock.after(ms, task),
    });
    this.memory = new MemoryBudget(this.options.processMemory);
    this.#quotas = new Quotas(limits);
    this.#handshakes = new Handshakes(limits.handshakesPerIp, MAX_HANDSHAKES);
    this.#sweep = createSweep(sweepInterval(timers));
    this.#upgrades = new Upgrades({
      options: this.options,
      connect: (address) => this.#quotas.connect(address, systemClock.now()),
      onWire: (wire, peer, subprotocol, refusal) => this.#begin(wire, peer, subprotocol, refusal),
    });
    const { agents, logger } = this.options;
    if (agents !== undefined) {
      const policy = new Policy(agents, logger);
      const { onConflict = 'takeOver' } = agents;
      this.#directory = new Directory({ onConflict, policy, limits, clock: systemClock, logger });
      this.#relay = new Relay(this.#directory, policy, logger);
    }
    if (this.options.authenticate === undefined) {
      this.options.logger.warn(
        { event: 'server.unauthenticated' },
        'only clients on this machine are served, as nobody is authenticated',
      );
    }
  }

  relayStats(): RelayStats {
    return { forwarded: 0, recoded: 0, refused: 0, unknown: 0, ...this.#relay?.stats };
  }

  async listen(options: ListenOptions = {}): Promise<Listening> {
    if (this.#listener !== undefined)
      throw new ProtocolError('invalid_argument', 'the server listens already');
    if (this.#isClosing)
      throw new ProtocolError('invalid_argument', 'the server was closed; create another one');
    await this.#load();
    const { path, logger } = this.options;
    const listener = await openListener(options, this.options, (request, response) => {
      if (this.#observation.respondBeside(request, response)) return;
      response.writeHead(426, { 'content-type': 'text/plain; charset=utf-8', upgrade: 'websocket' });
      response.end(`This is a Parlance session server. Connect with a WebSocket to ${path}.\n`);
    });
    this.#listener = listener;
    this.#upgrades.attach(listener.http, true);
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
    return this.#upgrades.attach(server, false);
  }

  listenMetrics(options: ListenOptions = {}): Promise<Listening> {
    return this.#observation.listen(options);
  }

  respond(request: IncomingMessage, response: ServerResponse): boolean {
    return this.#observation.respond(request, response);
  }

  drain(options: DrainOptions = {}): Promise<DrainResult> {
    if (this.#drained !== undefined) return this.#drained;
    const { timeoutMs, returnWithinMs, releasePort } = resolveDrainOptions(options);
    const { logger } = this.options;
    const sessions = this.#endpoints.size;
    logger.info({ event: 'server.draining', sessions, timeoutMs, returnWithinMs }, 'draining');
    this.#returnWithinMs = returnWithinMs;
    this.#drain = new Drain(this.#endpoints, returnWithinMs, Date.now() + timeoutMs);
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
    this.#listener?.http.closeAllConnections();
    await closed;
    await this.#observation.close();
    this.#listener = undefined;
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

  onHello(session: ServerEndpoint): void {
    this.#handshakes.handleHello(session);
  }

  checkAttempt(address: string, isNew: boolean): Refusal | undefined {
    return this.#quotas.checkAttempt(address, isNew, systemClock.now());
  }

  onFailure(address: string): void {
    this.#quotas.fail(address, systemClock.now());
  }

  release(address: string, principal: string | undefined): void {
    this.#quotas.release(address, principal);
  }

  sessionOptions(subprotocol: Subprotocol): SessionOptions {
    return this.#sessionOptions.get(subprotocol) as SessionOptions;
  }

  find(sessionId: string): ServerEndpoint | undefined {
    return this.#endpoints.get(sessionId);
  }

  routeOf(session: ServerEndpoint): EventRoute | undefined {
    const relay = this.#relay;
    if (relay === undefined) return undefined;
    return {
      take: (event, reservation) => relay.take(session, event, reservation),
      memoryOf: (event) => relay.memoryOf(session, event),
      refuse: (streamId, error) => relay.refuse(session, streamId, error),
      isRelayed: (streamId) => relay.isRelayed(session, streamId),
    };
  }

  claim(session: ServerEndpoint, { extensions }: HelloPayload): Refusal | undefined {
    return this.#directory?.claim(session, extensions);
  }

  onReady(session: ServerEndpoint): void {
    this.#handshakes.delete(session);
    this.#observation.metrics?.handleAccepted(false);
    this.#endpoints.set(session.id, session);
    this.sessions.set(session.id, session.session);
    this.#directory?.join(session);
    if (session.hasEnded) return;
    if (this.options.onSession !== undefined)
      guardLater(session, this.#serve(session, this.options.onSession));
  }

  /** Whoever is told of a session is so behind everything that its connection has to say about it. */
  async #serve(session: ServerEndpoint, onSession: NonNullable<ServerOptions['onSession']>): Promise<void> {
    await undefined;
    try {
      await onSession(session.session);
    } catch (error) {
      // A reader that ends because its session has ended is no fault of anybody.
      if (session.state === 'closed') return;
      const fields = { event: 'session.failed', session: session.id, err: loggable(error) };
      // A message that cannot be decoded is its sender's fault.
      if (session.blames(error)) {
        this.options.logger.warn(fields, 'a message cannot be decoded, the session is closed');
        return session.abort(error);
      }
      this.options.logger.error(fields, 'onSession failed, the session is closed');
      session.abort(new ProtocolError('internal', 'the server failed', { cause: error }));
    }
  }

  onWireLost(session: ServerEndpoint): void {
    // Nobody can come back to a server that takes no more connections.
    if (this.#isClosing) session.abort(new ProtocolError('draining', 'the server closes'));
  }

  onTakenUp(_session: ServerEndpoint, own: ServerEndpoint): void {
    this.#observation.metrics?.handleAccepted(true);
    this.#forget(own);
  }

  onRefused(refusal: Refusal): void {
    this.#observation.metrics?.handleRefused(refusal);
  }

  onEnded(session: ServerEndpoint, error: ProtocolError | undefined): void {
    const isEstablished = this.#endpoints.get(session.id) === session;
    this.#forget(session);
    if (!isEstablished) return;
    this.#endpoints.delete(session.id);
    this.sessions.delete(session.id);
    const reason = error?.code ?? 'closed';
    this.#observation.metrics?.handleEnded(reason);
    const fields = { event: 'session.ended', session: session.id, reason };
    const { unknownMessages } = session.core;
    this.options.logger.info(
      unknownMessages === 0 ? fields : { ...fields, unknownMessages },
      'session ended',
    );
    this.#drain?.handleEnded();
  }

  /** What a connection leaves behind is what it has sent and received. */
  #forget(session: ServerEndpoint): void {
    this.#handshakes.delete(session);
    this.#connections.delete(session);
    this.#sweep.delete(session);
    // A fault in one of these must not leave the session in the others.
    const steps = [
      () => this.#totals.add(session.stats()),
      () => this.#directory?.leave(session),
      () => this.#relay?.handleEnded(session),
    ];
    for (const step of steps) {
      const failed = attempt(step);
      if (failed !== undefined) session.crash(failed.error);
    }
  }

  get #isDraining(): boolean {
    return this.#drain !== undefined;
  }

  #begin(wire: ServerWire, peer: Peer, subprotocol: Subprotocol, refusal: Refusal | undefined): void {
    const { session } = new Connection(this, wire, peer, subprotocol, refusal);
    if (session.state === 'closed') return;
    this.#connections.add(session);
    this.#sweep.add(session);
    const evicted = this.#handshakes.add(session, addressKey(peer.ip));
    evicted?.abort(new ProtocolError('rate_limited', 'too many handshakes at a time from this address'));
  }

  /** Takes no new connections; those that are open go on. */
  #stopListening(): Promise<void> {
    this.#upgrades.detachAll();
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
    const { capabilities } = this.options;
    const { algorithms, encodings, extensions } = capabilities;
    const codecs: LoadableCodec[] = [...algorithms];
    if (extensions[Extension.CONTEXT] !== undefined) codecs.push('CONTEXT');
    await Promise.all([
      loadCodecs(codecs),
      ...encodings.map((name) => loadEncoding(name)),
      this.#observation.load(),
    ]);
    this.#isLoaded = true;
    const forget = setInterval(
      () => this.#tidy(() => this.#quotas.sweep(systemClock.now())),
      FORGET_INTERVAL_MS,
    );
    const evict = setInterval(
      () => this.#tidy(() => this.memory.sweep(systemClock.now())),
      EVICT_INTERVAL_MS,
    );
    for (const timer of [forget, evict]) timer.unref();
    this.#forgetting = () => {
      clearInterval(forget);
      clearInterval(evict);
    };
  }

  #tidy(task: () => void): void {
    const failed = attempt(task);
    if (failed === undefined) return;
    const fields = { event: 'server.failed', err: loggable(failed.error) };
    this.options.logger.error(fields, 'a task of the server failed');
  }

  /** What the metrics look at when somebody asks. */
  #observed(): Observed {
    const isDraining = () => this.#isDraining;
    const connections = this.#connections;
    return {
      get isDraining() {
        return isDraining();
      },
      get connections() {
        return [...connections].filter(({ hasWire }) => hasWire).length;
      },
      sessions: () => this.#endpoints.values(),
      totals: () => this.#totals.with([...connections].map((session) => session.stats())),
    };
  }
}
