import { ProtocolError } from '@parlance/protocol';
import { type Crashable, guard, type Wire } from '@parlance/protocol/internal';
import type { SocketFailure } from './address.js';

/** What is used of the WebSocket interface that browsers, workers, Node 22 and `ws` share. */
export interface WebSocketLike {
  binaryType: string;
  readonly bufferedAmount: number;
  readonly protocol: string;
  /** @param onWritten `ws` calls it when the data has left the process; others know no such argument. */
  send(data: string | Uint8Array<ArrayBuffer>, onWritten?: () => void): void;
  close(code?: number, reason?: string): void;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
}

/** A WebSocket class: the runtime's own, or that of `ws`. */
export type WebSocketConstructor = new (url: string, protocols: string[]) => WebSocketLike;

export interface ConnectionEvents {
  /** Whose connection it is: what the events throw ends it. */
  readonly session: Crashable;
  onOpen(): void;
  onMessage(data: Uint8Array | string): void;
  /** The socket may have room again; not every one tells. */
  onWritable(): void;
  /** @param failure what the socket said before, where it said anything. */
  onClose(code: number, reason: string, failure: SocketFailure): void;
}

/** It is not asked after smaller frames, as it costs more than their turn is worth. */
const MIN_ASKED_SIZE = 16 * 1024;

/** Codes below 3000 other than 1000 are not the application's to send. */
const FIRST_OWN_CODE = 3000;

/** @throws {ProtocolError} `invalid_option` without a WebSocket. */
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
      'this runtime has no WebSocket of its own; install "ws" and pass it: connect(url, { WebSocket })',
    );
  }
  let socket: WebSocketLike;
  try {
    socket = new Constructor(String(url), [subprotocol]);
  } catch (cause) {
    throw new ProtocolError(
      'invalid_option',
      'WebSocket: a class is expected that opens a WebSocket when it is made, such as that of "ws"',
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
  // Browsers tell nothing here, `ws` tells the cause; close follows in both.
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
      if (frame.length < MIN_ASKED_SIZE) socket.send(data);
      else socket.send(data, onWritten);
    },
    close: (code, reason) => socket.close(code === 1000 || code >= FIRST_OWN_CODE ? code : 1000, reason),
  };
}
