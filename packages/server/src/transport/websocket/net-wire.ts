import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Crashable, Traffic } from '@parlance/protocol/internal';
import { refuseUpgrade } from '../http/refuse-upgrade.js';
import { Reading } from '../reading.js';
import type { TransportEvents } from '../transport.js';
import { type FrameEvents, FrameReader, mayBeSent, Opcode, type ViolationCode } from './frame-reader.js';
import { FrameWriter } from './frame-writer.js';
import { acceptUpgrade, faultOfUpgrade } from './handshake.js';
import {
  bytesAfterClose,
  FRAME_HEAD,
  MAX_AFTER_CLOSE,
  NO_CODE,
  type WebSocketAdapter,
  type WebSocketBounds,
  type WebSocketTransport,
} from './ws.js';

/** The server's side of a WebSocket over a socket of Node. It moves bytes; {@link FrameReader} knows the rules. */

/** As a `WebSocket` counts them. */
const OPEN = 1;
const CLOSING = 2;
const CLOSED = 3;

/** The code of a connection that ends without a close frame. */
const ABNORMAL = 1006;
const MAX_REASON = 123;
/** Pongs that wait for the socket. A peer that reads none of them is cut off. */
const MAX_WAITING_PONGS = 60;

const nothing = Buffer.alloc(0);

export function createNetAdapter(bounds: WebSocketBounds): WebSocketAdapter {
  return {
    upgrade(request: IncomingMessage, socket: Duplex, head, subprotocol, onWire) {
      const fault = faultOfUpgrade(request);
      if (fault !== undefined) return refuseUpgrade(socket, fault.status, fault.message, fault.headers);
      // The client has ended its side already.
      if (!socket.readable || !socket.writable) return void socket.destroy();
      if ((socket as WithWire)[WIRE] !== undefined) throw new Error('the socket has been upgraded before');
      const wire = new NetWire(socket, head, bounds);
      wire.begin(acceptUpgrade(request.headers, subprotocol));
      onWire(wire);
    },
  };
}

/** The wire of a socket, for the listeners that all sockets share: closures would cost each connection a kilobyte. */
const WIRE = Symbol('wire');

type WithWire = Duplex & { [WIRE]?: NetWire | undefined };

const LISTENERS = {
  data(this: WithWire, chunk: Buffer): void {
    this[WIRE]?.handleData(chunk);
  },
  drain(this: WithWire): void {
    this[WIRE]?.handleDrain();
  },
  end(this: WithWire): void {
    this[WIRE]?.handleEnd();
  },
  // An error is followed by the event of a close.
  error(this: WithWire): void {
    this.destroy();
  },
  close(this: WithWire): void {
    this[WIRE]?.handleClose();
    this[WIRE] = undefined;
  },
};

class NetWire extends Reading implements WebSocketTransport, FrameEvents, Crashable {
  /** For the writer, which writes nothing once the closing handshake has begun. */
  readyState = OPEN;
  readonly #socket: Duplex;
  readonly #writer: FrameWriter;
  readonly #reader: FrameReader;
  readonly #bounds: WebSocketBounds;
  #events: TransportEvents | undefined;
  #isReading = false;
  #pongs = 0;
  #received = 0;
  /** Bytes that may still be read after a close; `undefined` before one. */
  #left: number | undefined;
  #closeTimer: NodeJS.Timeout | undefined;
  /** The code and the reason of the peer's close frame. */
  #code = ABNORMAL;
  #reason = '';

  constructor(socket: Duplex, head: Buffer, bounds: WebSocketBounds) {
    super();
    this.#socket = socket;
    this.#bounds = bounds;
    this.#writer = new FrameWriter(this, socket, this);
    this.#reader = new FrameReader(bounds, this);
    // Streams that are no sockets may lack these.
    const { setTimeout, setNoDelay } = socket as Partial<
      Pick<import('node:net').Socket, 'setTimeout' | 'setNoDelay'>
    >;
    setTimeout?.call(socket, 0);
    setNoDelay?.call(socket);
    (socket as WithWire)[WIRE] = this;
    if (head.length > 0) socket.unshift(head);
    for (const [event, listener] of Object.entries(LISTENERS)) socket.on(event, listener);
  }

  /** Answers the upgrade request, in one chunk with the frames of this turn. */
  begin(answer: string): void {
    this.#writer.begin(answer);
  }

  get traffic(): Traffic {
    return { sent: this.#writer.written, received: this.#received };
  }

  get overhead(): number {
    return FRAME_HEAD;
  }

  get bufferedAmount(): number {
    return this.#writer.bufferedAmount;
  }

  send(frame: Uint8Array | string): void {
    this.#writer.write(frame);
  }

  listen(events: TransportEvents): void {
    this.#events = events;
  }

  /** @throws {RangeError} for a code that cannot be sent, and a reason of more than 123 bytes. */
  close(code: number, reason: string): void {
    this.#writer.flush();
    if (this.readyState === OPEN) this.#sendClose(code, reason);
    // Bytes that were in flight may still arrive; a peer that keeps sending is cut off.
    this.#left ??= bytesAfterClose(code);
  }

  terminate(): void {
    if (this.readyState === CLOSED) return;
    this.readyState = CLOSING;
    this.#reader.stop();
    this.#socket.destroy();
  }

  ping(): void {
    if (this.readyState === OPEN) this.#writer.writeControl(Opcode.PING, nothing);
  }

  crash(error: unknown): void {
    this.#events?.onFault(error);
    this.terminate();
  }

  /** Bytes after the end of reading are dropped as they arrive, so that the end of the socket is noticed. */
  protected override setFlow(): void {
    if (this.readyState === CLOSED) return;
    if (!this.#reader.isOver && this.isHeld) this.#socket.pause();
    else this.#socket.resume();
  }

  /** Begins the closing handshake, or answers the peer's. */
  #sendClose(code: number, reason: string): void {
    const frame = encodeClose(code, reason);
    this.readyState = CLOSING;
    this.#limitClosing();
    this.#writer.writeControl(Opcode.CLOSE, frame);
    if (this.#reader.isOver) this.#socket.end();
  }

  /** A peer that does not answer, or does not read what is written before the end, is cut off in time. */
  #limitClosing(): void {
    this.#closeTimer ??= setTimeout(() => this.#socket.destroy(), this.#bounds.closeTimeoutMs);
  }

  /** Nothing is read any more. A peer that sends on is cut off, as after a close. */
  #endReading(code: number, reason: string): void {
    this.#left ??= MAX_AFTER_CLOSE;
    this.setFlow();
    if (this.readyState === OPEN) this.#sendClose(code, reason);
    else this.#socket.end();
  }

  // --- events of the reader

  onMessage(data: Buffer, isBinary: boolean): void {
    this.#events?.onMessage(isBinary ? data : data.toString('utf8'), data.length, this.#isReading);
  }

  onPing(data: Buffer): void {
    if (this.readyState === OPEN) {
      if (this.#pongs >= MAX_WAITING_PONGS) return this.terminate();
      this.#pongs++;
      this.#writer.writeControl(Opcode.PONG, data, () => {
        this.#pongs--;
      });
    }
    this.#events?.onControl();
  }

  onPong(): void {
    this.#events?.onControl();
  }

  onClose(code: number, reason: string): void {
    this.#code = code;
    this.#reason = reason;
    this.#endReading(code, reason);
  }

  onViolation(code: ViolationCode): void {
    this.#endReading(code, '');
  }

  // --- events of the socket

  handleData(chunk: Buffer): void {
    this.#received += chunk.length;
    this.#isReading = true;
    this.#read(chunk);
    this.#isReading = false;
    this.#events?.onData(chunk.length);
    if (this.#left === undefined) return;
    this.#left -= chunk.length;
    if (this.#left < 0) this.terminate();
  }

  #read(chunk: Buffer): void {
    try {
      this.#reader.read(chunk);
    } catch (error) {
      this.crash(error);
    }
  }

  handleDrain(): void {
    this.#events?.onDrain();
  }

  handleEnd(): void {
    this.readyState = CLOSING;
    this.#limitClosing();
    // The answer to the upgrade may still wait.
    this.#writer.flush();
    this.#socket.end();
  }

  handleClose(): void {
    // A socket that was not read may have messages that arrived before its end.
    const waiting = this.#socket.readableLength;
    const rest: Buffer | null = this.#reader.isOver || waiting === 0 ? null : this.#socket.read(waiting);
    this.readyState = CLOSING;
    if (rest !== null) {
      this.#received += rest.length;
      this.#read(rest);
    }
    this.#reader.stop();
    this.readyState = CLOSED;
    clearTimeout(this.#closeTimer);
    this.#events?.onClose(this.#code, this.#reason);
  }
}

function encodeClose(code: number, reason: string): Buffer {
  if (code === NO_CODE) return nothing;
  if (!mayBeSent(code)) throw new RangeError(`${code} is not a close code that can be sent`);
  const text = Buffer.from(reason);
  if (text.length > MAX_REASON) throw new RangeError(`a close reason of more than ${MAX_REASON} bytes`);
  const frame = Buffer.allocUnsafe(2 + text.length);
  frame.writeUInt16BE(code);
  frame.set(text, 2);
  return frame;
}
