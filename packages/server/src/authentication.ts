import { randomBytes } from 'node:crypto';
import type { Logger } from '@parlance/protocol';
import { isLoopback } from './addresses.js';
import type { Authenticate, Credentials, Identity } from './admission.js';

export interface AuthenticationOptions {
  readonly authenticate: Authenticate | undefined;
  readonly logger: Logger;
  /** Unix milliseconds. */
  readonly now: () => number;
}

/**
 * Finds out who a client is. What `authenticate` throws refuses; so does an identity that is none or whose
 * time is over.
 *
 * @param isForwarded somebody in between says that the connection began elsewhere.
 */
export async function identify(
  credentials: Credentials,
  isForwarded: boolean,
  { authenticate, logger, now }: AuthenticationOptions,
): Promise<Identity | undefined> {
  const { ip, agentId, token } = credentials;
  if (authenticate === undefined) {
    // A reverse proxy on this machine makes everybody look local.
    if (!isLoopback(ip) || isForwarded) return undefined;
    return { principal: `local-${randomBytes(12).toString('hex')}`, agentId };
  }
  try {
    const identity = await authenticate(credentials);
    if (identity === null || identity === undefined) return undefined;
    const { principal, expiresAt } = identity;
    if (typeof principal !== 'string' || principal === '') {
      throw new TypeError('authenticate returned an identity without a principal');
    }
    return expiresAt !== undefined && !(expiresAt > now()) ? undefined : identity;
  } catch (error) {
    logger.warn(
      { event: 'auth.failed', ip, err: withoutToken(error, token) },
      'authenticate threw, which refuses',
    );
    return undefined;
  }
}

/** An error of somebody else's, which may quote the credentials that it could not read. */
function withoutToken(error: unknown, token: string | undefined): unknown {
  if (!(error instanceof Error)) return typeof error;
  const hide = (text: string) => (token === undefined ? text : text.replaceAll(token, '[token]'));
  return { type: error.name, message: hide(error.message), stack: hide(error.stack ?? '') };
}
