import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createServer } from '@parlance/server';
import { createUserInterface } from '@parlance/server/ui';
import { Server as SocketIoServer } from 'socket.io';
import { WebSocketServer } from 'ws';
import { createResponder } from '../../../examples/demo/responder.js';
import { BUILT_PAGES } from '../../../scripts/build-ui.js';
import { offer } from '../../../scripts/child-process.js';
import { UNLIMITED } from '../unlimited.js';
import { listenLate } from './late.js';

/** The servers that the pages connect to, in a process of their own. Each echoes messages. */

const sessions = createServer({
  limits: UNLIMITED,
  // The pages have another origin.
  origins: ['*'],
  async onSession(session) {
    for await (const message of session) await session.send(message.text);
  },
  onRequest: createResponder(),
});

const http = createHttpServer();
const socketIo = new SocketIoServer(http, { serveClient: false, cors: { origin: '*' } });
socketIo.on('connection', (socket) => {
  socket.on('message', (text: string) => void socket.emit('message', text));
});

const plain = new WebSocketServer({ port: 0, host: '127.0.0.1' });
plain.on('connection', (webSocket) => {
  webSocket.on('message', (data, isBinary) => webSocket.send(data, { binary: isBinary }));
});

const { url } = await sessions.listen();
await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
const portOf = (address: AddressInfo | string | null) => (address as AddressInfo).port;

const commands = {
  /** The address of the chat page, as `parlance serve` shows it. It must have been built. */
  async chatPage() {
    const chat = createServer({ limits: UNLIMITED, onRequest: createResponder() });
    const { port } = await chat.listen({ respond: createUserInterface({ folder: BUILT_PAGES }) });
    return `http://127.0.0.1:${port}/`;
  },

  /** Addresses of the servers, over connections that delay messages by that many milliseconds. */
  async urls(latencyMs: number) {
    const at = (port: number) => (latencyMs === 0 ? port : listenLate(port, latencyMs));
    return {
      session: `ws://127.0.0.1:${await at(Number(new URL(url).port))}/session`,
      'socket.io': `http://127.0.0.1:${await at(portOf(http.address()))}`,
      ws: `ws://127.0.0.1:${await at(portOf(plain.address()))}`,
    };
  },
};
export type PageServerCommands = typeof commands;

offer(commands);
