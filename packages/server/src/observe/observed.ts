import type { Session } from '@parlance/protocol';
import type { ClusterNode } from '../cluster/node.js';
import type { ServerEndpoint } from '../endpoint.js';
import type { Replies } from '../replies/replies.js';
import type { Totals } from './totals.js';

/** The state that is read when the metrics are collected. */
export interface Observed {
  readonly isDraining: boolean;
  /** Connections, including those without a session yet. */
  readonly connections: number;
  sessions(): Iterable<Pick<Session, 'state' | 'stats'>>;
  readonly replies: Pick<Replies, 'running' | 'followers' | 'usage'>;
  /** `undefined` without a cluster. */
  readonly cluster:
    | (Pick<ClusterNode, 'nodes' | 'led' | 'relayLinks' | 'relayTraffic'> & {
        readonly moves: Pick<ClusterNode['moves'], 'counts'>;
      })
    | undefined;
  totals(): Totals;
}

interface Parts extends Pick<Observed, 'sessions' | 'replies' | 'cluster'> {
  readonly isDraining: () => boolean;
  readonly connections: ReadonlySet<ServerEndpoint>;
  readonly totals: Totals;
}

export function observedOf({ isDraining, connections, totals, ...rest }: Parts): Observed {
  return {
    ...rest,
    get isDraining() {
      return isDraining();
    },
    get connections() {
      return [...connections].filter(({ hasWire }) => hasWire).length;
    },
    totals: () => totals.with([...connections].map((session) => session.stats())),
  };
}
