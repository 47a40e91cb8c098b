import type { Endpoint } from './endpoint.js';
import type { Session } from './session.js';
import { hostOf, type UserSession } from './user-session.js';

/** The endpoint of a session that it gave to an application. */
export function endpointOf(session: Session): Endpoint {
  return hostOf(session as UserSession) as Endpoint;
}
