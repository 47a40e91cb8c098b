import { createHash } from 'node:crypto';
import { type Logger, ProtocolError } from '@parlance/protocol';
import {
  isLocalPrincipal,
  isStatedAgentId,
  loggable,
  newLocalPrincipal,
  truncateUnits,
} from '@parlance/protocol/internal';
import { isLoopback } from '../../transport/http/addresses.js';
import { encodeData } from '../served-session.js';
import type { Authenticate, CheckedIdentity, Credentials, Identity } from './admission.js';

export interface AuthenticationOptions {
  readonly authenticate: Authenticate | undefined;
  readonly logger: Logger;
  /** Unix milliseconds. */
  readonly now: () => number;
}

/** Milliseconds that `authenticate` has. */
export const AUTHENTICATE_MS = 10_000;

/** Why the credentials of a client could not be checked, by no fault of the client. */
export type Unchecked = 'failed' | 'late';

/**
 * Authenticates a client. Returns `undefined` if `authenticate` returns no identity or an expired one; `failed` if it
 * throws, or returns an invalid one; `late` if it has not settled in {@link AUTHENTICATE_MS}.
 *
 * @param isForwarded whether a header states that the request was forwarded by a proxy.
 */
export async function identify(
  credentials: Credentials,
  isForwarded: boolean,
  { authenticate, logger, now }: AuthenticationOptions,
): Promise<CheckedIdentity | Unchecked | undefined> {
  const { ip } = credentials;
  if (authenticate === undefined) {
    // Behind a reverse proxy on this machine every client looks local.
    if (!isLoopback(ip) || isForwarded) return undefined;
    return { principal: localPrincipal(credentials.token), agentId: credentials.agentId };
  }
  try {
    const identity = await settled(authenticate(credentials));
    if (identity === LATE) {
      const err = loggable(new ProtocolError('timeout', `no answer within ${AUTHENTICATE_MS} ms`));
      logger.warn(
        { event: 'auth.late', ip, err },
        'authenticate has not settled, so the client was refused; give what it waits for a time limit',
      );
      return 'late';
    }
    if (!identity) return undefined;
    const checked = checkIdentity(identity);
    const { expiresAt } = checked;
    if (expiresAt === undefined || expiresAt > now()) return checked;
    const fields = { event: 'auth.expired', ip, expiresAt };
    logger.info(fields, 'authenticate returned an expired identity; expiresAt is in Unix milliseconds');
    return undefined;
  } catch (error) {
    logger.warn(
      { event: 'auth.failed', ip, err: loggable(error) },
      'authenticate failed, so the client was refused; return null for credentials that are wrong',
    );
    return 'failed';
  }
}

/**
 * Without `authenticate`, a secret of 128 bits that a browser has made up says who it is: all its tabs are one principal.
 * Another token says nothing, as several programs may have it, or one program a new one each time.
 */
function localPrincipal(token: string | undefined): string {
  if (token === undefined || !/^[0-9a-f]{32}$/.test(token)) return newLocalPrincipal();
  return `profile-${createHash('sha256').update(token).digest('base64url')}`;
}

const LATE = Symbol('late');

/** The value to which a promise resolves, or `LATE`. */
async function settled<Value>(value: Value | Promise<Value>): Promise<Value | typeof LATE> {
  if (!(value instanceof Object && 'then' in value)) return value;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<typeof LATE>((resolve) => {
    timer = setTimeout(() => resolve(LATE), AUTHENTICATE_MS);
  });
  try {
    // In contrast to the methods of what was returned, `await` is not the application's.
    const answer = (async () => await value)();
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The principal that quotas count: none that the server has made up for one connection, as it does without `authenticate`. */
export function countedPrincipal(
  principal: string | undefined,
  { authenticate }: Pick<AuthenticationOptions, 'authenticate'>,
): string | undefined {
  const isMadeUp = authenticate === undefined && isLocalPrincipal(principal ?? '');
  return isMadeUp ? undefined : principal;
}

/** Logs that the server serves only clients on its own machine. */
export function warnIfLocal({
  authenticate,
  logger,
}: Pick<AuthenticationOptions, 'authenticate' | 'logger'>): void {
  if (authenticate !== undefined) return;
  const fields = { event: 'server.unauthenticated' };
  logger.warn(fields, 'no authenticate option: only clients on this machine are served');
}

/** UTF-16 units of a name that an error quotes. */
const MAX_QUOTED = 64;

/** A time before that was meant in seconds. Unix milliseconds. */
const YEAR_2001 = 978_307_200_000;

/** The longest principal, in UTF-16 units. */
export const MAX_PRINCIPAL_LENGTH = 256;

/**
 * Validates the identity that an application's `authenticate` returned. Each property is read only once.
 *
 * @throws {ProtocolError} `invalid_argument` if a session cannot have such an identity.
 */
function checkIdentity({ principal, agentId, expiresAt, data, ...others }: Identity): CheckedIdentity {
  const assert = (holds: boolean, what: string): void => {
    if (!holds) throw new ProtocolError('invalid_argument', `authenticate returned an identity ${what}`);
  };
  assert(typeof principal === 'string' && principal !== '', 'without a principal');
  assert(
    principal.length <= MAX_PRINCIPAL_LENGTH,
    `whose principal is longer than ${MAX_PRINCIPAL_LENGTH} characters`,
  );
  assert(
    agentId === undefined || (typeof agentId === 'string' && isStatedAgentId(agentId)),
    'whose agentId is not 1 to 128 letters, digits or characters of "._:@-"',
  );
  assert(
    expiresAt === undefined || (typeof expiresAt === 'number' && !Number.isNaN(expiresAt)),
    'whose expiresAt is not a number',
  );
  assert(
    expiresAt === undefined || !(expiresAt < YEAR_2001),
    `whose expiresAt is before 2001 (${String(expiresAt)}): it is in Unix milliseconds, and a JWT has seconds`,
  );
  const unknown = Object.keys(others);
  assert(
    unknown.length === 0,
    `with the member ${JSON.stringify(truncateUnits(unknown[0] ?? '', MAX_QUOTED))}, which is none; put it into data`,
  );
  // A time beyond the safe integers never comes.
  const isEndless = expiresAt !== undefined && expiresAt > Number.MAX_SAFE_INTEGER;
  return { principal, agentId, expiresAt: isEndless ? undefined : expiresAt, dataText: encodeData(data) };
}
