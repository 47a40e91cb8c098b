import { ProtocolError, Subprotocol } from '@parlance/protocol/client';

/** The value of an option that has a short form. @throws {ProtocolError} `invalid_option` if both are given. */
export function either<Value>(
  name: string,
  value: Value | undefined,
  shortName: string,
  short: Value | undefined,
): Value | undefined {
  if (value === undefined || short === undefined) return value ?? short;
  throw new ProtocolError('invalid_option', `${name}: ${shortName} is given as well; give only one of them`);
}

/** @throws {ProtocolError} `invalid_option`. */
export function resolveSubprotocol(given: Subprotocol = Subprotocol.BINARY): Subprotocol {
  const names = Object.values(Subprotocol);
  if (names.includes(given)) return given;
  throw new ProtocolError('invalid_option', `subprotocol: expected one of ${names.join(', ')}`);
}

/** @throws {ProtocolError} `invalid_option`, without the token in its message. */
export function assertToken(token: unknown): asserts token is string | undefined {
  if (token === undefined || (typeof token === 'string' && token !== '' && token.length <= MAX_TOKEN)) return;
  throw new ProtocolError(
    'invalid_option',
    `token: expected a string of 1 to ${MAX_TOKEN} characters, or a function that returns one`,
  );
}
const MAX_TOKEN = 16 * 1024;
