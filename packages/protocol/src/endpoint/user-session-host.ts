import { ProtocolError } from '../base/errors.js';
import type { Negotiated } from '../control/agreement.js';
import { isAgentAddress, isAgentId } from '../link/addressing.js';
import type { SessionState } from '../session/types.js';
import type { Listeners } from './listeners.js';
import type { Message } from './messages/message.js';
import type { Outbound } from './outbound.js';
import type { CloseOptions, CloseResult } from './session.js';
import type { SessionEnd } from './session-end.js';
import type { SessionStats } from './stats.js';
import type { SessionPort } from './verbs.js';

/** Drives the session that an application holds. */
export interface UserSessionHost extends SessionPort {
  /** Client: the session can address other agents of the server. */
  readonly reachesAgents: boolean;
  readonly id: string;
  readonly state: SessionState;
  readonly principal: string | undefined;
  readonly agentId: string | undefined;
  /** @throws {ProtocolError} `session_closed` before ACCEPT. */
  readonly negotiated: Negotiated;
  readonly mailbox: AsyncIterable<Message>;
  readonly listeners: Listeners;
  /** @throws {ProtocolError} `session_closed` unless the session is ready. */
  readonly outbound: UserOutbound;
  flush(): Promise<void>;
  stats(): SessionStats;
  readonly closed: Promise<SessionEnd>;
  close(options?: CloseOptions): Promise<CloseResult>;
}

/** What the session that an application holds sends with. */
export type UserOutbound = Pick<Outbound, 'send' | 'request' | 'stream' | 'perform'>;

/**
 * The address of the option `to`.
 *
 * @throws {ProtocolError} `unsupported` at a server, `invalid_argument` for an invalid agent ID.
 */
export function recipientOf(
  { reachesAgents }: Pick<UserSessionHost, 'reachesAgents'>,
  to: string | undefined,
): string | undefined {
  if (to === undefined) return undefined;
  if (!reachesAgents) {
    throw new ProtocolError('unsupported', 'to: a session of a server sends to its own client only');
  }
  if (isAgentId(to) || isAgentAddress(to)) return to;
  throw new ProtocolError(
    'invalid_argument',
    'to: expected an agent ID (1 to 128 letters, digits, - and _) or an address from agents()',
  );
}
