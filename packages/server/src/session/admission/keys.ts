import { Algorithm, ProtocolError } from '@parlance/protocol';
import { loggable } from '@parlance/protocol/internal';
import type { ServingOptions } from '../options.js';

/** The option `security` has to be the same at both ends. If it is not, the server logs that for the operator. */

type Options = Pick<ServingOptions, 'security' | 'logger'>;

/** @param offered by the client: an end with a key states M2M alone. */
export function warnOfKeys(offered: readonly string[], session: string, options: Options): void {
  const isAlone = offered.every((algorithm) => algorithm === Algorithm.M2M);
  const hasKey = options.security !== undefined;
  if (isAlone === hasKey) return;
  const message = hasKey
    ? 'this server has the option security, and a client seems to have none: nothing that it sends without the key is read'
    : 'a client offers M2M alone, as with the option security, and this server has none: nothing that it seals can be read';
  warn(message, 'security_required', session, options);
}

/** Told for each session that ends because a body does not carry the key of this server. */
export function warnOfEnd(error: ProtocolError | undefined, session: string, options: Options): void {
  if (options.security === undefined) return;
  if (error?.code === 'security_required')
    warn('a client has sent a body without the key of this server', error.code, session, options);
  if (error?.code === 'authentication_failed')
    warn('a client has another key than this server, or its body was changed', error.code, session, options);
}

function warn(
  message: string,
  code: 'security_required' | 'authentication_failed',
  session: string,
  { logger }: Options,
): void {
  const advice = 'give both ends the same option security';
  const err = loggable(new ProtocolError(code, advice));
  logger.warn({ event: 'security.differs', session, err }, message);
}
