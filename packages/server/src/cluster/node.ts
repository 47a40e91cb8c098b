import type { IncomingMessage } from 'node:http';
import { CloseCode, type Logger, ResumeRefusal } from '@parlance/protocol';
import { incarnationOf, type MemoryBudget, newIncarnation, systemClock } from '@parlance/protocol/internal';
import type { Refusal } from '../admission/admission.js';
import type { Agents } from '../agents/create.js';
import type { ServerEndpoint } from '../endpoint.js';
import { addressKey } from '../http/addresses.js';
import { webSocketOptions } from '../http/upgrade.js';
import { createWebSocketAdapter, type ServerWire, type WebSocketAdapterOptions } from '../http/ws.js';
import type { ResolvedServerOptions } from '../options.js';
import { repeat } from '../repeat.js';
import { ABANDONED, type Answer, Ask } from './ask.js';
import { clientSide } from './client-side.js';
import { ClusterMoves } from './cluster-moves.js';
import { Lead } from './lead.js';
import type { Leader, LeadRequest } from './leader.js';
import { type KnownNode, Membership } from './membership.js';
import { Moves, type MovingHost } from './moves.js';
import { isSafe, type ResolvedNodeOptions } from './options.js';
import { MOVE_PATH, PEER_PATH, PeerPort, RELAY_PATH, TICKET_SCHEME } from './peer-port.js';
import { dialRelay, type RelayDialing } from './relay-dial.js';
import { RELAY_SUBPROTOCOL, RelayPeers, relayWebSocket } from './relay-peers.js';
import { RelayTraffic } from './relay-wire.js';
import { Roster } from './roster.js';
import { digestOf, isProven, proveAddress, type Ticket, Tickets } from './ticket.js';

export interface ClusterHost {
  readonly options: ResolvedServerOptions;
  readonly memory: MemoryBudget;
  /** Refuses a connection to be led while draining, or beyond a quota. Counts the one that it admits. */
  admitLed(address: string): Refusal | undefined;
  /** A connection that was counted is over. */
  releaseLed(address: string): void;
  find(sessionId: string): object | undefined;
  readonly moving: MovingHost;
  /** Another node passes a connection on. */
  onPassed(wire: ServerWire, request: IncomingMessage, ticket: Ticket): void;
}

/** How often a session may have moved while it is looked for. */
const MAX_HOPS = 3;
/** A client that must try again, in milliseconds. */
const RETRY_MS = 250;
const TICK_MS = 1_000;
/** Nodes that do not answer, of which each is logged once. */
const MAX_SILENT = 1_000;

/** This server as one node of a cluster. */
export class ClusterNode implements Leader {
  readonly incarnation = newIncarnation();
  readonly #host: ClusterHost;
  readonly #options: ResolvedNodeOptions;
  readonly #logger: Logger;
  readonly #webSocket: WebSocketAdapterOptions;
  readonly #tickets: Tickets;
  readonly #membership: Membership;
  readonly #leads = new Set<Lead>();
  readonly #silent = new Set<string>();
  readonly moves: Moves;
  #relayed: { readonly peers: RelayPeers; readonly roster: Roster } | undefined;
  #port: PeerPort | undefined;
  #isClosed = false;
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
    });
    this.moves = new Moves({
      incarnation,
      backplane,
      host: host.moving,
      memory: host.memory,
      limits: host.options.limits,
      timers: host.options.timers,
      logger: this.#logger,
      leads: this.#leads,
      nodes: () => this.#membership.others,
      dialing: (target) => this.#dialing(target, MOVE_PATH, this.#tickets.issueMove(target.incarnation)),
    });
  }

  /** How another node is reached for what is between nodes. */
  #dialing({ address }: KnownNode, path: string, ticket: string) {
    return {
      ...relayWebSocket(this.#webSocket, this.#host.options.limits),
      url: `${address.replace(/\/$/, '')}${path}`,
      subprotocol: RELAY_SUBPROTOCOL,
      headers: { authorization: `${TICKET_SCHEME} ${ticket}` },
      tls: clientSide(this.#options.tls),
    };
  }

  /** Other nodes know of this one, and it knows their agents. */
  get isMember(): boolean {
    return this.#membership.isMember && this.#relayed?.roster.isReady !== false;
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
    return this.#leads.size;
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
      reroute: (target, node) => peers.reroute(target, node),
      forget: (target) => peers.forget(target),
    });
    moves.peers = new ClusterMoves(peers, roster);
    this.#relayed = { peers, roster };
  }

  /**
   * Opens the port for other nodes and joins the cluster. An engine that cannot be reached is tried again meanwhile.
   *
   * @throws {ProtocolError} `connection_failed` if the port cannot be opened; `invalid_option`; `unsupported` if the engine
   * is unsuitable.
   */
  async start(): Promise<void> {
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
      relay: this.#relayed && {
        adapter: createWebSocketAdapter(relayWebSocket(this.#webSocket, this.#host.options.limits)),
        accept: (ticket) => this.#tickets.acceptRelay(ticket),
        onWire: (wire, source) => this.#relayed?.peers.accept(wire, source),
      },
      move: {
        adapter: createWebSocketAdapter(relayWebSocket(this.#webSocket, this.#host.options.limits)),
        accept: (ticket) => this.#tickets.acceptMove(ticket),
        onWire: (wire, source) => this.moves.accept(wire, source),
      },
      isArriving: (sessionId) => this.moves.isArriving(sessionId),
      hasSession: (sessionId) => this.#host.find(sessionId) !== undefined,
      onWire: (wire, request, ticket) => this.#host.onPassed(wire, request, ticket),
    });
    const address = advertise ?? opened.address;
    const { incarnation } = this;
    const [secret] = secrets;
    try {
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
    await this.#relayed?.roster.start();
    this.#stopTicks = repeat(TICK_MS, () => this.#tick(), this.#logger);
    this.#logger.info({ event: 'node.listening', node: incarnation, address }, 'listening for other nodes');
  }

  #tick(): void {
    this.#tickets.sweep();
    this.moves.handleTick();
    for (const lead of this.#leads) lead.handleTick();
    this.#relayed?.roster.handleTick();
    this.#relayed?.peers.handleTick();
  }

  /** Sessions go to other nodes from now on, if there are any that take them. Never rejects. @param deadline Unix milliseconds. */
  async drain(deadline: number): Promise<void> {
    this.leave();
    await this.#membership.announceDraining();
    this.moves.start(deadline);
  }

  /** Ends the connections that are led from here, so that their clients come back to other nodes. */
  leave(): void {
    for (const lead of this.#leads) lead.leave('this node is shutting down');
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
    await this.#membership.stop();
    await this.#port?.close();
    this.#port = undefined;
  }

  async lead(request: LeadRequest): Promise<'done' | 'here' | ResumeRefusal | Refusal> {
    try {
      let owner = await this.#ownerOf(request.sessionId);
      for (let hop = 0; hop <= MAX_HOPS; hop++) {
        const outcome = owner === undefined ? UNKNOWN : await this.#leadTo(owner, request);
        if (outcome !== UNKNOWN) return outcome;
        // It may have moved.
        const next = await this.moves.find(request.sessionId);
        if (next === undefined || next === owner?.incarnation) return UNKNOWN;
        if (next === this.incarnation) return this.moves.isArriving(request.sessionId) ? BUSY : 'here';
        owner = this.#membership.get(next) ?? (await this.#membership.find(next));
      }
      return BUSY;
    } catch {
      // The membership has logged that the engine does not answer.
      return BUSY;
    }
  }

  async #leadTo(owner: KnownNode, request: LeadRequest): Promise<'done' | ResumeRefusal | Refusal> {
    if (request.signal.aborted) return 'done';
    const address = addressKey(request.origin.ip);
    const refused = this.#host.admitLed(address);
    if (refused !== undefined) return refused;
    return await this.#ask(owner, request, () => this.#host.releaseLed(address));
  }

  /** @throws {ProtocolError} if the engine does not answer, and the node is unknown without it. */
  async #ownerOf(sessionId: string): Promise<KnownNode | undefined> {
    const incarnation = incarnationOf(sessionId);
    if (incarnation === undefined || incarnation === this.incarnation) return undefined;
    return this.#membership.get(incarnation) ?? (await this.#membership.find(incarnation));
  }

  async #ask(
    owner: KnownNode,
    request: LeadRequest,
    release: () => void,
  ): Promise<'done' | ResumeRefusal | Refusal> {
    let answer = await this.#askOnce(owner, request, release);
    // If the process has died, the next connection is refused. If it was the network, the session must not be lost.
    if (answer.type === 'broken') answer = await this.#askOnce(owner, request, release);
    if (answer.type === 'led') return 'done';
    release();
    switch (answer.type) {
      case 'refused':
        return answer.refusal;
      case 'closed':
        if (answer.code === CloseCode.ABNORMAL) request.wire.terminate();
        else request.wire.close(answer.code, answer.reason);
        return 'done';
      case 'gone':
        return ResumeRefusal.UNKNOWN_SESSION;
      default:
        return (await this.#isGone(owner)) ? ResumeRefusal.UNKNOWN_SESSION : this.#busy(owner, answer.why);
    }
  }

  async #askOnce(owner: KnownNode, request: LeadRequest, release: () => void): Promise<Answer> {
    const { sessionId, hello, subprotocol, identity, origin, signal } = request;
    if (signal.aborted) return ABANDONED;
    const { ip, headers, isForwarded } = origin;
    const helloDigest = digestOf(hello);
    const client = { sessionId, helloDigest, subprotocol, identity, ip, headers, isForwarded };
    const ask = new Ask({
      ...this.#webSocket,
      url: `${owner.address.replace(/\/$/, '')}${PEER_PATH}`,
      hello,
      subprotocol,
      headers: { authorization: `${TICKET_SCHEME} ${this.#tickets.issue(owner.incarnation, client)}` },
      tls: clientSide(this.#options.tls),
      begin: (far) => this.#begin(owner, request, far, release),
    });
    signal.addEventListener('abort', () => ask.abandon(), { once: true });
    return await ask.answer;
  }

  #begin({ incarnation }: KnownNode, request: LeadRequest, far: ServerWire, release: () => void): Lead {
    const { sessionId, wire, memoryKeys, origin, onLed } = request;
    const { limits } = this.#host.options;
    const memory = this.#host.memory.open(limits.sessionMemory);
    memory.assign(memoryKeys);
    const lead: Lead = new Lead(wire, far, {
      limits,
      memory,
      logger: this.#logger,
      sessionId,
      owner: incarnation,
      origin,
      onOver: () => {
        this.#leads.delete(lead);
        release();
      },
    });
    memory.onFault = (error) => lead.crash(error);
    this.#leads.add(lead);
    this.#silent.delete(incarnation);
    onLed(lead);
    const fields = { event: 'session.led', ip: origin.ip, session: sessionId, node: incarnation };
    this.#logger.info(fields, 'the connection is led to the node of its session');
    return lead;
  }

  /** Whether the lease of a node that does not answer is over. */
  async #isGone({ incarnation }: KnownNode): Promise<boolean> {
    try {
      const found = await this.#membership.find(incarnation);
      return found === undefined && !this.#membership.isAlive(incarnation);
    } catch {
      return false;
    }
  }

  /** The node may still have the session, so its client asks again soon. */
  #busy({ incarnation, address }: KnownNode, why: string): Refusal {
    if (!this.#silent.has(incarnation)) {
      if (this.#silent.size >= MAX_SILENT) this.#silent.clear();
      this.#silent.add(incarnation);
      const fields = { event: 'peer.silent', node: incarnation, address, why };
      this.#logger.warn(fields, 'a node does not answer; clients of its sessions are asked to wait');
    }
    return BUSY;
  }

  #refusalOf({ incarnation, address, proof }: KnownNode): string | undefined {
    const { secrets, isInsecure } = this.#options;
    if (!isProven(secrets, incarnation, address, proof)) return 'is not signed with a secret of this cluster';
    if (isSafe(address, isInsecure)) return undefined;
    return 'has an address that is neither wss: nor on this machine';
  }
}

const UNKNOWN = ResumeRefusal.UNKNOWN_SESSION;

const BUSY: Refusal = {
  code: 'SERVER_BUSY',
  message: 'the node that has the session does not answer yet',
  closeCode: CloseCode.DRAINING,
  retryable: true,
  retryAfterMs: RETRY_MS,
};
