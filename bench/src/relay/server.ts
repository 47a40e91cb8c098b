import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createServer } from '@parlance/server';
import { type WebSocket, WebSocketServer } from 'ws';
import { offer } from '../process/channel.js';

/** A relay in a process of its own: `session`, or `ws` that hands buffers from one socket to another. */

export type RelayName = 'ws' | 'session';

interface Serving {
  readonly port: number;
  /** Bodies that were decoded and coded anew. */
  recoded(): number;
}

async function serveSessions(): Promise<Serving> {
  const server = createServer({
    algorithms: ['NONE'],
    encodings: [],
    extensions: { context: false },
    limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
    authenticate: ({ token }) => ({ principal: 'bench', agentId: token }),
  });
  const { port } = await server.listen();
  return { port, recoded: () => server.relayStats().recoded };
}

async function serveBuffers(): Promise<Serving> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false });
  const agents = new Map<string, WebSocket>();
  server.on('connection', (webSocket: WebSocket, request: IncomingMessage) => {
    agents.set(request.url ?? '', webSocket);
    webSocket.on('error', () => {});
    webSocket.on('message', (data, isBinary) => agents.get('/receiver')?.send(data, { binary: isBinary }));
  });
  await new Promise((resolve) => server.once('listening', resolve));
  return { port: (server.address() as AddressInfo).port, recoded: () => 0 };
}

const { port, recoded } = await (process.argv[2] === 'ws' ? serveBuffers() : serveSessions());

const commands = {
  port: () => port,

  mark() {
    const { user, system } = process.cpuUsage();
    return { cpuUs: user + system, recoded: recoded() };
  },
};
export type RelayServerCommands = typeof commands;

offer(commands);
