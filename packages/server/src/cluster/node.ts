import type { IncomingMessage } from 'node:http';
import type { Logger } from '@parlance/protocol';
import { newIncarnation, systemClock } from '@parlance/protocol/internal';
import type { Agents } from '../agents/create.js';
import { isAwaited } from '../durable/awaited.js';
import { Leaving } from '../durable/leaving.js';
import { Records, recordMsOf } from '../durable/records.js';
import { TakeOvers, type TakingHost } from '../durable/take-over.js';
import type { ServerEndpoint } from '../endpoint.js';
import { webSocketOptions } from '../http/upgrade.js';
import { createWebSocketAdapter, type ServerWire, type WebSocketAdapterOptions } from '../http/ws.js';
import { createLoopShares } from '../loop-shares.js';
import { repeat } from '../repeat.js';
import type { Replies, RepliesNode } from '../replies/replies.js';
import { SealedReplies } from '../seal/sealed-replies.js';
import { type Dialing, dialingTo } from './dialing.js';
import { inTurns } from './in-turns.js';
import type { Leader, LeadOutcome, LeadRequest } from './lead/leader.js';
import { Leading, type LeadingHost } from './lead/leading.js';
import { type KnownNode, Membership } from './membership.js';
import { Moves, type MovingHost } from './moves/moves.js';
import { isSafe, type ResolvedNodeOptions } from './options.js';
import { MOVE_PATH, PeerPort, type PeerService, RELAY_PATH, STANDING_PATH } from './peer-port.js';
import { ClusterMoves } from './relay/cluster-moves.js';
import { dialRelay, type RelayDialing } from './relay/relay-dial.js';
import { RelayPeers, relayWebSocket } from './relay/relay-peers.js';
import { RelayTraffic } from './relay/relay-wire.js';
import { Roster } from './roster.js';
import { MOVE_PLACES, SERVICE_PLACES, ServicePlaces } from './service-places.js';
import { Standing } from './standing.js';
import { isProven, proveAddress, type Ticket, Tickets } from './ticket.js';

export interface ClusterHost extends LeadingHost {
  /** For sessions that are taken over. */
  readonly taking: TakingHost;
  readonly moving: MovingHost;
  /** New clients are admitted, as far as this server alone decides that. */
  admits(): boolean;
  /** Another node passes a connection on. */
  onPassed(wire: ServerWire, request: IncomingMessage, ticket: Ticket): void;
}

const TICK_MS = 1_000;

/** This server as one node of a cluster. */
export class ClusterNode implements Leader {
  readonly incarnation = newIncarnation();
  readonly #host: ClusterHost;
  readonly #options: ResolvedNodeOptions;
  readonly #logger: Logger;
  readonly #webSocket: WebSocketAdapterOptions;
  readonly #tickets: Tickets;
  readonly #membership: Membership;
  readonly #leading: Leading;
  readonly #standing: Standing;
  /** The time that other nodes take. They have no share that ends: what they pass on is for clients, too. */
  readonly #loop = createLoopShares(1);
  readonly moves: Moves;
  readonly records: Records | undefined;
  readonly #takeOvers: TakeOvers | undefined;
  #relayed: { readonly peers: RelayPeers; readonly roster: Roster } | undefined;
  #replies: Replies | undefined;
  /** Of kept replies whose requesters have durable sessions. */
  #awaiting: Pick<RepliesNode, 'isAwaited' | 'awaitMs'> = {};
  #port: PeerPort | undefined;
  #isClosed = false;
  #starting: Promise<void> | undefined;
  #stopTicks: () => void = () => {};

  constructor(host: ClusterHost, options: ResolvedNodeOptions) {
    const { incarnation } = this;
    const { backplane, secrets } = options;
    this.#host = host;
    this.#options = options;
    this.#logger = host.options.logger;
    this.#webSocket = webSocketOptions(host.options);
    this.#tickets = new Tickets({ secrets, incarnation, now: Date.now });
    this.#membership = new Membership({
      backplane,
      incarnation,
      clock: systemClock,
      now: Date.now,
      logger: this.#logger,
      refusalOf: (node) => this.#refusalOf(node),
      onForgotten: () => this.moves.keepNow(),
      onLeaseOver: () => void this.#standing.check(),
    });
    const { durability, timers, logger, seal } = host.options;
    let leaving: Leaving | undefined;
    if (durability !== undefined) {
      const common = { incarnation, link: backplane.connect(), logger, seal, timers, clock: systemClock };
      const isStalled = () => this.#membership.isStalled;
      this.records = new Records({ ...common, durability, isStalled });
      const hasLease = () => this.#membership.hasLease;
      this.#takeOvers = new TakeOvers({ ...common, records: this.records, host: host.taking, hasLease });
      leaving = new Leaving({ ...common, ...host.moving });
      this.#awaiting = {
        awaitMs: timers.resumeWindowMs,
        isAwaited: (source, id) => isAwaited(common.link, seal, source, id),
      };
    }
    this.#standing = new Standing({
      membership: this.#membership,
      dialing: (node) => this.#dialing(node, STANDING_PATH, this.#tickets.issueStanding(node.incarnation)),
      admits: () => this.records?.isStalled === false && host.admits(),
      onCutOff: () => {
        if (durability?.degrades === false) leaving?.abandonAll();
      },
      clock: systemClock,
      logger: this.#logger,
    });
    this.moves = new Moves({
      leaving,
      incarnation,
      backplane,
      host: host.moving,
      memory: host.memory,
      limits: host.options.limits,
      timers: host.options.timers,
      logger: this.#logger,
      leads: () => this.#leading.leads,
      isStalled: () => this.#membership.isStalled,
      trySettle: () => this.#relayed?.peers.trySettle() !== false,
      nodes: () => this.#membership.others,
      dialing: (target) => this.#dialing(target, MOVE_PATH, this.#tickets.issueMove(target.incarnation)),
    });
    this.#leading = new Leading({
      host,
      incarnation,
      membership: this.#membership,
      moves: this.moves,
      takeOvers: this.#takeOvers,
      tickets: this.#tickets,
      webSocket: this.#webSocket,
      tls: options.tls,
      logger: this.#logger,
    });
  }

  /** How another node is reached for what is between nodes. */
  #dialing(node: KnownNode, path: string, ticket: string): Dialing {
    const webSocket = relayWebSocket(this.#webSocket, this.#host.options.limits);
    return dialingTo(node, path, ticket, webSocket, this.#options.tls);
  }

  /** Other nodes know of this one, and it knows their agents. */
  get isMember(): boolean {
    return this.#membership.isMember && this.#relayed?.roster.isReady !== false;
  }
  /** Its lease is over, and another node takes its durable sessions. */
  get isCutOff(): boolean {
    return this.#standing.isCutOff;
  }
  /** Nodes that count as alive, this one included. */
  get nodes(): number {
    return this.#membership.size;
  }
  /** Requests between agents of this node and of others that are not over. */
  get openRequests(): number {
    return this.#relayed?.peers.openRequests ?? 0;
  }
  /** Connections on which this node and others relay. */
  get relayLinks(): number {
    return this.#relayed?.peers.size ?? 0;
  }
  /** What went on all such connections. */
  get relayTraffic(): RelayTraffic {
    return this.#relayed?.peers.traffic ?? new RelayTraffic();
  }
  /** Connections that this node leads to others. */
  get led(): number {
    return this.#leading.leads.size;
  }
  /** Sessions that were taken over from nodes that have died. */
  get takenOver(): number {
    return this.#takeOvers?.count ?? 0;
  }

  /** Lets agents of this node and of others know and reach each other. Called before {@link start}. */
  relay(
    { directory, relay, moves }: Agents,
    findSession: (sessionId: string) => ServerEndpoint | undefined,
  ): void {
    const { options, memory } = this.#host;
    const { limits, logger, agents } = options;
    const membership = this.#membership;
    const isNodeAlive = (incarnation: string) => membership.isAlive(incarnation);
    const way: RelayDialing = {
      locate: async (node) => membership.get(node) ?? (await membership.find(node)),
      dialing: (node) => this.#dialing(node, RELAY_PATH, this.#tickets.issueRelay(node.incarnation)),
    };
    const peers: RelayPeers = new RelayPeers({
      incarnation: this.incarnation,
      options,
      memory,
      directory,
      relay,
      findSession,
      isNodeAlive,
      connect: (node, onOpen, onFailed) => void dialRelay(node, way, onOpen, onFailed),
    });
    const roster: Roster = new Roster({
      link: this.#options.backplane.connect(),
      incarnation: this.incarnation,
      directory,
      onConflict: agents?.onConflict ?? 'takeOver',
      limits,
      logger,
      now: () => systemClock.now(),
      isNodeAlive,
      targetOf: (node, agent) => peers.targetOf(node, agent),
      durableMs: recordMsOf(options.timers),
      targetAway: (agent) => peers.handleAway(agent),
      reroute: (target, node) => peers.reroute(target, node),
      forget: (target) => peers.forget(target),
    });
    moves.peers = new ClusterMoves(peers, roster);
    this.#relayed = { peers, roster };
  }

  /** Keeps replies in the engine, where all nodes read them. Called before {@link start}. */
  serveReplies(replies: Replies): void {
    const { backplane } = this.#options;
    const { seal } = this.#host.options;
    const engine = backplane.connectReplies();
    const membership = this.#membership;
    replies.join({
      ...this.#awaiting,
      engine: seal === undefined ? engine : new SealedReplies(engine, seal),
      incarnation: this.incarnation,
      isAlive: async (node) => (membership.get(node) ?? (await membership.find(node))) !== undefined,
    });
    this.#replies = replies;
  }

  #inTurns(wire: ServerWire): ServerWire {
    return inTurns(wire, this.#loop, () => systemClock.now());
  }

  /** What other nodes may connect for besides the connections of clients. */
  get #services(): ReadonlyMap<string, PeerService> {
    const adapter = createWebSocketAdapter(relayWebSocket(this.#webSocket, this.#host.options.limits));
    const relayed = this.#relayed;
    const services = new Map<string, PeerService>();
    services.set(MOVE_PATH, {
      adapter,
      places: new ServicePlaces(MOVE_PLACES),
      accept: (ticket) => this.#tickets.acceptMove(ticket),
      onWire: (wire, source) => this.moves.accept(wire, source),
    });
    services.set(STANDING_PATH, {
      adapter,
      places: new ServicePlaces(SERVICE_PLACES),
      accept: (ticket) => this.#tickets.acceptStanding(ticket),
      onWire: (wire, source) => void this.#standing.answer(wire, source),
    });
    if (relayed !== undefined)
      services.set(RELAY_PATH, {
        adapter,
        places: new ServicePlaces(SERVICE_PLACES),
        accept: (ticket) => this.#tickets.acceptRelay(ticket),
        onWire: (wire, source) => relayed.peers.accept(this.#inTurns(wire), source),
      });
    return services;
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
    const { timers } = this.#host.options;
    const opened = await PeerPort.open({
      host,
      port,
      tls,
      timers,
      logger: this.#logger,
      adapter: createWebSocketAdapter(this.#webSocket),
      accept: (ticket) => this.#tickets.accept(ticket),
      services: this.#services,
      isArriving: (sessionId) =>
        this.moves.isArriving(sessionId) || this.#takeOvers?.isUnderWay(sessionId) === true,
      hasSession: (sessionId) => this.#host.find(sessionId) !== undefined,
      onWire: (wire, request, ticket) => this.#host.onPassed(wire, request, ticket),
    });
    const address = advertise ?? opened.address;
    const { incarnation } = this;
    const [secret] = secrets;
    try {
      if (!this.#isClosed) await this.records?.start();
      if (!this.#isClosed)
        await this.#membership.start({
          address,
          proof: proveAddress(secret as Uint8Array, incarnation, address),
        });
      if (!this.#isClosed) await this.#relayed?.roster.start();
    } catch (error) {
      await opened.close();
      throw error;
    }
    // The server was closed meanwhile.
    if (this.#isClosed) return await opened.close();
    this.#port = opened;
    this.#stopTicks = repeat(TICK_MS, () => this.#tick(), this.#logger);
    this.#logger.info({ event: 'node.listening', node: incarnation, address }, 'listening for other nodes');
  }

  #tick(): void {
    this.#tickets.sweep();
    this.moves.handleTick();
    this.records?.handleTick();
    this.#leading.handleTick();
    this.#relayed?.roster.handleTick();
    this.#relayed?.peers.handleTick();
  }

  /**
   * Sessions go to other nodes from now on, if there are any that take them. Never rejects.
   *
   * @param deadline Unix milliseconds.
   * @param returnWithinMs clients of durable sessions come back within this time.
   */
  async drain(deadline: number, returnWithinMs: number): Promise<void> {
    this.leave();
    await this.#membership.announceDraining();
    this.moves.start(deadline, returnWithinMs);
  }

  /** Ends the connections that are led from here, so that their clients come back to other nodes. */
  leave(): void {
    this.#leading.leave();
  }

  /** From now on no session goes or comes, and no connection is led. */
  async stop(): Promise<void> {
    this.leave();
    await this.moves.close();
  }

  /** Leaves the cluster and closes the port. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.leave();
    this.#stopTicks();
    await this.#relayed?.roster.stop();
    this.#relayed?.peers.close();
    await this.#replies?.close();
    await this.records?.close();
    await this.#membership.stop();
    // Without its connections to the engine, a start that is under way ends.
    await this.#starting?.catch(() => {});
    await this.#port?.close();
    this.#port = undefined;
  }

  lead(request: LeadRequest): Promise<LeadOutcome> {
    return this.#leading.lead(request);
  }

  #refusalOf({ incarnation, address, proof }: KnownNode): string | undefined {
    const { secrets, isInsecure } = this.#options;
    if (!isProven(secrets, incarnation, address, proof)) return 'is not signed with a secret of this cluster';
    if (isSafe(address, isInsecure)) return undefined;
    return 'has an address that is neither wss: nor on this machine';
  }
}
