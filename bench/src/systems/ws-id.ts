import type { AddressInfo } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';
import { maskedFrame, Opcode } from '../load/frame-socket.js';
import { repeated } from '../load/repeated.js';
import { chunksOf, STREAM_MARK, type System } from './system.js';

/**
 * Requests as an application would add them to plain `ws`: a four-byte ID before each request, and the same
 * ID and a type byte before every answer. No errors, no cancelling, no limits.
 */

const ID_LENGTH = 4;
const HEAD_LENGTH = ID_LENGTH + 1;
const Kind = { ANSWER: 0, CHUNK: 1, END: 2 } as const;
const NOTHING = new Uint8Array(0);

export const webSocketWithIds: System = {
  target: { path: '/', subprotocol: undefined },

  async serve(onEcho) {
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false });
    const streamBack = async (webSocket: WebSocket, id: Buffer, payload: Buffer): Promise<void> => {
      for await (const chunk of chunksOf(payload)) {
        webSocket.send(reply(id, Kind.CHUNK, chunk));
        onEcho();
      }
      webSocket.send(reply(id, Kind.END, NOTHING));
    };
    server.on('connection', (webSocket: WebSocket) => {
      webSocket.on('error', () => {});
      webSocket.on('message', (data: Buffer) => {
        const [id, question] = [data.subarray(0, ID_LENGTH), data.subarray(ID_LENGTH)];
        if (question[0] === STREAM_MARK) {
          void streamBack(webSocket, id, question.subarray(1));
        } else {
          webSocket.send(reply(id, Kind.ANSWER, question));
          onEcho();
        }
      });
    });
    await new Promise((resolve) => server.once('listening', resolve));
    return { port: (server.address() as AddressInfo).port, count: () => server.clients.size };
  },

  speak(socket, { question, depth }, { onReady, onEcho, onChunk, onEnd }) {
    const request = Buffer.concat([Uint8Array.of(0, 0, 0, 7), question]);
    const frames = repeated(maskedFrame(Opcode.BINARY, request), depth);
    return {
      handleOpen: onReady,
      handleFrame(_opcode, frame) {
        const body = frame.subarray(HEAD_LENGTH);
        if (frame[ID_LENGTH] === Kind.END) onEnd();
        else if (frame[ID_LENGTH] === Kind.CHUNK) onChunk(body);
        else onEcho(body);
      },
      ask: (count) => socket.write(frames(count)),
      close: () => socket.close(),
    };
  },
};

function reply(id: Uint8Array, kind: number, body: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(HEAD_LENGTH + body.length);
  frame.set(id);
  frame[ID_LENGTH] = kind;
  frame.set(body, HEAD_LENGTH);
  return frame;
}
