import { CloseCode } from '@parlance/protocol';
import type { Backplane } from '../backplane/backplane.js';
import type { Refusal } from '../http/site.js';
import { Port } from '../parts/part.js';
import type { Dialing } from './dialing.js';
import type { KnownNode } from './membership.js';
import type { PeerService } from './peer-port.js';
import type { RecordedSessions } from './recorded.js';
import type { Tickets } from './ticket.js';

/** This server as one node of a cluster, for parts that reach beyond it. What they set, they set when they are installed. */
export interface ClusterPort {
  readonly incarnation: string;
  /** The engine does not answer, as far as is known. */
  readonly isStalled: boolean;
  /** No other node takes this one for dead. */
  readonly hasLease: boolean;
  recorded: RecordedSessions | undefined;
  readonly engine: Backplane;
  isAlive(incarnation: string): boolean;
  /** Rejects if the engine does not answer. */
  locate(incarnation: string): Promise<KnownNode | undefined>;
  readonly tickets: Tickets;
  /** How a node is reached for a service. */
  dialing(node: KnownNode, path: string, ticket: string): Dialing;
  /** Lets other nodes connect for a service. */
  serve(path: string, accept: PeerService['accept'], onWire: PeerService['onWire']): void;
}

export const CLUSTER = new Port<ClusterPort>('cluster');

/** The refusal of new sessions while other nodes do not know where they would be. */
export const JOINING: Refusal = {
  code: 'SERVER_BUSY',
  message: 'the server has not joined its cluster yet',
  closeCode: CloseCode.DRAINING,
  retryAfterMs: 1_000,
};
