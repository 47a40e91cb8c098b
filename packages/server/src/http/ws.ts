import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { CloseCode } from '@parlance/protocol';
import type { Crashable, Wire } from '@parlance/protocol/internal';
import { type WebSocket, WebSocketServer } from 'ws';
import { FrameWriter } from './frame-writer.js';

/** The only file that knows the WebSocket library. It moves bytes and decides nothing. */

/** The library's client, for the command line. */
export { WebSocket as WebSocketClient } from 'ws';

export interface WireEvents {
  /** @param size bytes of the message, which a string does not tell. */
  onMessage(data: Uint8Array | string, size: number): void;
  /** A ping or a pong of the WebSocket itself. */
  onControl(): void;
  /** Bytes were read from the socket, behind the messages that they have completed. */
  onData(size: number): void;
  /** The socket has room again. */
  onDrain(): void;
  onClose(code: number, reason: string): void;
  /** Writing has failed in a way that the socket does not report itself. */
  onFault(error: unknown): void;
}

/** A wire whose events are not wanted yet. */
export interface ServerWire extends Wire {
  listen(events: WireEvents): void;
  /** Stops reading until {@link unhold} is called as often as this, independently of `pause` and `resume`. */
  hold(): void;
  unhold(): void;
  /** Ends the connection without a closing handshake. */
  terminate(): void;
}

/** Time for a client to read why its connection is closed, or to close it. */
const LINGER_MS = 1_000;

/** Ends the connection without a closing handshake, if the client has not closed it in a second. */
export function terminateSoon(wire: Pick<ServerWire, 'terminate'>): void {
  setTimeout(() => wire.terminate(), LINGER_MS).unref();
}

export interface WebSocketAdapter {
  /**
   * Completes the upgrade with `subprotocol` and hands over the wire. A malformed upgrade is answered
   * with HTTP 400 and handed to nobody.
   */
  upgrade(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    subprotocol: string,
    onWire: (wire: ServerWire) => void,
  ): void;
}

export interface WebSocketAdapterOptions {
  /** Bytes of one WebSocket message. */
  readonly maxPayload: number;
  /** Fragments of one WebSocket message. */
  readonly maxFragments: number;
  /** Milliseconds that a closing handshake may take. */
  readonly closeTimeoutMs: number;
}

export function createWebSocketAdapter(options: WebSocketAdapterOptions): WebSocketAdapter {
  const webSockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    // 228 to 244 KB a connection, and it compresses worse than what the session negotiates.
    perMessageDeflate: false,
    maxPayload: options.maxPayload,
    maxFragments: options.maxFragments,
    closeTimeout: options.closeTimeoutMs,
    // Decided before the upgrade and handed over with it.
    handleProtocols: (_offered, request) => chosen.get(request) ?? false,
  } as ConstructorParameters<typeof WebSocketServer>[0]);
  const chosen = new WeakMap<IncomingMessage, string>();

  return {
    upgrade(request, socket, head, subprotocol, onWire) {
      chosen.set(request, subprotocol);
      webSockets.handleUpgrade(request, socket, head, (webSocket) =>
        onWire(new SocketWire(webSocket, socket)),
      );
    },
  };
}

/** Bytes that are read behind a close: what the network holds of a peer, and less of one that floods. */
const MAX_BEHIND_CLOSE = 8 * 1024 * 1024;
const FLOOD_BEHIND_CLOSE = 256 * 1024;
/** A message that is not whole yet keeps growing behind a close with one of these codes, and nobody is charged for it. */
const FLOODS: ReadonlySet<number> = new Set([CloseCode.RATE_LIMITED, CloseCode.TOO_LARGE]);

class SocketWire implements ServerWire, Crashable {
  readonly #webSocket: WebSocket;
  readonly #socket: Duplex;
  readonly #writer: FrameWriter;
  #isPaused = false;
  #holds = 0;
  #events: WireEvents | undefined;

  constructor(webSocket: WebSocket, socket: Duplex) {
    this.#webSocket = webSocket;
    this.#socket = socket;
    this.#writer = new FrameWriter(webSocket, socket, this);
    // An error is always followed by close, which says all there is to do.
    webSocket.on('error', ignore);
  }

  get bufferedAmount(): number {
    return this.#writer.bufferedAmount;
  }

  send(frame: Uint8Array | string): void {
    this.#writer.write(frame);
  }

  close(code: number, reason: string): void {
    this.#writer.flush();
    this.#webSocket.close(code, reason);
    // Bytes that were under way may come; a peer that does not stop to listen is cut off.
    let left = FLOODS.has(code) ? FLOOD_BEHIND_CLOSE : MAX_BEHIND_CLOSE;
    this.#socket.on('data', (data: Uint8Array) => {
      left -= data.length;
      if (left < 0) this.terminate();
    });
  }

  pause(): void {
    this.#isPaused = true;
    this.#webSocket.pause();
  }

  resume(): void {
    this.#isPaused = false;
    if (this.#holds === 0) this.#webSocket.resume();
  }

  hold(): void {
    this.#holds++;
    this.#webSocket.pause();
  }

  unhold(): void {
    if (--this.#holds === 0 && !this.#isPaused) this.#webSocket.resume();
  }

  terminate(): void {
    this.#webSocket.terminate();
  }

  crash(error: unknown): void {
    this.#events?.onFault(error);
    this.terminate();
  }

  listen(events: WireEvents): void {
    this.#events = events;
    this.#webSocket.on('message', (data: Buffer, isBinary) =>
      events.onMessage(isBinary ? data : data.toString('utf8'), data.length),
    );
    this.#socket.on('data', (chunk: Uint8Array) => events.onData(chunk.length));
    this.#webSocket.on('ping', () => events.onControl());
    this.#webSocket.on('pong', () => events.onControl());
    this.#webSocket.on('close', (code, reason) => events.onClose(code, reason.toString('utf8')));
    this.#socket.on('drain', () => events.onDrain());
  }
}

const ignore = () => {};
