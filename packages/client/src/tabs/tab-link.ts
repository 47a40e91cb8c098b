import { ProtocolError } from '@parlance/protocol/client';
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

/** The host went away before it answered. */
export class HostLost extends ProtocolError {
  constructor() {
    super('session_lost', 'the host of the shared session is gone');
  }
}
