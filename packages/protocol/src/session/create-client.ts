import { ClientRole } from './client-role.js';
import { Core } from './session.js';
import type { SessionCore, SessionOptions } from './types.js';

/** Creates the client's end of a session, without the code of a server and of {@link SessionOptions.bare}. */
export function createClientSession(options: Omit<SessionOptions, 'role'>): SessionCore {
  return new Core({ ...options, role: 'client' }, (session) => new ClientRole(session));
}
