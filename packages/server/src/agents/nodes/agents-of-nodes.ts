import { systemClock } from '@parlance/protocol/internal';
import type { ClusterService } from '../../cluster/service.js';
import type { OwnHost } from '../../server/features/own-feature.js';
import type { Directory } from '../directory.js';
import type { AgentMoves } from '../moves.js';
import type { Relay } from '../relay.js';
import { ClusterMoves } from './cluster-moves.js';
import { RelayPeers } from './peers.js';
import { Roster } from './roster.js';

/** The agents of one node. */
export interface OwnAgents {
  readonly onConflict: 'takeOver' | 'refuse';
  readonly directory: Directory;
  readonly relay: Relay;
  readonly moves: AgentMoves;
}

/** How often it is asked whether messages of agents are confirmed, in milliseconds. */
const LOOK_MS = 20;
/** How long other nodes may take to confirm what agents that have moved were sent, in milliseconds. */
const SETTLE_MS = 5_000;

/** Lets agents of this node and of others know and reach each other. */
export class AgentsOfNodes {
  readonly peers: RelayPeers;
  readonly #roster: Roster;

  constructor(cluster: ClusterService, host: OwnHost, { directory, relay, moves, onConflict }: OwnAgents) {
    const { incarnation, links } = cluster;
    const { options, memory } = host;
    const { limits, logger } = options;
    const isNodeAlive = (node: string) => cluster.isAlive(node);
    const peers = new RelayPeers({
      ...{ incarnation, options, memory, directory, relay, links, isNodeAlive },
      findSession: (sessionId) => host.find(sessionId),
    });
    this.#roster = new Roster({
      ...{ link: cluster.engine.connect(), incarnation, directory, onConflict, limits, logger, isNodeAlive },
      now: () => systemClock.now(),
      others: () => cluster.others,
      peers,
    });
    this.peers = peers;
    moves.peers = new ClusterMoves(peers, this.#roster);
  }

  /** The agents of other nodes are known. */
  get isReady(): boolean {
    return this.#roster.isReady;
  }

  /** Joins the agents. The node is a member of its cluster by then. */
  start(): Promise<void> {
    return this.#roster.start();
  }

  tick(): void {
    this.#roster.handleTick();
    this.peers.handleTick();
  }

  /** Waits until others know what became of messages of agents that were here, which only this node can tell them. */
  async settle(): Promise<void> {
    const end = systemClock.now() + SETTLE_MS;
    while (!this.peers.trySettle() && systemClock.now() < end)
      await new Promise<void>((resolve) => void setTimeout(resolve, LOOK_MS));
  }

  async close(): Promise<void> {
    await this.#roster.stop();
  }
}
