import { randomBytes } from 'node:crypto';
import { Extension } from '@parlance/protocol';
import { systemClock } from '@parlance/protocol/internal';
import { CLUSTER, JOINING } from '../cluster/service.js';
import { type Feature, type Figure, Service } from '../server/features/feature.js';
import { counts, one } from '../server/features/figures.js';
import type { OwnHooks, OwnHost } from '../server/features/own-feature.js';
import type { ServerEndpoint } from '../session/endpoint.js';
import { Directory } from './directory.js';
import { AgentMoves } from './moves.js';
import { AgentsOfNodes } from './nodes/agents-of-nodes.js';
import { type AgentsOptions, assertAgents, Policy } from './policy.js';
import { Relay } from './relay.js';
import { RelayRoute } from './relay-route.js';

/** The agents of a server. */
export interface Agents {
  readonly relay: Relay;
  /** `undefined` without other nodes. */
  readonly others: AgentsOfNodes | undefined;
}

export const AGENTS = new Service<Agents>('agents');

/** Sessions with an agent ID that see and address each other. On by default with `authenticate`. */
export const agents = (options: AgentsOptions = {}): Feature => ({
  name: 'agents',
  after: ['metrics', 'tracing', 'scan', CLUSTER],
  install(host: OwnHost): OwnHooks {
    assertAgents(options, host.options.authenticate !== undefined);
    const { limits, logger } = host.options;
    const policy = new Policy(options, logger);
    const { onConflict = 'takeOver' } = options;
    // All nodes agree on one.
    const key = randomBytes(32);
    const directory = new Directory({ onConflict, policy, key, limits, clock: systemClock, logger });
    const relay = new Relay(directory, policy, logger);
    const moves = new AgentMoves(directory, relay);
    const cluster = host.use(CLUSTER);
    const leave = (session: ServerEndpoint) => {
      try {
        directory.leave(session);
      } finally {
        relay.handleEnded(session);
      }
    };
    const others = cluster && new AgentsOfNodes(cluster, host, { onConflict, directory, relay, moves });
    host.provide(AGENTS, { relay, others });
    return {
      extensions: [Extension.AGENTS],
      labels: { agent: ({ agentId }) => agentId },
      figures: figuresOf(directory, relay, host.sessions),
      drain: { finish: async () => await others?.settle() },
      refuses: () => (others?.isReady === false ? JOINING : undefined),
      start: () => others?.start(),
      tick: () => others?.tick(),
      close: () => others?.close(),
      admit: ({ extensions }, identity) => directory.admit(identity, extensions),
      ready: (session) => directory.join(session),
      route: (session) => new RelayRoute(session, relay),
      others: moves,
      leaves: (session, stream) => moves.isWatch(session, stream),
      moved: (session, node) => (node === undefined ? leave(session) : moves.handleMoved(session, node)),
      release: (session) => moves.release(session),
      save: (session, how) => moves.stateOf(session, how),
      load(saved) {
        const state = moves.read(saved);
        return (session, from) => moves.adopt(session, state, from);
      },
      ended: leave,
    };
  },
});

function figuresOf(
  directory: Directory,
  relay: Relay,
  sessions: ReadonlyMap<string, ServerEndpoint>,
): readonly Figure[] {
  const agentsHere = () => {
    let count = 0;
    for (const session of sessions.values()) if (directory.agentOf(session) !== undefined) count++;
    return count;
  };
  return [
    one('agents', 'Agents that have their session at this node.', agentsHere, { isShown: true }),
    counts(
      'relay_bodies',
      'Bodies from agent to agent, by whether they passed unchanged or were coded again.',
      'how',
      () => ({ passed: relay.stats.forwarded, recoded: relay.stats.recoded }),
    ),
    counts(
      'undelivered',
      'Messages and requests between agents that were refused, and messages whose fate is unknown.',
      'outcome',
      () => ({ refused: relay.stats.refused, unknown: relay.stats.unknown }),
    ),
  ];
}
