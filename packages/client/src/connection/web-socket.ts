import {
  CloseCode,
  catchLate,
  HELLO_OFFER,
  HELLO_READ,
  MAX_EARLY_HELLO,
  ProtocolError,
  Subprotocol,
  type Wire,
} from '@parlance/protocol/client';
import { connectionFailure, unreached } from './cannot-connect.js';
import type { ClientTransport, ConnectionEvents, Frame } from './transport.js';
import type { SocketError } from './web-socket-failure.js';

/**
 * The part of the WebSocket interface that is used; browsers, workers (Cloudflare's too), Node 22 and `ws`
 * provide it.
 */
export interface WebSocketLike {
  binaryType: string;
  /** The subprotocol that the server has selected. HELLO travels in the upgrade request only if the class has it as a getter. */
  readonly protocol?: string | undefined;
  /** Bytes. Cloudflare Workers have no such property, so only the credit of the server bounds them. */
  readonly bufferedAmount?: number | undefined;
  /** @param onWritten called by `ws` when the data has left the process; other implementations ignore it. */
  send(data: string | Uint8Array<ArrayBuffer>, onWritten?: () => void): void;
  close(code?: number, reason?: string): void;
  /** Each kind of event has some of these properties. */
  addEventListener(
    type: 'open' | 'message' | 'error' | 'close',
    listener: (event: {
      readonly type: string;
      readonly data?: unknown;
      readonly code?: number;
      readonly reason?: string;
      readonly message?: string;
      readonly error?: unknown;
    }) => void,
  ): void;
}

/** A WebSocket class: the global one, or that of `ws`. */
export type WebSocketConstructor = new (url: string, protocols: string[]) => WebSocketLike;

/** Smaller frames are sent without a callback, which costs more than it saves. */
const MIN_CALLBACK_SIZE = 16 * 1024;

/** WebSocket applications may send only 1000 and codes from 3000 on. */
const FIRST_APPLICATION_CODE = 3000;

export interface WebSocketOptions {
  readonly subprotocol: Subprotocol;
  /** @default the class of the runtime */
  readonly WebSocket?: WebSocketConstructor | undefined;
  /** HELLO travels in the upgrade request, as the name of a subprotocol, if it can: not without `btoa`. @default unless `token` is a string */
  readonly earlyHello?: boolean | undefined;
  readonly token?: unknown;
}

/** Each connection is a WebSocket. */
export function webSockets(options: WebSocketOptions): ClientTransport {
  return {
    name: 'websocket',
    open: (url, hello, events) => openWebSocket(options, url, hello, events),
    ifSilent: 'a development server that does not forward WebSockets gives none',
  };
}

/** @throws {ProtocolError} `invalid_option` if there is no WebSocket class. */
function openWebSocket(
  { subprotocol, WebSocket, token, earlyHello = typeof token !== 'string' }: WebSocketOptions,
  url: URL,
  hello: () => Frame | undefined,
  events: ConnectionEvents,
): Wire {
  const Constructor = WebSocket ?? (globalThis as { WebSocket?: WebSocketConstructor }).WebSocket;
  if (Constructor === undefined) {
    throw new ProtocolError('invalid_option', 'this runtime has no WebSocket: install "ws"');
  }
  const offers: string[] = [subprotocol];
  // A token that is not renewed may be worth a lot, and proxies may log the headers of requests. A class that does not tell what
  // the server has selected does not tell either whether the server has read HELLO.
  const mayOffer =
    earlyHello &&
    subprotocol === Subprotocol.BINARY &&
    'protocol' in (Constructor.prototype ?? {}) &&
    typeof btoa === 'function';
  const frame = mayOffer ? hello() : undefined;
  if (typeof frame === 'object' && frame.length <= MAX_EARLY_HELLO)
    offers.push(HELLO_READ, HELLO_OFFER + base64url(frame));
  let socket: WebSocketLike;
  try {
    socket = new Constructor(String(url), offers);
  } catch (cause) {
    throw new ProtocolError(
      'invalid_option',
      'WebSocket: a WebSocket class is expected, such as that of "ws"',
      { cause },
    );
  }
  // A function in place of a class may have returned a promise.
  catchLate(socket, () => {});
  socket.binaryType = 'arraybuffer';
  let failed: SocketError = { message: '', error: undefined };
  const onWritten = () => events.onWritable();

  let state: 'opening' | 'open' | 'closed' = 'opening';
  const close = (code: number, reason: string): void => {
    if (state === 'closed') return;
    state = 'closed';
    events.onClose(code, reason || failed.message, () => {
      const saysHello = offers.length > 1;
      if (failed.message !== '' || failed.error !== undefined)
        return import('./web-socket-failure.js').then(({ explain }) => explain(url, failed, saysHello));
      return saysHello ? undefined : connectionFailure(url, unreached(url));
    });
  };

  // Listeners and not `onopen` and its like, which never fire on Cloudflare Workers.
  socket.addEventListener('open', () => {
    state = 'open';
    events.onOpen(socket.protocol === HELLO_READ);
  });
  socket.addEventListener('message', ({ data }) =>
    events.onMessage(typeof data === 'string' ? data : new Uint8Array(data as ArrayBuffer)),
  );
  // `ws` and Node report the cause here, browsers report nothing. A close event follows, but not on Node 22 if the
  // connection could not be opened.
  socket.addEventListener('error', ({ message = '', error }) => {
    failed = { message, error };
    if (state === 'opening') close(CloseCode.ABNORMAL, '');
  });
  socket.addEventListener('close', ({ code = CloseCode.ABNORMAL, reason = '' }) => close(code, reason));

  return {
    get bufferedAmount() {
      return socket.bufferedAmount ?? 0;
    },
    send(frame) {
      const data = frame as string | Uint8Array<ArrayBuffer>;
      if (frame.length < MIN_CALLBACK_SIZE) socket.send(data);
      else socket.send(data, onWritten);
    },
    close: (code, reason) =>
      socket.close(code === 1000 || code >= FIRST_APPLICATION_CODE ? code : 1000, reason),
  };
}

function base64url(bytes: Uint8Array): string {
  const base64 = btoa(String.fromCharCode(...bytes));
  return base64.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}
