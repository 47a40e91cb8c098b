import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createServer } from '@parlance/server';
import { type WebSocket, WebSocketServer } from 'ws';
import { UNLIMITED } from '../unlimited.js';

/** What stands between two agents: our server, or what one would write by hand. */

export type RelayName = 'session' | 'ws';

export interface Relay {
  readonly port: number;
  /** Bodies that were decoded and coded anew. */
  recoded(): number;
}

/** Where each agent connects to as what, and whom the one of a pair writes to. */
export const senderName = (pair: number): string => `sender-${pair}`;
export const receiverName = (pair: number): string => `receiver-${pair}`;

/** A session server whose clients say in their token who they are. */
export async function serveSessions(): Promise<Relay> {
  const server = createServer({
    algorithms: ['NONE'],
    encodings: [],
    extensions: { context: false },
    limits: UNLIMITED,
    authenticate: ({ token }) => ({ principal: 'bench', agentId: token }),
  });
  const { port } = await server.listen();
  return { port, recoded: () => server.relayStats().recoded };
}

/**
 * Hands every message of `/sender-N` to `/receiver-N` and the other way round as the buffer that it came
 * in: a stream of messages at once, chunks of something large with one of them outstanding.
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

/** Bytes of a message that is a piece of something larger. */
const LARGE = 128 * 1024;
