import { ProtocolError } from '@parlance/protocol/client';

/** The URL without user and query, which may contain secrets. */
export function cannotConnect({ protocol, host, pathname }: URL): string {
  return `cannot connect to ${protocol}//${host}${pathname}: `;
}

/** The error for a connection that could not be opened. */
export function connectionFailure(url: URL, reason: string, cause?: unknown): ProtocolError {
  return new ProtocolError('connection_failed', cannotConnect(url) + reason, { cause });
}

/** Advice on a failed connection whose cause is unknown. */
export function unreached({ protocol }: URL): string {
  const tls =
    '; if it is there, wss: needs TLS and a certificate that is trusted here, and a server without TLS needs ws:';
  return `is the server running, and are host, port and path right?${protocol === 'wss:' ? tls : ''}`;
}
