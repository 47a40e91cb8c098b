import {
  type AgentInfo,
  type Compatibility,
  type ModelIdentity,
  resolveCompatibility,
  type StringMap,
} from '@parlance/protocol';
import type { AgentDescription } from '@parlance/protocol/internal';
import type { Party } from './policy.js';
import type { RelayTarget } from './target.js';

/** An agent that is present: one session under one ID of one principal. */
export interface Agent {
  readonly id: string;
  /** The name by which other principals know it. */
  address: string;
  readonly party: Party;
  /** Of this node, or the stand-in for one of another node. */
  session: RelayTarget;
  /** Takes what is sent to the agent while its session moves; `undefined` is the session itself. */
  via: RelayTarget | undefined;
  /**
   * Has stood for the session before it came here, and takes what agents of this node send until everything that they
   * have sent the old way is written.
   */
  former: RelayTarget | undefined;
  /** Its session may be about to move, so other nodes are asked to wait. */
  isHeld: boolean;
  readonly description: AgentDescription;
  /** The extensions of HELLO that have the description; `undefined` of an agent of another node. */
  stated: StringMap | undefined;
  /** Whether watchers have been notified that its connection is lost. */
  isSuspended: boolean;
  /** Another one after each change that watchers are notified of. All nodes have the same. */
  version: string;
}

/** The target that takes bodies which agents of this node send to the agent. */
export function targetOf({ session, via, former }: Agent): RelayTarget {
  return via ?? former ?? session;
}

/**
 * @param name the name by which the asking session knows the agent.
 * @param isWatching whether the session watches: then it gets the state that was announced last, as changes follow.
 */
export function infoOf(
  { isSuspended, session, description }: Agent,
  name: string,
  own: Agent | undefined,
  isWatching: boolean,
): AgentInfo {
  const { algorithms, encoding } = session.negotiated;
  const isAway = isWatching ? isSuspended : session.state === 'suspended';
  return {
    id: name,
    address: name,
    state: isAway ? 'suspended' : 'connected',
    algorithms,
    encodings: encoding === null ? [] : [encoding],
    metadata: description.metadata,
    identity: description.identity,
    compatibility: compatibilityOf(own?.description.identity, description.identity),
  };
}

function compatibilityOf(local: ModelIdentity | undefined, remote: ModelIdentity | undefined): Compatibility {
  if (local !== undefined && remote !== undefined) return resolveCompatibility(local, remote);
  return { mode: 'json', mapId: '', path: 'json_fallback' };
}
