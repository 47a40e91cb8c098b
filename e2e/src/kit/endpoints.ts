import type { ClientSession } from '@parlance/client';
import { endpointOf, hostOf, type UserSession } from '@parlance/protocol/internal';
import type { Session } from '@parlance/server';
import type { ReconnectingSession } from '../../../packages/client/src/reconnect/reconnecting-session.js';
import type { ClientEndpoint } from '../../../packages/client/src/session/endpoint.js';
import type { ServerEndpoint } from '../../../packages/server/src/session/endpoint.js';

/** The endpoint that drives a session, which its application does not see. */

export function clientEndpoint(session: ClientSession | Session): ClientEndpoint {
  return (hostOf(session as unknown as UserSession) as ReconnectingSession).current;
}

export function serverEndpoint(session: Session | undefined): ServerEndpoint {
  return endpointOf(session as Session) as ServerEndpoint;
}
