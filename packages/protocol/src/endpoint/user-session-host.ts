import type { Negotiated } from '../control/agreement.js';
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

/** The methods with which the session of an application sends. */
export type UserOutbound = Pick<Outbound, 'send' | 'request' | 'stream' | 'perform'>;
