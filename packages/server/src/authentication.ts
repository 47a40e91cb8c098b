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
  const { ip } = credentials;
  if (authenticate === undefined) {
    // A reverse proxy on this machine makes everybody look local.
    if (!isLoopback(ip) || isForwarded) return undefined;
    return { principal: `local-${randomBytes(12).toString('hex')}`, agentId: credentials.agentId };
  }
  try {
    const identity = await authenticate(credentials);
    if (identity === null || identity === undefined) return undefined;
    // Each field is read once: what follows must not meet a getter that throws.
    const { principal, agentId, expiresAt } = identity;
    if (typeof principal !== 'string' || principal === '') {
      throw new TypeError('authenticate returned an identity without a principal');
    }
    if (agentId !== undefined && typeof agentId !== 'string')
      throw new TypeError('authenticate returned an identity whose agentId is no string');
    if (expiresAt !== undefined && (typeof expiresAt !== 'number' || Number.isNaN(expiresAt)))
      throw new TypeError('authenticate returned an identity whose expiresAt is no number');
    // Infinity, or as good as that.
    if (expiresAt === undefined || expiresAt > Number.MAX_SAFE_INTEGER) return { principal, agentId };
    if (expiresAt > now()) return { principal, agentId, expiresAt };
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
