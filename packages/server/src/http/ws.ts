import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { SecureContextOptions } from 'node:tls';
import { CloseCode } from '@parlance/protocol';
import type { Crashable, Wire } from '@parlance/protocol/internal';
import { WebSocket, WebSocketServer } from 'ws';
import { FrameWriter } from './frame-writer.js';

/** The only file that uses the WebSocket library. It moves bytes and decides nothing. */

/** The library's client, which the command line uses. */
export { WebSocket as WebSocketClient } from 'ws';

export interface WireEvents {
  /** @param size length of the message in bytes, which differs from the length of a string. */
  onMessage(data: Uint8Array | string, size: number): void;
  /** A WebSocket ping or pong. */
  onControl(): void;
  /** Bytes were read from the socket. Messages that they complete are reported first. */
  onData(size: number): void;
  /** The socket can be written to again. */
  onDrain(): void;
  onClose(code: number, reason: string): void;
  /** Writing has failed with an error that the socket itself does not report. */
  onFault(error: unknown): void;
}

/** A wire that reports its events after `listen`. */
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
   * Completes the upgrade with `subprotocol` and calls `onWire`. A malformed upgrade is answered with HTTP 400
   * instead.
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
    // It takes 228 to 244 KB per connection, and compresses worse than the codecs of a session.
    perMessageDeflate: false,
    maxPayload: options.maxPayload,
    maxFragments: options.maxFragments,
    closeTimeout: options.closeTimeoutMs,
    // Chosen before the upgrade.
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

export interface DialOptions extends Omit<WebSocketAdapterOptions, 'maxFragments'> {
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
  onOpen: (wire: ServerWire) => void,
  onFailed: (failure: DialFailure) => void,
): () => void {
  const webSocket = new WebSocket(url, [subprotocol], {
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
const MAX_AFTER_CLOSE = 8 * 1024 * 1024;
const MAX_FLOOD_AFTER_CLOSE = 256 * 1024;
/** After a close with one of these codes an unfinished message may keep growing, and no session is charged for it. */
const FLOODS: ReadonlySet<number> = new Set([CloseCode.RATE_LIMITED, CloseCode.TOO_LARGE]);

/** The code of a close without one, which cannot be sent. */
const NO_CODE = 1005;

class SocketWire implements ServerWire, Crashable {
  readonly #webSocket: WebSocket;
  readonly #socket: Duplex;
  readonly #writer: FrameWriter;
  #isPaused = false;
  #holds = 0;
  #events: WireEvents | undefined;

  constructor(webSocket: WebSocket, socket: Duplex, isClient = false) {
    this.#webSocket = webSocket;
    this.#socket = socket;
    this.#writer = new FrameWriter(webSocket, socket, this, isClient);
    // An error is always followed by a close event.
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
    if (code === NO_CODE) this.#webSocket.close();
    else this.#webSocket.close(code, reason);
    // Bytes that were in flight may still arrive; a peer that keeps sending is cut off.
    let left = FLOODS.has(code) ? MAX_FLOOD_AFTER_CLOSE : MAX_AFTER_CLOSE;
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
