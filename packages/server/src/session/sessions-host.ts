import type { Subprotocol } from '@parlance/protocol';
import type { Refusal } from '../transport/http/site.js';
import type { Transport } from '../transport/transport.js';
import type { PassedPeer } from './admission/seek.js';
import type { ServerEndpoint } from './endpoint.js';
import type { LeavingParts, SessionParts } from './parts.js';
import type { ConnectionHost } from './session-settings.js';

/** What a part asks of its server that brings sessions or connections to it. */
export interface SessionsHost extends ConnectionHost {
  readonly parts: SessionParts & LeavingParts;
  /** The refusal of all clients while the server drains or closes. */
  admitPassed(): Refusal | undefined;
  /** Refuses a connection that is led to another server, while draining or beyond a quota. Counts the one that it admits. */
  admitGuided(address: string): Refusal | undefined;
  /** Counts a session that comes from another server. @throws {ProtocolError} `rate_limited`. */
  admitMoved(address: string, principal: string | undefined, isLed: boolean): void;
  /** Counts a session whose server has died, or says why it is refused. */
  admitTakenOver(address: string, principal: string | undefined): Refusal | undefined;
  /** A connection that another server may have authenticated. */
  begin(wire: Transport, peer: PassedPeer, subprotocol: Subprotocol, refusal: Refusal | undefined): void;
  /** A session that was made elsewhere is here from now on. @param join gives it to parts. */
  onRestored(session: ServerEndpoint, join: () => void): void;
  /** Calls `onSession`, again for a session that stays. */
  run(session: ServerEndpoint): void;
}
