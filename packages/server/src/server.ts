import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import {
  CloseReason,
  type HelloPayload,
  ProtocolError,
  type RequestHandler,
  type SessionOptions,
  type Subprotocol,
} from '@parlance/protocol';
import { createSweep, guard, MemoryBudget, sweepInterval, systemClock } from '@parlance/protocol/internal';
import type { Refusal } from './admission/admission.js';
import { warnIfLocal } from './admission/authentication.js';
import { Handshakes, MAX_HANDSHAKES, MAX_PASSED } from './admission/handshakes.js';
import { ServerAdmission } from './admission/server-admission.js';
import { AGENTS } from './agents/feature.js';
import type { Listening, Server } from './api.js';
import { durableFigures, nodeFigures } from './cluster/figures.js';
import { isReadyIn, joinCluster } from './cluster/join.js';
import type { ClusterNode } from './cluster/node.js';
import { Connection } from './connection.js';
import { Drain } from './drain.js';
import { type DrainOptions, type DrainResult, resolveDrainOptions } from './drain-options.js';
import type { TakingHost } from './durable/take-over.js';
import type { ServerEndpoint } from './endpoint.js';
import { addressKey } from './http/addresses.js';
import type { ListenOptions } from './http/listener.js';
import { closedError } from './http/port.js';
import { type Peer, Upgrades } from './http/upgrade.js';
import type { ServerWire } from './http/ws.js';
import { loadCapabilities } from './load-codecs.js';
import { createLoopShares, type LoopShares } from './loop-shares.js';
import type { ServerObserver } from './observe/observer.js';
import { StatusPages } from './observe/status.js';
import { startOnSession } from './on-session.js';
import type { ResolvedServerOptions } from './options.js';
import { type Feature, METER, NODE } from './parts/part.js';
import { Parts, type ServerOfParts } from './parts/parts.js';
import { KEPT_REPLIES } from './replies/feature.js';
import { RestoredSession, type RestoringHost } from './restored-session.js';
import type { ServerSession } from './served-session.js';
import { choresOf, ServerLoading } from './server-loading.js';
import { ServerPorts } from './server-ports.js';
import { OfferedOptions } from './session-options.js';

/** What applications call by names of their own. */
type OwnMembers = 'group' | 'relayStats' | 'admin' | 'listenMetrics';

/** Admits connections, and has the sessions that begin on them. Everything else is done by its parts. */
export class SessionServer
  extends ServerAdmission
  implements Omit<Server, OwnMembers>, RestoringHost, TakingHost
{
  readonly options: ResolvedServerOptions;
  readonly parts: Parts;
  readonly #offered: OfferedOptions;
  readonly #endpoints = new Map<string, ServerEndpoint>();
  readonly sessions = new Map<string, ServerSession>();
  /** The sessions that began on each connection, including those that are not established yet. */
  readonly #connections = new Set<ServerEndpoint>();
  readonly #upgrades: Upgrades;
  readonly #sweep;
  readonly #handshakes: Handshakes<ServerEndpoint>;
  readonly #pages: StatusPages;
  readonly #meter;
  readonly onRequest: RequestHandler | undefined;
  readonly loop: LoopShares;
  readonly memory: MemoryBudget;
  readonly leader: ClusterNode | undefined;
  readonly #ports: ServerPorts;
  readonly #loading: ServerLoading;
  #drain: Drain | undefined;
  #drained: Promise<DrainResult> | undefined;
  #closed: Promise<void> | undefined;

  /** @throws {ProtocolError} `invalid_option`. */
  constructor(options: ResolvedServerOptions, features: readonly Feature[]) {
    const { limits, timers, onRequest, logger } = options;
    super(limits);
    this.options = options;
    this.loop = createLoopShares(options.loopShare);
    this.memory = new MemoryBudget(options.processMemory);
    this.#handshakes = new Handshakes(limits.handshakesPerIp, MAX_HANDSHAKES);
    this.parts = new Parts(features, this.#partHost(), logger);
    this.#offered = new OfferedOptions(options, this.parts);
    this.#meter = this.parts.use(METER);
    this.onRequest = onRequest && this.parts.wrap(onRequest);
    const agents = this.parts.use(AGENTS);
    this.leader = joinCluster({
      options: this.options,
      memory: this.memory,
      quotas: this.quotas,
      refusal: () => this.admitPassed(),
      find: (sessionId) => this.find(sessionId),
      taking: this,
      moving: {
        sessions: this.#endpoints,
        parts: this.parts,
        run: (session) => this.#run(session),
        restore: (bytes, sessionId, lead) => RestoredSession.of(this, bytes, sessionId, lead),
      },
      onPassed: (wire, request, ticket) =>
        this.#begin(wire, { ip: ticket.ip, request, ticket }, ticket.subprotocol, undefined),
    });
    const replies = this.parts.use(KEPT_REPLIES);
    if (replies !== undefined) this.leader?.serveReplies(replies);
    if (agents !== undefined) this.leader?.relay(agents, (sessionId) => this.find(sessionId));
    if (this.leader !== undefined) {
      this.parts.provide(NODE, this.leader);
      this.parts.figures.push(...nodeFigures(this.leader), ...durableFigures(this.#endpoints, options.feed));
    }
    this.#loading = new ServerLoading(
      () => this.#load(),
      choresOf(this.quotas, this.memory, this.parts),
      logger,
    );
    this.#pages = new StatusPages({
      isReady: () => this.#loading.isLoaded && isReadyIn(this.leader) && this.admitPassed() === undefined,
      pageAt: (path, port) => this.parts.pageAt(path, port),
      site: options,
      logger,
    });
    this.#sweep = createSweep(sweepInterval(timers));
    this.#upgrades = new Upgrades({
      options: this.options,
      connect: (address) => this.connect(address),
      retryElsewhere: () => (this.leader?.moves.hasTargets ? this.admitPassed()?.retryAfterMs : undefined),
      onWire: (wire, peer, subprotocol, refusal) => this.#begin(wire, peer, subprotocol, refusal),
    });
    this.#ports = new ServerPorts({
      options: this.options,
      upgrades: this.#upgrades,
      pages: this.#pages,
      load: () => this.#loading.load().then(() => this.assertOpen()),
    });
    warnIfLocal(this.options);
  }

  #partHost(): ServerOfParts {
    const { options, memory } = this;
    const drainProgress = () => this.#drain?.progress;
    return {
      options,
      memory,
      sessions: this.#endpoints,
      connections: this.#connections,
      get drainProgress() {
        return drainProgress();
      },
      drain: (given) => this.drain(given),
      finishDrain: () => this.#drain?.finish(),
      find: (sessionId) => this.find(sessionId),
      settled: () => this.#drain?.handleEnded(),
      respond: (request, response, port) => this.#pages.respond(request, response, port),
    };
  }

  async listen(options: ListenOptions = {}): Promise<Listening> {
    this.assertOpen();
    return await this.#ports.listen(options);
  }

  attach(server: HttpServer): () => void {
    this.assertOpen();
    const detach = this.#upgrades.attach(server);
    // A client that connects before this has finished waits for it: see the endpoint.
    this.#loading.loadLater();
    return detach;
  }

  respond(request: IncomingMessage, response: ServerResponse): boolean {
    return this.#pages.respond(request, response, 'application');
  }

  drain(options: DrainOptions = {}): Promise<DrainResult> {
    if (this.#drained !== undefined) return this.#drained;
    const { timeoutMs, returnWithinMs, releasePort } = resolveDrainOptions(options);
    const { logger } = this.options;
    const sessions = this.#endpoints.size;
    logger.info({ event: 'server.draining', sessions, timeoutMs, returnWithinMs }, 'draining');
    this.returnWithinMs = returnWithinMs;
    const deadline = Date.now() + timeoutMs;
    const { drains } = this.parts;
    this.#drain = new Drain(this.#endpoints, drains, returnWithinMs, deadline, this.leader?.moves);
    const isAnnounced = this.leader?.drain(deadline, returnWithinMs);
    if (releasePort) this.#stopListening();
    this.#drained = this.#drain.run(timeoutMs, isAnnounced).then((result) => {
      this.#stopListening();
      logger.info({ event: 'server.drained', ...result }, 'drained');
      return result;
    });
    return this.#drained;
  }

  close(): Promise<void> {
    this.isClosing = true;
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    const closed = this.#stopListening();
    await this.leader?.stop();
    await Promise.all([...this.#connections].map((session) => this.#closeConnection(session)));
    await this.parts.close(closing());
    this.#ports.closeConnections();
    await closed;
    await this.leader?.close();
    // What is being opened or loaded is given up.
    await this.#ports.close();
    await this.#loading.stop();
    this.#sweep.stop();
    this.options.logger.info({ event: 'server.closed' }, 'closed');
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  // --- as the host of connections

  onHello(session: ServerEndpoint): void {
    session.helloAt = systemClock.now();
    this.#handshakes.handleHello(session);
  }

  sessionOptions(subprotocol: Subprotocol): SessionOptions {
    return this.#offered.of(subprotocol);
  }

  find(sessionId: string): ServerEndpoint | undefined {
    return this.#endpoints.get(sessionId);
  }

  onReady(session: ServerEndpoint): void {
    this.#handshakes.delete(session);
    this.#establish(session, () => this.parts.ready(session));
  }

  onRestored(session: ServerEndpoint, begin: () => void): void {
    this.#connections.add(session);
    this.#sweep.add(session);
    this.#establish(session, begin);
  }

  onTakenOver(session: ServerEndpoint, hello: HelloPayload): void {
    this.onRestored(session, () => this.parts.takenOver(session, hello));
  }

  #establish(session: ServerEndpoint, join: () => void): void {
    this.#endpoints.set(session.id, session);
    this.sessions.set(session.id, session.session);
    guard(session, join);
    if (!session.hasEnded) this.#run(session);
  }

  #run(session: ServerEndpoint): void {
    const { onSession, logger } = this.options;
    if (onSession !== undefined) startOnSession(session, onSession, logger);
  }

  async #closeConnection(session: ServerEndpoint): Promise<void> {
    if (!session.hasWire) this.onWireLost(session);
    // A client that waits for its session to be resumed would take another close code for the end of it.
    else if (session.core.state === 'connecting') session.abort(closing());
    else await session.shutdown(CloseReason.SERVER_SHUTDOWN, 'the server closes');
  }

  onWireLost(session: ServerEndpoint): void {
    session.lostAt = Date.now();
    // No client can resume on a server that accepts no more connections.
    if (this.isClosing && !session.isDurable) session.abort(closing());
    else this.#drain?.handleLost(session);
  }

  onResumed(session: ServerEndpoint, own: ServerEndpoint): void {
    this.parts.resumed(session);
    this.#forget(own, undefined);
  }

  readonly onLed = (own: ServerEndpoint): void => this.#forget(own, undefined);

  onEnded(session: ServerEndpoint, error: ProtocolError | undefined): void {
    this.#forget(session, error);
    if (this.#endpoints.get(session.id) !== session) return;
    this.#endpoints.delete(session.id);
    this.sessions.delete(session.id);
    const fields = { event: 'session.ended', session: session.id, reason: session.endOf(error) };
    const { unknownMessages } = session.core;
    this.options.logger.info(
      unknownMessages === 0 ? fields : { ...fields, unknownMessages },
      'session ended',
    );
    this.#drain?.handleEnded();
  }

  /** Drops the session that began on a connection. */
  #forget(session: ServerEndpoint, error: ProtocolError | undefined): void {
    this.#handshakes.delete(session);
    this.#connections.delete(session);
    this.#sweep.delete(session);
    this.parts.ended(session, error);
  }

  get observer(): ServerObserver | undefined {
    return this.#meter?.observer;
  }

  protected get isDraining(): boolean {
    return this.#drain !== undefined;
  }

  #begin(wire: ServerWire, peer: Peer, subprotocol: Subprotocol, refusal: Refusal | undefined): void {
    const { session } = new Connection(this, wire, peer, subprotocol, refusal);
    if (session.state === 'closed') return;
    this.#connections.add(session);
    this.#sweep.add(session);
    const { ip, ticket } = peer;
    const [key, most] = ticket === undefined ? [addressKey(ip)] : ['other nodes', MAX_PASSED];
    const evicted = this.#handshakes.add(session, key, most);
    if (evicted === undefined) return;
    this.observer?.handleLimited('handshakesPerIp');
    evicted.abort(new ProtocolError('rate_limited', 'too many handshakes at a time from this address'));
  }

  /** @throws {ProtocolError} `invalid_argument` if the server was closed. */
  protected assertOpen(): void {
    if (this.isClosing) throw closedError();
  }

  /** Accepts no new connections; open ones stay. */
  #stopListening(): Promise<void> {
    this.#upgrades.detachAll();
    return this.#ports.stopListening();
  }

  async #load(): Promise<void> {
    const { capabilities } = this.#offered;
    const [loaded] = await Promise.all([
      loadCapabilities(capabilities, this.options.logger),
      this.parts.start(),
      this.leader?.start(),
    ]);
    if (loaded !== capabilities) this.#offered.offer(loaded);
  }
}

const closing = (): ProtocolError => new ProtocolError('draining', 'the server closes');
