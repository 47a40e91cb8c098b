import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { maskedFrame, Opcode } from '../load/frame-socket.js';
import { repeated } from '../load/repeated.js';
import type { System } from './system.js';

type Attach = (webSocket: WebSocket, socket: Duplex, onEcho: () => void) => void;

/** The plain library: every message is written at once. */
const attachPlain: Attach = (webSocket, _socket, onEcho) => {
  webSocket.on('message', (data, isBinary) => {
    webSocket.send(data, { binary: isBinary });
    onEcho();
  });
};

/** The strongest baseline: all echoes of a tick leave in one system call. */
const attachCorked: Attach = (webSocket, socket, onEcho) => {
  let isCorked = false;
  const uncork = () => {
    isCorked = false;
    socket.uncork();
  };
  webSocket.on('message', (data, isBinary) => {
    if (!isCorked) {
      isCorked = true;
      socket.cork();
      process.nextTick(uncork);
    }
    webSocket.send(data, { binary: isBinary });
    onEcho();
  });
};

function createWebSocketSystem(attach: Attach): System {
  return {
    target: { path: '/', subprotocol: undefined },

    async serve(onEcho) {
      const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false });
      server.on('connection', (webSocket: WebSocket, request: IncomingMessage) => {
        webSocket.on('error', () => {});
        attach(webSocket, request.socket, onEcho);
      });
      await new Promise((resolve) => server.once('listening', resolve));
      return { port: (server.address() as AddressInfo).port, count: () => server.clients.size };
    },

    speak(socket, { question, depth }, { onReady, onEcho }) {
      const frames = repeated(maskedFrame(Opcode.BINARY, question), depth);
      return {
        handleOpen: onReady,
        handleFrame: (_opcode, echo) => onEcho(echo),
        ask: (count) => socket.write(frames(count)),
        close: () => socket.close(),
      };
    },
  };
}

export const plainWebSocket = createWebSocketSystem(attachPlain);
export const corkedWebSocket = createWebSocketSystem(attachCorked);
