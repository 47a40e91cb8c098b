import type { Limits, Logger, M2MSecurity, Timers } from '@parlance/protocol';
import type { WireKind } from '../transport/websocket/ws.js';
import type { Authenticate } from './admission/admission.js';
import type { ServerSession } from './served-session.js';

/** The options of a server that its sessions need. */
export interface ServingOptions {
  readonly limits: Limits;
  readonly timers: Timers;
  /** Bytes. */
  readonly maxAssembledSize: number;
  readonly authenticate: Authenticate | undefined;
  readonly onSession: ((session: ServerSession) => void | Promise<void>) | undefined;
  readonly logger: Logger;
  readonly security: M2MSecurity | undefined;
  /** Of the connections of clients and of other nodes. */
  readonly wire: WireKind | undefined;
}
