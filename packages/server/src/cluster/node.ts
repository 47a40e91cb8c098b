import type { Logger } from '@parlance/protocol';
import { newIncarnation, systemClock } from '@parlance/protocol/internal';
import { createLoopShares } from '../base/loop-shares.js';
import type { Engine } from '../engine/engine.js';
import type { LookupQuery, LookupResult } from '../session/admission/lookup.js';
import type { SessionHost } from '../session/host.js';
import type { Refusal } from '../transport/http/site.js';
import { webSocketOptions } from '../transport/http/upgrade.js';
import { inTurns } from '../transport/in-turns.js';
import type { Transport } from '../transport/transport.js';
import { createWebSocketAdapter } from '../transport/websocket/adapter.js';
import type { WebSocketAdapterOptions } from '../transport/websocket/ws.js';
import { type Dialing, dialingTo, nodeWebSocket } from './dialing.js';
import type { DurableSessions } from './durable-sessions.js';
import { dialLink } from './link/dial.js';
import { Links } from './link/links.js';
import { Pipes } from './link/pipes.js';
import { type KnownNode, Membership } from './membership.js';
import type { MovingHost } from './moves/departure.js';
import { Moves } from './moves/moves.js';
import { isSafe, type ResolvedNodeOptions } from './options.js';
import { PATHS, PeerPort, type PeerService } from './peer-port.js';
import { SessionProxies } from './proxies/session-proxies.js';
import type { ClusterService } from './service.js';
import { JOINING } from './service.js';
import { ServicePlaces } from './service-places.js';
import { Standing } from './standing.js';
import { digestOf, isProven, type Purpose, proveAddress, Tickets } from './ticket.js';

export interface ClusterHost {
  readonly server: SessionHost;
  /** The feature that records sessions; `undefined` if no session is recorded. */
  readonly recorded: DurableSessions | undefined;
  readonly moving: MovingHost;
}

/** This server as one node of a cluster. */
export class ClusterNode implements ClusterService {
  readonly incarnation = newIncarnation();
  readonly #host: ClusterHost;
  readonly #options: ResolvedNodeOptions;
  readonly #logger: Logger;
  readonly #webSocket: WebSocketAdapterOptions;
  readonly #tickets: Tickets;
  readonly #membership: Membership;
  readonly #proxies: SessionProxies;
  readonly #standing: Standing;
  /** The time that other nodes take. They have no share that ends: what they pass on is for clients, too. */
  readonly #loop = createLoopShares(1);
  readonly links: Links;
  readonly pipes: Pipes;
  readonly moves: Moves;
  /** Services for which other nodes may connect besides the connections of clients, by path. */
  readonly #services = new Map<string, PeerService>();
  #port: PeerPort | undefined;
  #isClosed = false;
  #starting: Promise<void> | undefined;

  constructor(host: ClusterHost, options: ResolvedNodeOptions) {
    const { incarnation } = this;
    const { engine, secrets } = options;
    this.#host = host;
    this.#options = options;
    const { server } = host;
    this.#logger = server.options.logger;
    this.#webSocket = webSocketOptions(server.options);
    this.#tickets = new Tickets({ secrets, incarnation, now: Date.now });
    this.#membership = new Membership({
      engine,
      incarnation,
      clock: systemClock,
      now: Date.now,
      logger: this.#logger,
      refusalOf: (node) => this.#refusalOf(node),
      onForgotten: () => this.moves.records.keepNow(),
      onLeaseOver: () => void this.#standing.check(),
    });
    this.#standing = new Standing({
      membership: this.#membership,
      dialing: (node) => this.#dialing(node, 'standing'),
      admits: () => this.recorded?.isStalled === false && server.admitAny() === undefined,
      onCutOff: () => this.recorded?.handleCutOff(),
      clock: systemClock,
      logger: this.#logger,
    });
    const way = {
      locate: (node: string) => this.locate(node),
      dialing: (node: KnownNode) => this.#dialing(node, 'link'),
    };
    this.links = new Links({
      incarnation,
      memory: server.memory,
      logger: this.#logger,
      isMember: (node) => this.isAlive(node),
      dial: (node, onOpen, onFailed) => void dialLink(node, way, onOpen, onFailed),
    });
    this.pipes = new Pipes(this);
    this.moves = new Moves({
      incarnation,
      engine,
      host: host.moving,
      memory: server.memory,
      limits: server.options.limits,
      timers: server.options.timers,
      logger: this.#logger,
      proxies: () => this.#proxies.all,
      isStalled: () => this.#membership.isStalled,
      nodes: () => this.#membership.others,
      links: this.links,
    });
    this.#proxies = new SessionProxies({
      host: server,
      incarnation,
      membership: this.#membership,
      moves: this.moves,
      recorded: () => this.recorded,
      isArriving: (sessionId) => this.#isArriving(sessionId),
      tickets: this.#tickets,
      webSocket: this.#webSocket,
      tls: options.tls,
      logger: this.#logger,
    });
  }

  // --- for parts that reach beyond one node

  get isStalled(): boolean {
    return this.#membership.isStalled;
  }
  get hasLease(): boolean {
    return this.#membership.hasLease;
  }
  get engine(): Engine {
    return this.#options.engine;
  }
  get recorded(): DurableSessions | undefined {
    return this.#host.recorded;
  }
  isAlive(incarnation: string): boolean {
    return this.#membership.isAlive(incarnation);
  }
  get others(): Iterable<string> {
    return [...this.#membership.others].map(({ incarnation }) => incarnation);
  }
  async locate(incarnation: string): Promise<KnownNode | undefined> {
    return this.#membership.get(incarnation) ?? (await this.#membership.find(incarnation));
  }
  async lives(incarnation: string): Promise<boolean> {
    return (await this.locate(incarnation)) !== undefined;
  }

  #serve(purpose: Purpose, onWire: PeerService['onWire']): void {
    const { limits } = this.#host.server.options;
    this.#services.set(PATHS[purpose], {
      adapter: createWebSocketAdapter(nodeWebSocket(this.#webSocket, limits)),
      places: new ServicePlaces(),
      accept: (ticket) => this.#tickets.acceptFor(purpose, ticket),
      onWire,
    });
  }

  /** How another node is reached for what is between nodes. */
  #dialing(node: KnownNode, purpose: Purpose): Dialing {
    const webSocket = nodeWebSocket(this.#webSocket, this.#host.server.options.limits);
    const ticket = this.#tickets.issueFor(purpose, node.incarnation);
    return dialingTo(node, PATHS[purpose], ticket, webSocket, this.#options.tls);
  }

  // --- as a feature

  /** The refusal of new sessions while other nodes do not know where they would be. */
  refuses(): Refusal | undefined {
    return this.#membership.isMember ? undefined : JOINING;
  }
  /** Its lease is over, and another node takes its recorded sessions. */
  get isCutOff(): boolean {
    return this.#standing.isCutOff;
  }
  /** Nodes that count as alive, this one included. */
  get nodes(): number {
    return this.#membership.size;
  }
  /** Connections whose sessions are at other nodes. */
  get proxied(): number {
    return this.#proxies.all.size;
  }

  lookup(wanted: LookupQuery): Promise<LookupResult> {
    return this.#proxies.lookup(wanted);
  }

  async begins(key: string, sessionId: string, over: string | undefined): Promise<string> {
    if (this.isStalled) return sessionId;
    try {
      return await this.moves.begins(key, sessionId, over);
    } catch {
      // The membership has logged that the engine does not answer. Other nodes do not know of the session then.
      return sessionId;
    }
  }

  #isArriving(sessionId: string): boolean {
    return this.moves.isArriving(sessionId) || this.recorded?.isUnderWay(sessionId) === true;
  }

  #inTurns(wire: Transport): Transport {
    return inTurns(wire, this.#loop, () => systemClock.now());
  }

  /**
   * Opens the port for other nodes and joins the cluster. An engine that cannot be reached is tried again meanwhile.
   *
   * @throws {ProtocolError} `connection_failed` if the port cannot be opened; `invalid_option`; `unsupported` if the engine
   * is unsuitable.
   */
  async start(): Promise<void> {
    this.#starting = this.#start();
    await this.#starting;
  }

  async #start(): Promise<void> {
    const { host, port, tls, advertise, secrets } = this.#options;
    const { server } = this.#host;
    const { timers } = server.options;
    this.#serve('link', (wire, source) => this.links.accept(this.#inTurns(wire), source));
    this.#serve('standing', (wire, source) => void this.#standing.answer(wire, source));
    const opened = await PeerPort.open({
      host,
      port,
      tls,
      timers,
      logger: this.#logger,
      adapter: createWebSocketAdapter(this.#webSocket),
      accept: (ticket) => this.#tickets.accept(ticket),
      services: this.#services,
      isArriving: (sessionId) => this.#isArriving(sessionId),
      hasSession: (id) => server.find(id) !== undefined || server.nonces.of(id) !== undefined,
      onWire: (wire, request, ticket) => {
        const { helloDigest, ip, subprotocol } = ticket;
        const proxied = { ...ticket, isFor: (hello: Uint8Array | string) => digestOf(hello) === helloDigest };
        server.begin(wire, { ip, request, proxied }, subprotocol, undefined);
      },
    });
    const address = advertise ?? opened.address;
    const { incarnation } = this;
    const [secret] = secrets;
    try {
      if (!this.#isClosed) await this.recorded?.prepare();
      if (!this.#isClosed)
        await this.#membership.start({
          address,
          proof: proveAddress(secret as Uint8Array, incarnation, address),
        });
    } catch (error) {
      await opened.close();
      throw error;
    }
    // The server was closed meanwhile.
    if (this.#isClosed) return await opened.close();
    this.#port = opened;
    this.#logger.info({ event: 'node.listening', node: incarnation, address }, 'listening for other nodes');
  }

  tick(): void {
    this.#tickets.sweep();
    this.links.handleTick();
    this.moves.records.handleTick();
    this.#proxies.handleTick();
  }

  /**
   * Sessions go to other nodes from now on, if there are any that take them. Never rejects.
   *
   * @param deadline Unix milliseconds.
   */
  async drain(deadline: number): Promise<void> {
    this.#proxies.leave();
    await this.#membership.announceDraining();
    this.moves.start(deadline);
  }

  /** From now on no session goes or comes, and no connection is proxied. */
  async leave(): Promise<void> {
    this.#proxies.leave();
    await this.moves.close();
  }

  /** Leaves the cluster and closes the port. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([this.links.close(), this.#membership.stop()]);
    // Without its connections to the engine, a start that is under way ends.
    await this.#starting?.catch(() => {});
    await this.#port?.close();
    this.#port = undefined;
  }

  #refusalOf({ incarnation, address, proof }: KnownNode): string | undefined {
    const { secrets, isInsecure } = this.#options;
    if (!isProven(secrets, incarnation, address, proof)) return 'is not signed with a secret of this cluster';
    if (isSafe(address, isInsecure)) return undefined;
    return 'has an address that is neither wss: nor on this machine';
  }
}
