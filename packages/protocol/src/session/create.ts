import { ClientRole } from './client-role.js';
import { ServerRole } from './server-role.js';
import { Core } from './session.js';
import type { SessionCore, SessionOptions } from './types.js';

/** Creates one end of a session; see {@link SessionCore} for how to drive it. */
export function createSession(options: SessionOptions): SessionCore {
  return options.role === 'server' ? createServerSession(options) : createClientSession(options);
}

/** Like {@link createSession}, without the code of a server: what a browser loads. */
export function createClientSession(options: Omit<SessionOptions, 'role'>): SessionCore {
  return new Core({ ...options, role: 'client' }, (session) => new ClientRole(session));
}

function createServerSession(options: SessionOptions): SessionCore {
  return new Core(options, (session) => new ServerRole(session));
}
