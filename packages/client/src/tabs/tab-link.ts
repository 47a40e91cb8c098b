import type { CloseStatement, SessionState } from '@parlance/protocol';
import { nothingSent, ProtocolError } from '@parlance/protocol/client';
import type { Pipe } from './pipe.js';
import type { Watch } from './presence.js';
import type { TabOutbound } from './tab-outbound.js';

/** The way to one host. */
export interface Link {
  readonly pipe: Pipe;
  readonly outbound: TabOutbound;
  hasJoined: boolean;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
  readonly watch: Watch;
  /** Bytes of one-way messages that were read and are not reported to the host. */
  read: number;
}

/** The tab itself has left. */
export const LEFT: CloseStatement = { side: 'local', code: undefined, reason: '' };

/** The sending side of a tab. @throws {ProtocolError} `session_closed` without a host. */
export function presentOf(link: Link | undefined, state: SessionState): TabOutbound {
  if (link?.hasJoined === true && state !== 'closed') return link.outbound;
  throw nothingSent({ state });
}

/** The host went away before it answered. */
export class HostLost extends ProtocolError {
  constructor() {
    super('session_lost', 'the host of the shared session is gone');
  }
}
