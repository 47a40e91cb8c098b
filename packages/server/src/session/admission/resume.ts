import { type HelloPayload, ResumeRefusal, type Subprotocol } from '@parlance/protocol';
import type { ServerEndpoint } from '../endpoint.js';
import type { ServingOptions } from '../options.js';
import type { CheckedIdentity } from './admission.js';

interface Sessions {
  readonly options: Pick<ServingOptions, 'authenticate'>;
  find(sessionId: string): ServerEndpoint | undefined;
}

/**
 * Decides whether a connection may resume the session that its HELLO names. `undefined` if it names none; else the
 * session, or why it may not be resumed.
 *
 * The session must exist, belong to the same principal and `agentId`, and accept the token, the attempt and the offer.
 */
export function resumable(
  hello: HelloPayload,
  subprotocol: Subprotocol,
  identity: CheckedIdentity,
  sessions: Sessions,
): ServerEndpoint | ResumeRefusal | 'stale_attempt' | undefined {
  const { resume } = hello;
  if (resume === undefined) return undefined;
  const found = sessions.find(resume.sessionId);
  // A client must not learn whether another principal's session exists.
  if (found === undefined || !isSameClient(found, identity, sessions.options))
    return ResumeRefusal.UNKNOWN_SESSION;
  return found.core.checkResume(hello, subprotocol) ?? found;
}

/** Without authentication each connection has a principal of its own, and the resume token alone identifies the client. */
function isSameClient(
  found: ServerEndpoint,
  { principal, agentId }: CheckedIdentity,
  { authenticate }: Sessions['options'],
): boolean {
  return authenticate === undefined || (found.principal === principal && found.agentId === agentId);
}
