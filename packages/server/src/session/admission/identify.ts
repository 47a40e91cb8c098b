import { CloseCode, ProtocolError } from '@parlance/protocol';
import { systemClock } from '@parlance/protocol/internal';
import { addressKey } from '../../transport/http/addresses.js';
import type { Peer, TurnedAway } from '../../transport/http/door.js';
import { bearerToken, type Refusal } from '../../transport/http/site.js';
import type { ServingOptions } from '../options.js';
import { type CheckedIdentity, UNCHECKED, unauthenticated } from './admission.js';
import type { Quotas } from './quotas.js';
import { identifyOrigin, type Origin, originOf } from './renewal.js';

/** Claims of a client beside the headers of its request. */
export interface Stated {
  /** @default the token of an `Authorization: Bearer` header */
  readonly token?: string | undefined;
  /** @default none */
  readonly agentId?: string | undefined;
}

/** The identity of a client, as the application has returned it. */
export interface Identified {
  readonly identity: CheckedIdentity;
  readonly origin: Origin;
}

/**
 * Asks the application who a client is, within the limits of its address. Credentials that are wrong count against that.
 *
 * @param isNew whether a new session may begin, which has a limit of its own.
 */
export async function identifyPeer(
  { ip, request }: Peer,
  { token = bearerToken(request.headers), agentId }: Stated,
  isNew: boolean,
  { options, quotas }: { readonly options: ServingOptions; readonly quotas: Quotas },
): Promise<Identified | Refusal> {
  const address = addressKey(ip);
  const limited = quotas.checkAttempt(address, isNew, systemClock.now());
  if (limited !== undefined) return limited;
  const origin = originOf(request, ip, agentId);
  const identity = await identifyOrigin(token, origin, options);
  if (typeof identity === 'object') return { identity, origin };
  quotas.fail(address, systemClock.now());
  if (identity !== undefined) return UNCHECKED[identity];
  return unauthenticated(token, options.authenticate === undefined);
}

const STATUS: Readonly<Record<number, readonly [ProtocolError['code'], number]>> = {
  [CloseCode.UNAUTHENTICATED]: ['unauthenticated', 401],
  [CloseCode.FORBIDDEN]: ['forbidden', 403],
  [CloseCode.RATE_LIMITED]: ['rate_limited', 429],
  [CloseCode.DRAINING]: ['draining', 503],
};

/** The status of HTTP that a refused client gets, by the error that says so. */
const refusals = new WeakMap<ProtocolError, number>();

type Refused = Pick<ProtocolError, 'message' | 'closeCode'> & Pick<Refusal, 'retryAfterMs'>;

/** The error of a client that is refused. A handler of HTTP that throws it has its request answered with it. */
export function refusedError({ message, closeCode, retryAfterMs }: Refused): ProtocolError {
  const [code, status] = STATUS[closeCode] ?? ['internal', 500];
  const error = new ProtocolError(code, message, { closeCode, retryAfterMs });
  refusals.set(error, status);
  return error;
}

/** How {@link TurnedAway} is said to a feature. */
export function turnedAwayError({ status, ...rest }: TurnedAway): ProtocolError {
  return refusedError({ ...rest, closeCode: status === 429 ? CloseCode.RATE_LIMITED : CloseCode.DRAINING });
}

/** The status of HTTP for an error of {@link refusedError}; `undefined` for others. */
export function statusOf(error: unknown): number | undefined {
  return refusals.get(error as ProtocolError);
}
