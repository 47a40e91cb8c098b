import { MemoryBudget, newIncarnation, newSessionId, SILENT_LOGGER } from '@parlance/protocol/internal';
import { Links } from '../../../cluster/link/links.js';
import { Network } from '../../../cluster/link/testing/network.js';
import type { EngineConnection, EngineTable } from '../../../engine/engine.js';
import { memoryCluster } from '../../../engine/memory.js';
import type { ServerEndpoint } from '../../../session/endpoint.js';
import { Directory } from '../../directory.js';
import { AgentMoves } from '../../moves.js';
import { Policy } from '../../policy.js';
import { Relay } from '../../relay.js';
import { ClusterMoves } from '../cluster-moves.js';
import { RelayPeers } from '../peers.js';
import { Roster } from '../roster.js';
import { type Life, SimulatedDurableSession } from './durable-session.js';
import { type Client, LIMITS, SimulatedSession } from './simulated-session.js';

/** Nodes without sockets: every byte between them and to their clients moves when the world says so. */

export type Random = () => number;

export class SimulatedNode {
  readonly name = newIncarnation();
  readonly directory: Directory;
  readonly relay: Relay;
  readonly moves: AgentMoves;
  readonly links: Links;
  readonly peers: RelayPeers;
  readonly roster: Roster;
  readonly sessions = new Map<string, SimulatedSession>();
  isAlive = true;

  constructor(world: World, cluster: ReturnType<typeof memoryCluster>) {
    const policy = new Policy({}, SILENT_LOGGER);
    const options = { limits: LIMITS, logger: SILENT_LOGGER };
    const directory = new Directory({
      ...options,
      onConflict: 'takeOver',
      policy,
      key: new Uint8Array(32),
      clock: { soon: () => {} },
    });
    const relay = new Relay(directory, policy, SILENT_LOGGER);
    this.directory = directory;
    this.relay = relay;
    this.moves = new AgentMoves(directory, relay);
    const isNodeAlive = (name: string) => world.nodes.some((node) => node.name === name && node.isAlive);
    const memory = new MemoryBudget(Number.POSITIVE_INFINITY);
    const links = new Links({
      incarnation: this.name,
      memory,
      logger: SILENT_LOGGER,
      isMember: isNodeAlive,
      dial: (name, onOpen, onFailed) => world.dial(this, name, onOpen, onFailed),
    });
    this.links = links;
    const peers: RelayPeers = new RelayPeers({
      incarnation: this.name,
      options: { ...options, security: undefined } as never,
      memory,
      links,
      directory,
      relay,
      findSession: (id) => this.sessions.get(id) as never as ServerEndpoint | undefined,
      isNodeAlive,
    });
    const roster: Roster = new Roster({
      ...options,
      link: this.#linkTo(cluster),
      incarnation: this.name,
      directory,
      onConflict: 'takeOver',
      now: () => world.time,
      isNodeAlive,
      others: () => world.nodes.filter(({ isAlive }) => isAlive).map(({ name }) => name),
      peers,
    });
    this.peers = peers;
    this.roster = roster;
    this.moves.peers = new ClusterMoves(peers, roster);
  }

  /** A process that has ended asks for nothing, and hears nothing. */
  #linkTo(cluster: ReturnType<typeof memoryCluster>): EngineConnection {
    const link = cluster.connect();
    const whileAlive = async <Result>(result: Promise<Result>): Promise<Result> => {
      const value = await result;
      return this.isAlive ? value : await new Promise<Result>(() => {});
    };
    const ask = <Result>(call: () => Promise<Result>): Promise<Result> =>
      this.isAlive ? whileAlive(call()) : new Promise<Result>(() => {});
    const table = (name: string): EngineTable => {
      const inner = link.table(name);
      return {
        put: (...call) => ask(() => inner.put(...call)),
        read: () => ask(() => inner.read()),
        changes: (after) => ask(() => inner.changes(after)),
        shareKey: (candidate) => inner.shareKey(candidate),
      };
    };
    return { ...link, table };
  }

  join(client: Client): SimulatedSession {
    const session = new SimulatedSession(newSessionId(this.name), client, this.relay);
    this.sessions.set(session.id, session);
    const endpoint = session as never as ServerEndpoint;
    this.#enter(endpoint);
    return session;
  }

  /** Continues a durable session that another node had, or begins it. */
  take(life: Life): void {
    const session = new SimulatedDurableSession(life, this.relay);
    const endpoint = session as never as ServerEndpoint;
    this.sessions.set(session.id, session);
    if (life.epoch > 1) {
      this.moves.takeOver(endpoint, { agents: '{}' });
      session.goOn();
      return;
    }
    this.#enter(endpoint);
  }

  #enter(endpoint: ServerEndpoint): void {
    const admitted = this.directory.admit(endpoint, { agents: '{}' });
    if (admitted !== undefined && 'accepted' in admitted) admitted.accepted(endpoint);
    this.directory.join(endpoint);
  }

  /** Gives up a durable session as a server does, so that any other node may take it from its record. */
  giveUp(session: SimulatedDurableSession): void {
    session.isElsewhere = session.isGivenUp = true;
    this.#leave(session);
  }

  /** Forgets a session that is over, as a server does. */
  forget(session: SimulatedSession): void {
    session.state = 'closed';
    this.sessions.delete(session.id);
    this.#leave(session);
  }

  #leave(session: SimulatedSession): void {
    this.directory.leave(session as never as ServerEndpoint);
    this.relay.handleEnded(session as never as ServerEndpoint);
  }

  tick(): void {
    this.links.handleTick();
    this.roster.handleTick();
    this.peers.handleTick();
  }
}

export class World extends Network<SimulatedNode> {
  /** Durable sessions of processes that have died or given them up. */
  readonly waiting: Life[] = [];
  time = 0;
  readonly #cluster = memoryCluster(() => this.time);

  async addNode(): Promise<SimulatedNode> {
    const node = new SimulatedNode(this, this.#cluster);
    this.nodes.push(node);
    await node.roster.start();
    return node;
  }

  /** The process ends without a word. */
  kill(node: SimulatedNode): void {
    node.isAlive = false;
    for (const session of node.sessions.values()) {
      if (session instanceof SimulatedDurableSession) this.waiting.push(session.life);
      else session.client.isLost = true;
      session.state = 'closed';
    }
    node.sessions.clear();
    this.cutAll(node);
  }

  async stop(): Promise<void> {
    for (const { roster, isAlive } of this.nodes) if (isAlive) await roster.stop();
  }
}

/** Lets promises settle. */
export const settled = () => new Promise((resolve) => setImmediate(resolve));
