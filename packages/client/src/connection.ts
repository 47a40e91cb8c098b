import { type Crashable, guard, ProtocolError, type Wire } from '@parlance/protocol/client';
import type { SocketFailure } from './address.js';

/** The part of the WebSocket interface that is used; browsers, workers, Node 22 and `ws` provide it. */
export interface WebSocketLike {
  binaryType: string;
  readonly bufferedAmount: number;
  readonly protocol: string;
  /** @param onWritten called by `ws` when the data has left the process; other implementations ignore it. */
  send(data: string | Uint8Array<ArrayBuffer>, onWritten?: () => void): void;
  close(code?: number, reason?: string): void;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
}

/** A WebSocket class: the global one, or that of `ws`. */
export type WebSocketConstructor = new (url: string, protocols: string[]) => WebSocketLike;

export interface ConnectionEvents {
  /** Owner of the connection; it ends if an event handler throws. */
  readonly session: Crashable;
  onOpen(): void;
  onMessage(data: Uint8Array | string): void;
  /** The socket may accept more data; only `ws` reports this. */
  onWritable(): void;
  /** @param failure the last error of the socket; empty if there was none. */
  onClose(code: number, reason: string, failure: SocketFailure): void;
}

/** Smaller frames are sent without a callback, which costs more than it saves. */
const MIN_CALLBACK_SIZE = 16 * 1024;

/** WebSocket applications may send only 1000 and codes from 3000 on. */
const FIRST_APPLICATION_CODE = 3000;

/** @throws {ProtocolError} `invalid_option` if there is no WebSocket class. */
export function openWebSocket(
  url: URL,
  subprotocol: string,
  WebSocket: WebSocketConstructor | undefined,
  events: ConnectionEvents,
): Wire {
  const Constructor = WebSocket ?? (globalThis as { WebSocket?: WebSocketConstructor }).WebSocket;
  if (Constructor === undefined) {
    throw new ProtocolError(
      'invalid_option',
      'this runtime has no global WebSocket; install "ws" and pass it: connect(url, { WebSocket })',
    );
  }
  let socket: WebSocketLike;
  try {
    socket = new Constructor(String(url), [subprotocol]);
  } catch (cause) {
    throw new ProtocolError(
      'invalid_option',
      'WebSocket: a WebSocket class is expected, such as that of "ws"',
      { cause },
    );
  }
  socket.binaryType = 'arraybuffer';
  let failure: SocketFailure = { message: '', error: undefined };
  const { session } = events;
  const onWritten = () => void guard(session, () => events.onWritable());

  socket.onopen = () => guard(session, () => events.onOpen());
  socket.onmessage = ({ data }: { data: string | ArrayBuffer }) => {
    try {
      events.onMessage(typeof data === 'string' ? data : new Uint8Array(data));
    } catch (error) {
      session.crash(error);
    }
  };
  // `ws` reports the cause here, browsers report nothing; a close event follows in both cases.
  socket.onerror = ({ message = '', error }: { message?: string; error?: unknown }) => {
    failure = { message, error };
  };
  socket.onclose = ({ code, reason }: { code: number; reason: string }) =>
    guard(session, () => events.onClose(code, reason || failure.message, failure));

  return {
    get bufferedAmount() {
      return socket.bufferedAmount;
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
