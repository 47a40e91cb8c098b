import type { TlsOptions } from 'node:tls';
import type { DialOptions, WebSocketAdapterOptions } from '../http/ws.js';
import { clientSide } from './client-side.js';
import type { KnownNode } from './membership.js';
import { TICKET_SCHEME } from './peer-port.js';
import { RELAY_SUBPROTOCOL } from './relay/relay-peers.js';

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
