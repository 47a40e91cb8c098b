import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';

/**
 * The client side of a WebSocket, made for generating load: repeated frames are built once and written many
 * at a time, and incoming data is parsed without copying. All systems are loaded through it, so a comparison
 * shows the servers; with each system's own client library, the slower library would be measured.
 */

export const Opcode = { CONTINUATION: 0, TEXT: 1, BINARY: 2, CLOSE: 8, PING: 9, PONG: 10 } as const;
export type Opcode = (typeof Opcode)[keyof typeof Opcode];

export interface FrameTarget {
  readonly port: number;
  readonly path: string;
  readonly subprotocol: string | undefined;
}

export interface FrameEvents {
  /** The upgrade was accepted. */
  onOpen(): void;
  /** `payload` is valid during the call only. */
  onFrame(opcode: number, payload: Uint8Array): void;
  /** All frames of one read were handled. */
  onBatch(): void;
  onClose(error: Error | undefined): void;
}

/**
 * Not zero, because servers skip unmasking then. Constant, so that a frame can be built once; a browser's
 * random mask makes no difference to a server.
 */
const MASK = Uint8Array.of(0x5a, 0xc3, 0x17, 0x9e);
const [MASK_WORD] = new Uint32Array(MASK.buffer) as Uint32Array & [number];
const MASK_BIT = 0x80;
const FIN_BIT = 0x80;
const LENGTH_16 = 126;
const LENGTH_64 = 127;
const MAX_HEAD = 10;

/** A whole frame as a client sends it. */
export function maskedFrame(opcode: Opcode, payload: Uint8Array): Uint8Array {
  const { length } = payload;
  const extended = length < LENGTH_16 ? 0 : length < 2 ** 16 ? 2 : 8;
  const start = 2 + extended + MASK.length;
  // The payload is aligned to words, so it is masked word by word.
  const padding = -start & 3;
  const memory = new ArrayBuffer(padding + start + ((length + 3) & ~3));
  const frame = new Uint8Array(memory, padding, start + length);
  const view = new DataView(memory, padding);
  frame[0] = FIN_BIT | opcode;
  frame[1] = MASK_BIT | (extended === 0 ? length : extended === 2 ? LENGTH_16 : LENGTH_64);
  if (extended === 2) view.setUint16(2, length);
  if (extended === 8) view.setBigUint64(2, BigInt(length));
  frame.set(MASK, 2 + extended);
  frame.set(payload, start);
  const words = new Uint32Array(memory, padding + start);
  for (let i = 0; i < words.length; i++) words[i] = (words[i] as number) ^ MASK_WORD;
  return frame;
}

/** One buffer for the reads of all sockets: each read is handled before the next one begins. */
const readBuffer = Buffer.allocUnsafeSlow(64 * 1024);

export class FrameSocket {
  readonly #events: FrameEvents;
  readonly #socket: Socket;
  #isOpen = false;
  #hasSentClose = false;
  #failure: Error | undefined;
  /** The beginning of an HTTP response or frame header that is incomplete. */
  #stash: Buffer = Buffer.alloc(0);
  /** The payload of a frame that arrives in pieces. */
  #partial: Uint8Array = new Uint8Array(0);
  #opcode = 0;
  #expected = 0;
  #filled = 0;

  constructor({ port, path, subprotocol }: FrameTarget, events: FrameEvents) {
    this.#events = events;
    this.#socket = connect({
      port,
      host: '127.0.0.1',
      noDelay: true,
      onread: {
        buffer: readBuffer,
        callback: (length, buffer) => {
          this.#take(buffer as Buffer, length);
          return true;
        },
      },
    });
    this.#socket.on('connect', () => {
      const protocolLine = subprotocol === undefined ? '' : `Sec-WebSocket-Protocol: ${subprotocol}\r\n`;
      this.#socket.write(
        `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
          `Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}\r\n${protocolLine}` +
          'Sec-WebSocket-Version: 13\r\n\r\n',
      );
    });
    this.#socket.on('error', (error) => {
      this.#failure = error;
    });
    this.#socket.on('close', () => events.onClose(this.#failure));
  }

  /** Collects all writes until `uncork` into one system call. */
  cork(): void {
    this.#socket.cork();
  }

  uncork(): void {
    this.#socket.uncork();
  }

  /** @param bytes one or more whole frames, which must not change afterwards. */
  write(bytes: Uint8Array): void {
    this.#socket.write(bytes);
  }

  /** Starts the closing handshake. */
  close(): void {
    if (this.#hasSentClose) return;
    this.#hasSentClose = true;
    this.write(maskedFrame(Opcode.CLOSE, Uint8Array.of(0x03, 0xe8)));
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #take(buffer: Buffer, length: number): void {
    try {
      let chunk = buffer.subarray(0, length);
      if (this.#stash.length > 0) {
        chunk = Buffer.concat([this.#stash, chunk]);
        this.#stash = Buffer.alloc(0);
      }
      if (!this.#isOpen) {
        const rest = this.#takeUpgrade(chunk);
        if (rest === undefined) return;
        chunk = rest;
      }
      this.#takeFrames(chunk);
      this.#events.onBatch();
    } catch (error) {
      this.#socket.destroy(error as Error);
    }
  }

  #takeUpgrade(chunk: Buffer): Buffer | undefined {
    const end = chunk.indexOf('\r\n\r\n');
    if (end === -1) {
      this.#stash = Buffer.from(chunk);
      return undefined;
    }
    const head = chunk.toString('latin1', 0, end);
    if (!head.startsWith('HTTP/1.1 101 ')) throw new Error(`the upgrade was refused: ${head}`);
    this.#isOpen = true;
    this.#events.onOpen();
    return chunk.subarray(end + 4);
  }

  #takeFrames(chunk: Buffer): void {
    let at = 0;
    if (this.#filled < this.#expected) {
      at = this.#fill(chunk, 0);
      if (this.#filled < this.#expected) return;
      this.#deliver(this.#opcode, this.#partial.subarray(0, this.#expected));
    }
    while (chunk.length - at >= 2) {
      const first = chunk[at] as number;
      const short = chunk[at + 1] as number;
      const headLength = short < LENGTH_16 ? 2 : short === LENGTH_16 ? 4 : MAX_HEAD;
      if (chunk.length - at < headLength) break;
      // Servers do not mask, and none of those measured here fragments.
      if (short & MASK_BIT || !(first & FIN_BIT)) throw new Error('a masked or fragmented frame');
      const length =
        headLength === 2
          ? short
          : headLength === 4
            ? chunk.readUInt16BE(at + 2)
            : Number(chunk.readBigUInt64BE(at + 2));
      at += headLength;
      if (chunk.length - at >= length) {
        this.#deliver(first & 0x0f, chunk.subarray(at, at + length));
        at += length;
      } else {
        this.#opcode = first & 0x0f;
        this.#expected = length;
        this.#filled = 0;
        if (this.#partial.length < length) this.#partial = new Uint8Array(length);
        this.#fill(chunk, at);
        return;
      }
    }
    if (at < chunk.length) this.#stash = Buffer.from(chunk.subarray(at));
  }

  /** Copies as much of the current payload as the chunk holds; returns the offset after it. */
  #fill(chunk: Buffer, at: number): number {
    const end = Math.min(chunk.length, at + this.#expected - this.#filled);
    this.#partial.set(chunk.subarray(at, end), this.#filled);
    this.#filled += end - at;
    return end;
  }

  #deliver(opcode: number, payload: Uint8Array): void {
    this.#filled = 0;
    this.#expected = 0;
    if (opcode === Opcode.CLOSE) {
      this.close();
      this.#socket.end();
    } else if (opcode === Opcode.PING) {
      this.write(maskedFrame(Opcode.PONG, payload));
    } else {
      this.#events.onFrame(opcode, payload);
    }
  }
}
