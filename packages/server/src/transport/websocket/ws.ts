import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { SecureContextOptions } from 'node:tls';
import { CloseCode } from '@parlance/protocol';
import type { Crashable, Traffic } from '@parlance/protocol/internal';
import { type ServerOptions, WebSocket, WebSocketServer } from 'ws';
import { Reading } from '../reading.js';
import type { Transport, TransportEvents } from '../transport.js';
import { FrameWriter } from './frame-writer.js';

/** Uses the WebSocket library for clients on Node, and for servers by option. It moves bytes and decides nothing. */

/** A WebSocket. */
export interface WebSocketTransport extends Transport {
  /** Sends a WebSocket ping, if the connection is open. */
  ping(): void;
}

export interface WebSocketAdapter {
  /**
   * Completes the upgrade with `subprotocol`, or with none, and calls `onWire`. A malformed upgrade is answered with HTTP 400
   * instead.
   */
  upgrade(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    subprotocol: string | undefined,
    onWire: (wire: WebSocketTransport) => void,
  ): void;
}

export interface WebSocketBounds {
  /** Bytes of one WebSocket message. */
  readonly maxPayload: number;
  /** Fragments of one WebSocket message. */
  readonly maxFragments: number;
  /** Milliseconds that a closing handshake may take. */
  readonly closeTimeoutMs: number;
}

/** The code that reads and closes WebSockets: this package on sockets of Node, or the library. */
export type WireKind = 'net' | 'ws';

export interface WebSocketAdapterOptions extends WebSocketBounds {
  /** @default `net` on Node, unless the environment variable `PARLANCE_WIRE` is `ws` */
  readonly wire?: WireKind | undefined;
}

export function createLibraryAdapter(options: WebSocketBounds): WebSocketAdapter {
  const webSockets = new WebSocketServer<typeof WiredSocket>({
    noServer: true,
    clientTracking: false,
    // It takes 228 to 244 KB per connection, and compresses worse than the codecs of a session.
    perMessageDeflate: false,
    maxPayload: options.maxPayload,
    maxFragments: options.maxFragments,
    closeTimeout: options.closeTimeoutMs,
    // Chosen before the upgrade.
    handleProtocols: (_offered, request) => chosen.get(request) ?? false,
    WebSocket: WiredSocket,
  } as ServerOptions<typeof WiredSocket>);
  const chosen = new WeakMap<IncomingMessage, string | undefined>();

  return {
    upgrade(request, socket, head, subprotocol, onWire) {
      chosen.set(request, subprotocol);
      webSockets.handleUpgrade(request, socket, head, (webSocket) =>
        onWire(new SocketWire(webSocket, socket)),
      );
    },
  };
}

export interface DialOptions extends Omit<WebSocketBounds, 'maxFragments'> {
  readonly subprotocol: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Certificates and keys for `wss:`. */
  readonly tls: SecureContextOptions | undefined;
}

/** Why a server could not be reached, or has refused the upgrade. */
export interface DialFailure {
  /** Of HTTP; `undefined` without an answer. */
  readonly status?: number | undefined;
  /** Of Node's error; `undefined` if there is none. */
  readonly code?: string | undefined;
}

/**
 * Connects to another server as its client. One of the two functions is called, unless the connection is abandoned.
 *
 * @param onOpen listens to the wire before it returns.
 * @returns abandons a connection that is not open yet.
 */
export function dial(
  url: string,
  { subprotocol, headers, tls, maxPayload, closeTimeoutMs }: DialOptions,
  onOpen: (wire: Transport) => void,
  onFailed: (failure: DialFailure) => void,
): () => void {
  const webSocket = new WiredSocket(url, [subprotocol], {
    ...tls,
    headers,
    perMessageDeflate: false,
    maxPayload,
    closeTimeout: closeTimeoutMs,
  } as ConstructorParameters<typeof WebSocket>[2]);
  let socket: Duplex | undefined;
  let isOver = false;
  const fail = (failure: DialFailure): void => {
    if (isOver) return;
    isOver = true;
    onFailed(failure);
  };
  webSocket.once('upgrade', (response) => {
    socket = response.socket;
  });
  webSocket.on('error', (error: NodeJS.ErrnoException) => fail({ code: error.code }));
  webSocket.once('unexpected-response', (request, { statusCode }) => {
    request.destroy();
    fail({ status: statusCode });
  });
  webSocket.once('open', () => {
    if (isOver || socket === undefined) return webSocket.terminate();
    isOver = true;
    onOpen(new SocketWire(webSocket, socket, true));
  });
  return () => {
    if (isOver) return;
    isOver = true;
    webSocket.terminate();
  };
}

/** Bytes that are read after a close: as much as the network may hold, and less from a peer that floods. */
export const MAX_AFTER_CLOSE = 8 * 1024 * 1024;
const MAX_FLOOD_AFTER_CLOSE = 256 * 1024;
/** After a close with one of these codes an unfinished message may keep growing, and no session is charged for it. */
const FLOODS: ReadonlySet<number> = new Set([CloseCode.RATE_LIMITED, CloseCode.TOO_LARGE]);

/** How many bytes may arrive after a close with this code. */
export function bytesAfterClose(code: number): number {
  return FLOODS.has(code) ? MAX_FLOOD_AFTER_CLOSE : MAX_AFTER_CLOSE;
}

/** Bytes of a server's control frame before its content, and of the code in a close frame. */
const CONTROL_HEAD = 2;
const CODE_LENGTH = 2;

/** Bytes of the longest header of a frame. */
export const FRAME_HEAD = 14;

/** The code of a close without one, which cannot be sent. */
export const NO_CODE = 1005;

/**
 * A socket of the library that calls its wire instead of listeners. Listeners of its own would cost each connection
 * a kilobyte: a closure for every event, and room for more of them.
 */
class WiredSocket extends WebSocket {
  wire: SocketWire | undefined;

  override emit(name: string | symbol, first?: unknown, second?: unknown): boolean {
    const { wire } = this;
    if (wire === undefined) return super.emit(name, first, second);
    switch (name) {
      case 'message':
        wire.handleMessage(first as Buffer, second === true);
        break;
      case 'ping':
        wire.handlePing(first as Buffer);
        break;
      case 'pong':
        wire.handleControl();
        break;
      case 'close':
        wire.handleClose(first as number, second as Buffer);
    }
    // An error is always followed by a close event.
    return true;
  }
}

/** The wire of a raw socket, for the listeners that all sockets share. */
const WIRE = Symbol('wire');

interface WithWire {
  [WIRE]?: SocketWire;
}

function handleData(this: WithWire, chunk: Uint8Array): void {
  this[WIRE]?.handleData(chunk.length);
}

function handleDrain(this: WithWire): void {
  this[WIRE]?.handleDrain();
}

class SocketWire extends Reading implements WebSocketTransport, Crashable {
  readonly #webSocket: WiredSocket;
  readonly #writer: FrameWriter;
  #received = 0;
  /** Bytes of the control frames that the library writes. */
  #controls = 0;
  /** Bytes that may still be read after a close; `undefined` before one. */
  #left: number | undefined;
  #events: TransportEvents | undefined;

  constructor(webSocket: WiredSocket, socket: Duplex, isClient = false) {
    super();
    this.#webSocket = webSocket;
    this.#writer = new FrameWriter(webSocket, socket, this, isClient);
    webSocket.wire = this;
    (socket as WithWire)[WIRE] = this;
    socket.on('data', handleData);
    socket.on('drain', handleDrain);
  }

  get traffic(): Traffic {
    return { sent: this.#writer.written + this.#controls, received: this.#received };
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

  close(code: number, reason: string): void {
    this.#writer.flush();
    this.#controls += CONTROL_HEAD + (code === NO_CODE ? 0 : CODE_LENGTH + Buffer.byteLength(reason));
    if (code === NO_CODE) this.#webSocket.close();
    else this.#webSocket.close(code, reason);
    // Bytes that were in flight may still arrive; a peer that keeps sending is cut off.
    this.#left ??= bytesAfterClose(code);
  }

  protected override setFlow(): void {
    if (this.isHeld) this.#webSocket.pause();
    else this.#webSocket.resume();
  }

  terminate(): void {
    this.#webSocket.terminate();
  }

  ping(): void {
    if (this.#webSocket.readyState !== WebSocket.OPEN) return;
    this.#controls += CONTROL_HEAD;
    this.#webSocket.ping();
  }

  crash(error: unknown): void {
    this.#events?.onFault(error);
    this.terminate();
  }

  listen(events: TransportEvents): void {
    this.#events = events;
  }

  // --- events of the socket

  handleMessage(data: Buffer, isBinary: boolean): void {
    this.#events?.onMessage(isBinary ? data : data.toString('utf8'), data.length);
  }

  /** The library answers with a pong of the same bytes. */
  handlePing({ length }: Buffer): void {
    this.#controls += CONTROL_HEAD + length;
    this.handleControl();
  }

  handleControl(): void {
    this.#events?.onControl();
  }

  handleData(size: number): void {
    this.#received += size;
    this.#events?.onData(size);
    if (this.#left === undefined) return;
    this.#left -= size;
    if (this.#left < 0) this.terminate();
  }

  handleDrain(): void {
    this.#events?.onDrain();
  }

  handleClose(code: number, reason: Buffer): void {
    this.#events?.onClose(code, reason.toString('utf8'));
  }
}
