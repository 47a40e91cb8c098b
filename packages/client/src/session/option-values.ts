import { ProtocolError } from '@parlance/protocol/client';

/** @throws {ProtocolError} `invalid_option`, without the token in its message. */
export function assertToken(token: unknown): asserts token is string | undefined {
  if (token === undefined || (typeof token === 'string' && token !== '' && token.length <= MAX_TOKEN)) return;
  throw new ProtocolError(
    'invalid_option',
    `token: expected a string of 1 to ${MAX_TOKEN} characters, or a function that returns one`,
  );
}
const MAX_TOKEN = 16 * 1024;
