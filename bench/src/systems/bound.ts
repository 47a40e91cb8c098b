import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo, Socket } from 'node:net';
import { maskedFrame, Opcode } from '../load/frame-socket.js';
import { repeated } from '../load/repeated.js';
import type { System } from './system.js';

/**
 * The bound that Node's sockets set: an echo of WebSocket frames without a library, a session or an application. It
 * unmasks with native code, and writes the echoes of a read at once, in the memory of that read. It knows whole binary
 * messages, pings and closes, which is what the load sends, and drops a connection that sends anything else.
 */

const { unmask } = createRequire(import.meta.url)('bufferutil') as {
  readonly unmask: (payload: Buffer, mask: Buffer) => void;
};

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const FINAL = 0x80;
const MASK_LENGTH = 4;
const MAX_LENGTH = 1024 * 1024;
const NOTHING = Buffer.alloc(0);

export const bound: System = {
  target: { path: '/', subprotocol: undefined },

  async serve(onEcho) {
    const server = createServer();
    let connections = 0;
    server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
      const accept = createHash('sha1').update(`${request.headers['sec-websocket-key']}${GUID}`);
      socket.setNoDelay();
      socket.write(
        'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
          `Sec-WebSocket-Accept: ${accept.digest('base64')}\r\n\r\n`,
      );
      connections++;
      socket.on('error', () => {});
      socket.on('close', () => connections--);
      if (head.length > 0) socket.unshift(head);
      echo(socket, onEcho);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return { port: (server.address() as AddressInfo).port, count: () => connections };
  },

  speak(socket, { question, depth }, { onReady, onEcho }) {
    const frames = repeated(maskedFrame(Opcode.BINARY, question), depth);
    return {
      handleOpen: onReady,
      handleFrame: (_opcode, payload) => onEcho(payload),
      ask: (count) => socket.write(frames(count)),
      close: () => socket.close(),
    };
  },
};

function echo(socket: Socket, onEcho: () => void): void {
  let rest = NOTHING;
  socket.on('data', (data: Buffer) => {
    const chunk = rest.length > 0 ? Buffer.concat([rest, data]) : data;
    let at = 0;
    let written = 0;
    let isLast = false;
    while (chunk.length - at >= 2 && !isLast) {
      const [first = 0, second = 0] = chunk.subarray(at, at + 2);
      const opcode = first & 0x0f;
      const isKnown = opcode === Opcode.BINARY || opcode === Opcode.PING || opcode === Opcode.CLOSE;
      if ((first & 0xf0) !== FINAL || !isKnown || second < FINAL) return void socket.destroy();
      const short = second & 0x7f;
      const head = short < 126 ? 2 : short === 126 ? 4 : 10;
      const start = at + head + MASK_LENGTH;
      if (chunk.length < start) break;
      const length =
        head === 2 ? short : head === 4 ? chunk.readUInt16BE(at + 2) : Number(chunk.readBigUInt64BE(at + 2));
      if (length > MAX_LENGTH) return void socket.destroy();
      const end = start + length;
      if (chunk.length < end) break;
      unmask(chunk.subarray(start, end), chunk.subarray(start - MASK_LENGTH, start));
      // The frame without its mask takes the place of earlier ones, and never more of it.
      chunk[written] = opcode === Opcode.PING ? FINAL | Opcode.PONG : first;
      chunk[written + 1] = short;
      chunk.copyWithin(written + 2, at + 2, at + head);
      chunk.copyWithin(written + head, start, end);
      written += head + length;
      at = end;
      isLast = opcode === Opcode.CLOSE;
      if (opcode === Opcode.BINARY) onEcho();
    }
    rest = at < chunk.length ? Buffer.from(chunk.subarray(at)) : NOTHING;
    if (written > 0) socket.write(chunk.subarray(0, written));
    if (isLast) socket.end();
  });
}
