import type { BareModule } from './channel-module.js';
import { ClientRole } from './client-role.js';
import { Core } from './session.js';
import type { SessionCore, SessionOptions } from './types.js';

/**
 * Creates the client's end of a session, without the code of a server.
 *
 * @param bare the code of sessions without a link and of JSON envelopes, if it is loaded. Without it, the subprotocol
 * has to be binary, and the session needs `openChannel` if the ends agree on no link. A session on record needs it always.
 */
export function createClientSession(
  options: Omit<SessionOptions, 'role'>,
  bare: BareModule | undefined,
): SessionCore {
  return new Core({ ...options, role: 'client' }, (session) => new ClientRole(session), bare);
}
