import { randomBytes } from 'node:crypto';
import { Extension } from '@parlance/protocol';
import { systemClock } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../endpoint.js';
import { type Feature, type Figure, Port } from '../parts/part.js';
import { Directory } from './directory.js';
import { AgentMoves } from './moves.js';
import { type AgentsOptions, assertAgents, Policy } from './policy.js';
import { Relay } from './relay.js';
import { RelayRoute } from './relay-route.js';

/** The agents of a server: who they are, and what they say to each other. */
export interface Agents {
  readonly onConflict: 'takeOver' | 'refuse';
  readonly directory: Directory;
  readonly relay: Relay;
  readonly moves: AgentMoves;
}

export const AGENTS = new Port<Agents>('agents');

/** Sessions with an agent ID that see and address each other. On by default with `authenticate`. */
export const agents = (options: AgentsOptions = {}): Feature => ({
  name: 'agents',
  after: ['metrics', 'tracing', 'scan', 'replies'],
  install(host) {
    assertAgents(options, host.options.authenticate !== undefined);
    const { limits, logger } = host.options;
    const policy = new Policy(options, logger);
    const { onConflict = 'takeOver' } = options;
    // The nodes of a cluster agree on one.
    const key = randomBytes(32);
    const directory = new Directory({ onConflict, policy, key, limits, clock: systemClock, logger });
    const relay = new Relay(directory, policy, logger);
    const moves = new AgentMoves(directory, relay);
    host.provide(AGENTS, { onConflict, directory, relay, moves });
    return {
      extensions: [Extension.AGENTS],
      figures: figuresOf(directory, relay, host.sessions),
      claim: (session, { extensions }) => directory.claim(session, extensions),
      ready: (session) => directory.join(session),
      route: (session) => new RelayRoute(session, relay),
      takenOver: (session, { extensions }) => moves.takeOver(session, extensions),
      hold: (session) => moves.hold(session),
      quiet: (session) => moves.isQuiet(session),
      leaves: (session, stream) => moves.isWatch(session, stream),
      settle: (session, reason) => moves.settle(session, reason),
      moved: (session, node) => moves.handleMoved(session, node),
      release: (session) => moves.release(session),
      save: (session) => moves.stateOf(session),
      load(saved) {
        const state = moves.read(saved);
        return (session, from) => moves.adopt(session, state, from);
      },
      ended(session) {
        try {
          directory.leave(session);
        } finally {
          relay.handleEnded(session);
        }
      },
    };
  },
});

function figuresOf(
  directory: Directory,
  relay: Relay,
  sessions: ReadonlyMap<string, ServerEndpoint>,
): readonly Figure[] {
  return [
    {
      name: 'agents',
      help: 'Agents that have their session at this node.',
      read(set) {
        let count = 0;
        for (const session of sessions.values()) if (directory.agentOf(session) !== undefined) count++;
        set(count);
      },
    },
    {
      name: 'relay_bodies',
      help: 'Bodies from agent to agent, by whether they passed unchanged or were coded again.',
      labels: ['how'],
      isCount: true,
      read(set) {
        set(relay.stats.forwarded, { how: 'passed' });
        set(relay.stats.recoded, { how: 'recoded' });
      },
    },
    {
      name: 'undelivered',
      help: 'Messages and requests between agents that were refused, and messages whose fate is unknown.',
      labels: ['outcome'],
      isCount: true,
      read(set) {
        set(relay.stats.refused, { outcome: 'refused' });
        set(relay.stats.unknown, { outcome: 'unknown' });
      },
    },
  ];
}
