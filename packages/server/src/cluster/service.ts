import type { Engine } from '../engine/engine.js';
import { Service } from '../server/features/feature.js';
import type { ThisNode } from '../server/features/own-feature.js';
import { busy } from '../transport/http/site.js';
import type { Links } from './link/links.js';
import type { KnownNode } from './membership.js';

/** This server as one node of a cluster, for features that reach beyond it. */
export interface ClusterService extends ThisNode {
  readonly engine: Engine;
  /** As far as is known; the engine is not asked. */
  isAlive(incarnation: string): boolean;
  /** Other nodes that count as alive. */
  readonly others: Iterable<string>;
  /** Rejects if the engine does not answer. */
  locate(incarnation: string): Promise<KnownNode | undefined>;
  /** The connections to and from other nodes, for any service. */
  readonly links: Links;
}

export const CLUSTER = new Service<ClusterService>('cluster');

/** The refusal of new sessions while other nodes do not know where they would be. */
export const JOINING = busy('the server has not joined its cluster yet', 1_000);
