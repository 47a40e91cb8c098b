import type { SecureContextOptions, TlsOptions } from 'node:tls';
import type { DialOptions, WebSocketAdapterOptions } from '../http/ws.js';
import type { KnownNode } from './membership.js';
import { TICKET_SCHEME } from './peer-port.js';
import { RELAY_SUBPROTOCOL } from './relay-peers.js';

export interface Dialing extends DialOptions {
  readonly url: string;
}

/** How a node dials another one for a connection of their own. */
export function dialingTo(
  { address }: KnownNode,
  path: string,
  ticket: string,
  webSocket: WebSocketAdapterOptions,
  tls: TlsOptions | undefined,
): Dialing {
  return {
    ...webSocket,
    url: `${address.replace(/\/$/, '')}${path}`,
    subprotocol: RELAY_SUBPROTOCOL,
    headers: { authorization: `${TICKET_SCHEME} ${ticket}` },
    tls: clientSide(tls),
  };
}

/** The options of the port that a client has too. `rejectUnauthorized` is about clients there, and stays on here. */
export function clientSide(tls: TlsOptions | undefined): SecureContextOptions | undefined {
  if (tls === undefined) return undefined;
  const { ca, cert, key, pfx, passphrase, ciphers, crl, minVersion, maxVersion } = tls;
  const given = { ca, cert, key, pfx, passphrase, ciphers, crl, minVersion, maxVersion };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}
