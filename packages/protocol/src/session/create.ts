import * as bare from './bare-module.js';
import { createClientSession } from './create-client.js';
import { ServerRole } from './server-role.js';
import { Core } from './session.js';
import type { SessionCore, SessionOptions } from './types.js';

/** Creates one end of a session; see {@link SessionCore} for how to drive it. */
export function createSession(options: SessionOptions): SessionCore {
  const complete = { bare, ...options };
  return options.role === 'server'
    ? new Core(complete, (session) => new ServerRole(session))
    : createClientSession(complete);
}
