import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import {
  CloseReason,
  Extension,
  type HelloPayload,
  ProtocolError,
  type RequestHandler,
  type ResumeOffer,
  type SessionOptions,
  type Subprotocol,
} from '@parlance/protocol';
import {
  attempt,
  createSweep,
  type EventRoute,
  guard,
  MemoryBudget,
  sweepInterval,
  systemClock,
} from '@parlance/protocol/internal';
import type { Refusal } from './admission/admission.js';
import { warnIfLocal } from './admission/authentication.js';
import { Handshakes, MAX_HANDSHAKES, MAX_PASSED } from './admission/handshakes.js';
import { ServerAdmission } from './admission/server-admission.js';
import { createAgents } from './agents/create.js';
import type { Directory } from './agents/directory.js';
import type { AgentMoves } from './agents/moves.js';
import type { Relay } from './agents/relay.js';
import type { RelayStats } from './agents/transit.js';
import type { Listening, Server } from './api.js';
import { isReadyIn, joinCluster } from './cluster/join.js';
import type { ClusterNode } from './cluster/node.js';
import { Connection } from './connection.js';
import { Drain, type DrainOptions, type DrainResult, resolveDrainOptions } from './drain.js';
import type { TakingHost } from './durable/take-over.js';
import type { ServerEndpoint } from './endpoint.js';
import type { Group } from './groups/group.js';
import { Groups } from './groups/groups.js';
import { addressKey } from './http/addresses.js';
import type { ListenOptions } from './http/listener.js';
import { closedError } from './http/port.js';
import { type Peer, Upgrades } from './http/upgrade.js';
import type { ServerWire } from './http/ws.js';
import { loadCapabilities } from './load-codecs.js';
import { createLoopShares, type LoopShares } from './loop-shares.js';
import type { Metrics } from './observe/metrics.js';
import { Observation } from './observe/observation.js';
import { observedOf } from './observe/observed.js';
import { Totals } from './observe/totals.js';
import { startOnSession } from './on-session.js';
import { resolveServerOptions, type ServerOptions } from './options.js';
import { Replies } from './replies/replies.js';
import { RestoredSession, type RestoringHost } from './restored-session.js';
import type { ServerSession } from './served-session.js';
import { choresOf, ServerLoading } from './server-loading.js';
import { ServerPorts } from './server-ports.js';
import { OfferedOptions } from './session-options.js';
import { SessionRoute } from './session-route.js';

export class SessionServer extends ServerAdmission implements Server, RestoringHost, TakingHost {
  readonly options: RestoringHost['options'];
  readonly #offered: OfferedOptions;
  readonly #endpoints = new Map<string, ServerEndpoint>();
  readonly sessions = new Map<string, ServerSession>();
  /** The sessions that began on each connection, including those that are not established yet. */
  readonly #connections = new Set<ServerEndpoint>();
  readonly #upgrades: Upgrades;
  readonly #sweep;
  /** Exists only with `authenticate`: an unproved agent ID identifies no agent. */
  readonly #directory: Directory | undefined;
  readonly #relay: Relay | undefined;
  readonly #replies: Replies;
  readonly #handshakes: Handshakes<ServerEndpoint>;
  readonly #groups: Groups;
  readonly #totals = new Totals();
  readonly #observation: Observation;
  readonly onRequest: RequestHandler | undefined;
  readonly loop: LoopShares;
  readonly memory: MemoryBudget;
  readonly leader: ClusterNode | undefined;
  readonly agentMoves: AgentMoves | undefined;
  readonly #ports: ServerPorts;
  readonly #loading: ServerLoading;
  #drain: Drain | undefined;
  #drained: Promise<DrainResult> | undefined;
  #closed: Promise<void> | undefined;

  constructor(options: ServerOptions) {
    const resolved = resolveServerOptions(options);
    const { limits, timers, onRequest } = resolved;
    super(limits);
    this.options = resolved;
    this.#offered = new OfferedOptions(this.options);
    const onOver = () => this.#drain?.handleEnded();
    this.#groups = new Groups((sessionId) => this.find(sessionId), limits.maxMessageSize);
    this.#replies = new Replies({ options: this.options, now: Date.now, onOver });
    this.loop = createLoopShares(this.options.loopShare);
    this.memory = new MemoryBudget(this.options.processMemory);
    this.#handshakes = new Handshakes(limits.handshakesPerIp, MAX_HANDSHAKES);
    const agents = createAgents(this.options);
    this.agentMoves = agents?.moves;
    this.leader = joinCluster({
      options: this.options,
      memory: this.memory,
      quotas: this.quotas,
      refusal: () => this.admitPassed(),
      find: (sessionId) => this.find(sessionId),
      taking: this,
      moving: {
        sessions: this.#endpoints,
        agents: agents?.moves,
        run: (session) => this.#run(session),
        restore: (bytes, sessionId, lead) => RestoredSession.of(this, bytes, sessionId, lead),
      },
      onPassed: (wire, request, ticket) =>
        this.#begin(wire, { ip: ticket.ip, request, ticket }, ticket.subprotocol, undefined),
    });
    this.leader?.serveReplies(this.#replies);
    const observed = observedOf({
      isDraining: () => this.isDraining,
      connections: this.#connections,
      sessions: () => this.#endpoints.values(),
      replies: this.#replies,
      cluster: this.leader,
      totals: this.#totals,
      directory: agents?.directory,
      relayStats: () => this.relayStats(),
      limits,
    });
    const isReady = () =>
      this.#loading.isLoaded && isReadyIn(this.leader) && this.admitPassed() === undefined;
    const chores = choresOf(this.quotas, this.memory, this.#replies);
    this.#loading = new ServerLoading(() => this.#load(), chores, this.options.logger);
    this.#observation = new Observation(this.options, observed, isReady);
    this.onRequest = onRequest && this.#observation.instrument(this.#replies.keepChosen(onRequest));
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
      observation: this.#observation,
      load: () => this.#loading.load().then(() => this.#assertOpen()),
    });
    this.#directory = agents?.directory;
    this.#relay = agents?.relay;
    if (agents !== undefined) this.leader?.relay(agents, (sessionId) => this.find(sessionId));
    warnIfLocal(this.options);
  }

  relayStats(): RelayStats {
    return { forwarded: 0, recoded: 0, refused: 0, unknown: 0, ...this.#relay?.stats };
  }

  async listen(options: ListenOptions = {}): Promise<Listening> {
    this.#assertOpen();
    return await this.#ports.listen(options);
  }

  attach(server: HttpServer): () => void {
    this.#assertOpen();
    const detach = this.#upgrades.attach(server);
    // A client that connects before this has finished waits for it: see the endpoint.
    this.#loading.loadLater();
    return detach;
  }

  async listenMetrics(options: ListenOptions = {}): Promise<Listening> {
    this.#assertOpen();
    return await this.#observation.listen(options);
  }

  respond(request: IncomingMessage, response: ServerResponse): boolean {
    return this.#observation.respond(request, response);
  }

  get admin(): Listening | undefined {
    return this.#ports.admin;
  }

  group(name: string): Group {
    return this.#groups.named(name);
  }

  drain(options: DrainOptions = {}): Promise<DrainResult> {
    if (this.#drained !== undefined) return this.#drained;
    const { timeoutMs, returnWithinMs, releasePort } = resolveDrainOptions(options);
    const { logger } = this.options;
    const sessions = this.#endpoints.size;
    logger.info({ event: 'server.draining', sessions, timeoutMs, returnWithinMs }, 'draining');
    this.returnWithinMs = returnWithinMs;
    const deadline = Date.now() + timeoutMs;
    this.#drain = new Drain(this.#endpoints, this.#replies, returnWithinMs, deadline, this.leader?.moves);
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
    this.#replies.stopAll(closing());
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

  routeOf(session: ServerEndpoint): EventRoute | undefined {
    const relay = this.#relay;
    if (relay === undefined && session.negotiated.extensions[Extension.REPLIES] === undefined)
      return undefined;
    return new SessionRoute(session, this.#replies, relay);
  }

  get keeper(): Replies {
    return this.#replies;
  }

  adoptReplies(session: ServerEndpoint, resume: ResumeOffer): void {
    this.#replies.adopt(session, resume);
  }

  claim(session: ServerEndpoint, { extensions }: HelloPayload): Refusal | undefined {
    return this.#directory?.claim(session, extensions);
  }

  onReady(session: ServerEndpoint): void {
    this.#handshakes.delete(session);
    this.observer?.handleAccepted((systemClock.now() - session.helloAt) / 1000);
    this.#establish(session, () => this.#directory?.join(session));
  }

  onRestored(session: ServerEndpoint, adopt: () => void): void {
    this.#connections.add(session);
    this.#sweep.add(session);
    this.#establish(session, adopt);
  }

  onTakenOver(session: ServerEndpoint, { extensions }: HelloPayload): void {
    this.onRestored(session, () => this.agentMoves?.takeOver(session, extensions));
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
    const gapMs = session.hasWire ? 0 : Date.now() - session.lostAt;
    this.observer?.handleResumed(gapMs / 1000);
    this.#forget(own);
  }

  readonly onLed = (own: ServerEndpoint): void => this.#forget(own);

  onEnded(session: ServerEndpoint, error: ProtocolError | undefined): void {
    this.#forget(session);
    this.#replies.handleEnded(session, error);
    if (this.#endpoints.get(session.id) !== session) return;
    this.#endpoints.delete(session.id);
    this.sessions.delete(session.id);
    const reason = session.hasMoved ? 'moved' : (error?.code ?? 'closed');
    this.observer?.handleEnded(reason);
    const fields = { event: 'session.ended', session: session.id, reason };
    const { unknownMessages } = session.core;
    this.options.logger.info(
      unknownMessages === 0 ? fields : { ...fields, unknownMessages },
      'session ended',
    );
    this.#drain?.handleEnded();
  }

  /** Drops the session that began on a connection; what it has sent and received stays in the totals. */
  #forget(session: ServerEndpoint): void {
    this.#handshakes.delete(session);
    this.#connections.delete(session);
    this.#sweep.delete(session);
    // A fault in one of these steps must not leave the session in the others.
    const steps = [
      () => this.#totals.add(session),
      () => this.#groups.forget(session),
      () => this.#directory?.leave(session),
      () => this.#relay?.handleEnded(session),
    ];
    for (const step of steps) {
      const failed = attempt(step);
      if (failed !== undefined) session.crash(failed.error);
    }
  }

  get observer(): Metrics | undefined {
    return this.#observation.metrics;
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

  #assertOpen(): void {
    if (this.isClosing) throw closedError();
  }

  /** Accepts no new connections; open ones stay. */
  #stopListening(): Promise<void> {
    this.#upgrades.detachAll();
    return this.#ports.stopListening();
  }

  async #load(): Promise<void> {
    const { capabilities } = this.options;
    const [loaded] = await Promise.all([
      loadCapabilities(capabilities, this.options.logger),
      this.#openAdmin(),
      this.#observation.load(),
      this.leader?.start(),
    ]);
    if (loaded !== capabilities) this.#offered.offer(loaded);
  }

  async #openAdmin(): Promise<void> {
    const server = {
      options: this.options,
      sessions: () => this.#endpoints.values(),
      find: (sessionId: string) => this.find(sessionId),
      drainProgress: () => this.#drain?.progress,
      node: this.leader?.incarnation,
      drain: (options: DrainOptions) => this.drain(options),
      finishDrain: () => this.#drain?.finish(),
    };
    await this.#ports.openAdmin(server);
  }
}

const closing = (): ProtocolError => new ProtocolError('draining', 'the server closes');
