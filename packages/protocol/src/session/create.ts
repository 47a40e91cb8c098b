import { ALL_CODE } from './all-code.js';
import { createClientSession } from './create-client.js';
import { createServerSession } from './create-server.js';
import type { SessionCore, SessionOptions } from './types.js';

/** Creates one end of a session; see {@link SessionCore} for how to drive it. */
export function createSession(options: SessionOptions): SessionCore {
  return options.role === 'server' ? createServerSession(options) : createClientSession(options, ALL_CODE);
}
