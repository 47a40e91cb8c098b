import type { Limits, Session } from '@parlance/protocol';
import type { Directory } from '../agents/directory.js';
import type { RelayStats } from '../agents/transit.js';
import type { ClusterNode } from '../cluster/node.js';
import type { ServerEndpoint } from '../endpoint.js';
import type { Replies } from '../replies/replies.js';
import type { Totals } from './totals.js';

/** The state that is read when the metrics are collected. */
export interface Observed {
  readonly isDraining: boolean;
  /** Connections, including those without a session yet. */
  readonly connections: number;
  sessions(): Iterable<Pick<Session, 'state' | 'stats'> & Pick<ServerEndpoint, 'isDurable'>>;
  /** Agents that have their session at this node. */
  readonly agents: number;
  relayStats(): RelayStats;
  readonly limits: Limits;
  readonly replies: Pick<Replies, 'running' | 'followers' | 'usage' | 'unkept' | 'dropped' | 'watched'>;
  /** `undefined` without a cluster. */
  readonly cluster:
    | (Pick<ClusterNode, 'nodes' | 'led' | 'takenOver' | 'relayLinks' | 'relayTraffic'> & {
        readonly moves: Pick<ClusterNode['moves'], 'counts'>;
      })
    | undefined;
  totals(): Totals;
}

interface Parts extends Pick<Observed, 'relayStats' | 'limits' | 'replies' | 'cluster'> {
  sessions(): Iterable<ServerEndpoint>;
  readonly directory: Pick<Directory, 'agentOf'> | undefined;
  readonly isDraining: () => boolean;
  readonly connections: ReadonlySet<ServerEndpoint>;
  readonly totals: Totals;
}

export function observedOf({ isDraining, connections, totals, directory, ...rest }: Parts): Observed {
  return {
    ...rest,
    get isDraining() {
      return isDraining();
    },
    get connections() {
      return [...connections].filter(({ hasWire }) => hasWire).length;
    },
    get agents() {
      if (directory === undefined) return 0;
      let count = 0;
      for (const session of rest.sessions()) if (directory.agentOf(session) !== undefined) count++;
      return count;
    },
    totals: () => totals.with(connections),
  };
}
