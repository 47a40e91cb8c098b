import * as bare from './bare-module.js';
import { createClientSession } from './create-client.js';
import { ServerRole } from './server-role.js';
import { Core } from './session.js';
import type { SessionCore, SessionOptions } from './types.js';

/** Creates one end of a session; see {@link SessionCore} for how to drive it. */
export function createSession(options: SessionOptions): SessionCore {
  return options.role === 'server'
    ? new Core(options, (session) => new ServerRole(session), bare)
    : createClientSession(options, bare);
}
