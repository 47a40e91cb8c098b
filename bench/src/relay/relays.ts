import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createServer, without } from '@parlance/server';
import { type WebSocket, WebSocketServer } from 'ws';
import { UNLIMITED } from '../unlimited.js';

/** The relay between two agents: a session server, or one written by hand. */

export type RelayName = 'session' | 'ws';

export interface Relay {
  readonly port: number;
  /** Bodies that were decoded and encoded again. */
  recoded(): number;
}

/** The names of the agents of a pair. A sender writes to the receiver of its pair. */
export const senderName = (pair: number): string => `sender-${pair}`;
export const receiverName = (pair: number): string => `receiver-${pair}`;

/** A session server whose clients state their agent ID in the token. */
export async function serveSessions(): Promise<Relay> {
  const server = createServer({
    algorithms: ['NONE'],
    encodings: [],
    features: [without('context')],
    limits: UNLIMITED,
    authenticate: ({ token }) => ({ principal: 'bench', agentId: token }),
  });
  const { port } = await server.listen();
  return { port, recoded: () => server.relayStats().recoded };
}

/**
 * Forwards every message of `/sender-N` to `/receiver-N` and vice versa, in the buffer that it came in: small
 * messages at once, large ones with one send outstanding.
 */
export async function serveBuffers(): Promise<Relay> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false });
  const agents = new Map<string, WebSocket>();
  server.on('connection', (webSocket: WebSocket, { url = '' }: IncomingMessage) => {
    const path = new URL(url, 'ws://relay').pathname;
    const other = path.replace(/sender|receiver/, (role) => (role === 'sender' ? 'receiver' : 'sender'));
    agents.set(path, webSocket);
    webSocket.on('error', () => {});
    webSocket.on('message', (data: Buffer, binary) => {
      const target = agents.get(other);
      if (data.length < LARGE) {
        target?.send(data, { binary });
        return;
      }
      webSocket.pause();
      target?.send(data, { binary }, () => webSocket.resume());
    });
  });
  await once(server, 'listening');
  return { port: (server.address() as AddressInfo).port, recoded: () => 0 };
}

/** Bytes from which a message counts as a chunk of something larger. */
const LARGE = 128 * 1024;
