import type { SessionCode } from './channel-module.js';
import { ClientRole } from './client-role.js';
import { Core } from './session.js';
import type { SessionCore, SessionOptions } from './types.js';

/**
 * Creates the client's end of a session, without the code of a server.
 *
 * @param code the loaded parts of it. A recorded session always needs `openChannel`.
 */
export function createClientSession(options: Omit<SessionOptions, 'role'>, code: SessionCode): SessionCore {
  return new Core({ ...options, role: 'client' }, (session) => new ClientRole(session), code);
}
