import type { TlsOptions } from 'node:tls';
import { type Limits, Subprotocol } from '@parlance/protocol';
import type { DialOptions, WebSocketAdapterOptions } from '../transport/websocket/ws.js';
import { clientSide } from './client-side.js';
import type { KnownNode } from './membership.js';
import { TICKET_SCHEME } from './peer-port.js';

/** Room in a message between nodes beside the body: for its metadata and the head. */
const MESSAGE_HEAD_ROOM = 256 * 1024;

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
    subprotocol: Subprotocol.BINARY,
    headers: { authorization: `${TICKET_SCHEME} ${ticket}` },
    tls: clientSide(tls),
  };
}

/** Options of connections between nodes, whose messages carry whole bodies. */
export function nodeWebSocket(webSocket: WebSocketAdapterOptions, { maxMessageSize }: Limits) {
  const maxPayload = Math.min(maxMessageSize + MESSAGE_HEAD_ROOM, 2 ** 31 - 1);
  return { ...webSocket, maxPayload: Math.max(maxPayload, webSocket.maxPayload + MESSAGE_HEAD_ROOM) };
}
