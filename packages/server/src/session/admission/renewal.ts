import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { ProtocolError } from '@parlance/protocol';
import { isForwarded } from '../../transport/http/addresses.js';
import type { ServerEndpoint } from '../endpoint.js';
import type { ServingOptions } from '../options.js';
import type { CheckedIdentity } from './admission.js';
import { identify, type Unchecked } from './authentication.js';

/** Credentials that expire, and the new ones that a client sends for them. */

/** The arguments of `authenticate` besides the token, kept while the client may send new credentials. */
export interface Origin {
  readonly ip: string;
  readonly agentId: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly isForwarded: boolean;
}

type Options = Pick<ServingOptions, 'authenticate' | 'logger'>;

/** Origins of the sessions whose clients were authenticated. */
const renewable = new WeakMap<ServerEndpoint, Origin>();

/** @param agentId as HELLO states it. */
export function originOf(upgrade: IncomingMessage, ip: string, agentId: string | undefined): Origin {
  return { ip, agentId, headers: upgrade.headers, isForwarded: isForwarded(upgrade) };
}

/** `undefined` if the credentials are refused. */
export async function identifyOrigin(
  token: string | undefined,
  { ip, agentId, headers, isForwarded }: Origin,
  { authenticate, logger }: Options,
): Promise<CheckedIdentity | Unchecked | undefined> {
  const credentials = { token, origin: headers.origin, agentId, ip, headers };
  return await identify(credentials, isForwarded, { authenticate, logger, now: Date.now });
}

/** Lets the client of a session renew its credentials. */
export function setOrigin(session: ServerEndpoint, origin: Origin, { authenticate }: Options): void {
  if (authenticate !== undefined) renewable.set(session, origin);
}

/** Sends the client the time at which its credentials expire, and lets it renew them. */
export function grant(
  session: ServerEndpoint,
  { expiresAt }: CheckedIdentity,
  origin: Origin,
  options: Options,
): void {
  if (session.hasEnded) return;
  setOrigin(session, origin, options);
  if (expiresAt !== undefined) session.grant(Math.floor(expiresAt));
}

/** Checks new credentials, which must be those of the same principal and `agentId`; any others end the session. */
export async function renew(session: ServerEndpoint, token: string, options: Options): Promise<void> {
  const origin = renewable.get(session);
  // Without `authenticate` there is nothing to check.
  if (origin === undefined) return session.grant(null);
  const { logger } = options;
  const identity = await identifyOrigin(token, origin, options);
  // Another connection that has resumed the session meanwhile has proved on its own who its client is.
  if (session.hasEnded || renewable.get(session) !== origin) return;
  if (typeof identity === 'string') {
    session.abort(new ProtocolError('internal', 'the new credentials could not be checked'));
    return;
  }
  const isSame = identity?.principal === session.principal && identity?.agentId === session.agentId;
  if (identity === undefined || !isSame) {
    const why = identity === undefined ? 'were refused' : 'belong to another principal or agentId';
    logger.warn({ event: 'auth.refused', ip: origin.ip, session: session.id }, `new credentials ${why}`);
    session.abort(new ProtocolError('unauthenticated', `the new credentials ${why}`));
    return;
  }
  logger.debug({ event: 'auth.renewed', session: session.id }, 'credentials renewed');
  session.grant(identity.expiresAt === undefined ? null : Math.floor(identity.expiresAt));
}
