import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import * as zlib from 'node:zlib';
import WebSocket, { WebSocketServer } from 'ws';
import type { End, TransferSystem } from './ends.js';
import { generate } from './generated.js';

/** In Node since 20.15, but missing from some versions of its types. */
const { crc32 } = zlib as unknown as { crc32(data: Uint8Array, value?: number): number };

/**
 * A hand-written protocol: chunks as binary messages with one send outstanding, then their CRC as text, which
 * the receiver compares with its own and confirms.
 */
export const system: TransferSystem = {
  async serve(onEnd) {
    const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false });
    server.on('connection', (socket) => onEnd(endOf(socket)));
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    return { port, close: () => new Promise((resolve) => server.close(() => resolve())) };
  },

  async connect(port, role) {
    const path = role === undefined ? '' : `/${role}-0`;
    const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, { perMessageDeflate: false });
    await once(socket, 'open');
    return endOf(socket);
  },
};

function endOf(socket: WebSocket): End {
  let received = 0;
  let confirm: ((error?: Error) => void) | undefined;
  let answer: (() => void) | undefined;
  socket.on('message', (data: Buffer, isBinary) => {
    if (isBinary) {
      received = crc32(data, received);
      return;
    }
    const text = data.toString();
    switch (text) {
      case 'ping':
        socket.send('pong');
        break;
      case 'pong':
        answer?.();
        break;
      case 'right':
        confirm?.();
        break;
      case 'wrong':
        confirm?.(new Error('the checksum was wrong'));
        break;
      default:
        socket.send(Number(text) === received ? 'right' : 'wrong');
        received = 0;
    }
  });
  return {
    async send(bytes) {
      let crc = 0;
      for (const chunk of generate(bytes)) {
        crc = crc32(chunk, crc);
        await new Promise<void>((resolve, reject) =>
          socket.send(chunk, (error) => (error ? reject(error) : resolve())),
        );
      }
      const confirmed = new Promise<void>((resolve, reject) => {
        confirm = (error) => (error ? reject(error) : resolve());
      });
      socket.send(String(crc));
      await confirmed;
    },
    async ping() {
      const answered = new Promise<void>((resolve) => {
        answer = resolve;
      });
      socket.send('ping');
      await answered;
    },
    async close() {
      socket.close();
      await once(socket, 'close');
    },
  };
}
