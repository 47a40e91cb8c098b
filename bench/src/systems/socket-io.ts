import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server } from 'socket.io';
import { type FrameSocket, maskedFrame, Opcode } from '../load/frame-socket.js';
import { repeated } from '../load/repeated.js';
import { chunksOf, STREAM_MARK, type System } from './system.js';

/**
 * socket.io with binary messages over its WebSocket transport, with its fastest options. The load speaks
 * Engine.IO 4 directly: a binary event is a text frame with a placeholder, followed by the bytes.
 */
export const socketIo: System = {
  target: { path: '/socket.io/?EIO=4&transport=websocket', subprotocol: undefined },

  async serve(onEcho) {
    const http = createServer();
    const io = new Server(http, {
      transports: ['websocket'],
      perMessageDeflate: false,
      httpCompression: false,
      serveClient: false,
    });
    io.on('connection', (socket) => {
      const streamBack = async (data: Buffer, acknowledge: () => void): Promise<void> => {
        for await (const chunk of chunksOf(data)) {
          socket.emit('chunk', chunk);
          onEcho();
        }
        acknowledge();
      };
      socket.on('message', (data: Buffer, acknowledge?: (reply?: Buffer) => void) => {
        if (acknowledge !== undefined && data[0] === STREAM_MARK) {
          void streamBack(data.subarray(1), acknowledge);
          return;
        }
        if (acknowledge === undefined) socket.emit('message', data);
        else acknowledge(data);
        onEcho();
      });
    });
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    return { port: (http.address() as AddressInfo).port, count: () => io.engine.clientsCount };
  },

  speak(socket, { exchange, question, depth }, { onReady, onEcho, onChunk, onEnd }) {
    // A real client increments its acknowledgement ID; to the server all IDs are alike.
    const id = exchange === 'message' ? '' : '7';
    const event = maskedText(`451-${id}["message",{"_placeholder":true,"num":0}]`);
    const frames = repeated(Buffer.concat([event, maskedFrame(Opcode.BINARY, question)]), depth);
    const onBytes = exchange === 'stream' ? onChunk : onEcho;
    return {
      handleOpen() {},
      handleFrame(opcode, frame) {
        if (opcode === Opcode.BINARY) return onBytes(frame);
        // '4' message, '5' binary event and '6' binary acknowledgement announce the bytes that follow; '3' is
        // an acknowledgement without bytes.
        const second = frame[1];
        if (frame[0] === DIGIT_4 && second === DIGIT_3) return onEnd();
        if (frame[0] === DIGIT_4 && second !== undefined && second !== DIGIT_0) return;
        handleControl(socket, Buffer.from(frame).toString(), onReady);
      },
      ask: (count) => socket.write(frames(count)),
      close() {
        socket.write(maskedText('41'));
        socket.close();
      },
    };
  },
};

const DIGIT_0 = 0x30;
const DIGIT_3 = 0x33;
const DIGIT_4 = 0x34;

function handleControl(socket: FrameSocket, text: string, onReady: () => void): void {
  if (text.startsWith('0')) socket.write(maskedText('40'));
  else if (text.startsWith('40')) onReady();
  else if (text === '2') socket.write(maskedText('3'));
  else throw new Error(`socket.io sent ${text}`);
}

function maskedText(text: string): Uint8Array {
  return maskedFrame(Opcode.TEXT, Buffer.from(text));
}
