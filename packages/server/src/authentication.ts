import { randomBytes } from 'node:crypto';
import { type Logger, loggable } from '@parlance/protocol';
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
  const { ip, agentId } = credentials;
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
    if (expiresAt === undefined) return identity;
    if (typeof expiresAt !== 'number' || Number.isNaN(expiresAt)) {
      throw new TypeError('authenticate returned an identity whose expiresAt is no number');
    }
    // Infinity, or as good as that.
    if (expiresAt > Number.MAX_SAFE_INTEGER) return { ...identity, expiresAt: undefined };
    if (expiresAt > now()) return identity;
    const fields = { event: 'auth.expired', ip, expiresAt };
    logger.info(
      fields,
      'authenticate returned an identity whose time is over; expiresAt is in Unix milliseconds',
    );
    return undefined;
  } catch (error) {
    logger.warn({ event: 'auth.failed', ip, err: loggable(error) }, 'authenticate threw, which refuses');
    return undefined;
  }
}
