import { randomBytes } from 'node:crypto';
import { systemClock } from '@parlance/protocol/internal';
import type { ResolvedServerOptions } from '../options.js';
import { Directory } from './directory.js';
import { AgentMoves } from './moves.js';
import { Policy } from './policy.js';
import { Relay } from './relay.js';

/** The agents of a server: who they are, and what they say to each other. */
export interface Agents {
  readonly directory: Directory;
  readonly relay: Relay;
  readonly moves: AgentMoves;
}

/** `undefined` without agents. */
export function createAgents({ agents, limits, logger }: ResolvedServerOptions): Agents | undefined {
  if (agents === undefined) return undefined;
  const policy = new Policy(agents, logger);
  const { onConflict = 'takeOver' } = agents;
  const directory = new Directory({
    onConflict,
    policy,
    // The nodes of a cluster agree on one.
    key: randomBytes(32),
    limits,
    clock: systemClock,
    logger,
  });
  const relay = new Relay(directory, policy, logger);
  return { directory, relay, moves: new AgentMoves(directory, relay) };
}
