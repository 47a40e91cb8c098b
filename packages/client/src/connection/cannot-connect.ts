import { ProtocolError } from '@parlance/protocol/client';

/** The URL without user and query, which may contain secrets. */
export function cannotConnect({ protocol, host, pathname }: URL): string {
  return `cannot connect to ${protocol}//${host}${pathname}: `;
}

/** The error for a connection that could not be opened. */
export function connectionFailure(url: URL, reason: string): ProtocolError {
  return new ProtocolError('connection_failed', cannotConnect(url) + reason);
}
