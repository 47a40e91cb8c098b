import type { ProtocolError, SessionPort } from '@parlance/protocol';
import type { ServerSession } from './served-session.js';

/** A session of the server, as features see it. */
export interface FeatureSession extends SessionPort<ServerSession> {
  /** Stays the same when the session is resumed, or goes to another node. */
  readonly id: string;
  /** The account that it belongs to. */
  readonly principal: string | undefined;
  readonly agentId: string | undefined;
  /** A connection carries it now. */
  readonly hasWire: boolean;
  /** When it has lost its last connection, in milliseconds of `performance.now()`; 0 before that. */
  readonly lostAt: number;
  readonly hasEnded: boolean;
  /** It is recorded. */
  readonly isDurable: boolean;
  /** Ends the session at once; the client gets the error's code. */
  abort(error: ProtocolError): void;
  /**
   * See {@link Slot}.
   *
   * @internal
   */
  slots: unknown[] | undefined;
}
