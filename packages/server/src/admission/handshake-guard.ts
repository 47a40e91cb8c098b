import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { CloseCode, ProtocolError } from '@parlance/protocol';
import type { ServerEndpoint } from '../endpoint.js';
import { type ServerWire, terminateSoon } from '../http/ws.js';
import type { ResolvedServerOptions } from '../options.js';

/** Bytes of frame headers and control frames around a HELLO of the largest size. */
const WEBSOCKET_OVERHEAD = 4 * 1024;

/** Bounds the total of what a client may send before ACCEPT, not only each message. */
export class HandshakeGuard {
  readonly #socket: Socket;
  readonly #onData: () => void;

  constructor(
    { socket }: IncomingMessage,
    wire: ServerWire,
    session: ServerEndpoint,
    { limits }: Pick<ResolvedServerOptions, 'limits'>,
  ) {
    const { maxHandshakeSize } = limits;
    const budget = socket.bytesRead + maxHandshakeSize + WEBSOCKET_OVERHEAD;
    this.#socket = socket;
    this.#onData = () => {
      if (socket.bytesRead <= budget) return;
      this.stop();
      session.abort(
        new ProtocolError('message_too_large', `more than ${maxHandshakeSize} bytes before ACCEPT`, {
          closeCode: CloseCode.TOO_LARGE,
        }),
      );
      // The WebSocket library keeps all that it reads of an unfinished message, so nothing more is read.
      wire.hold();
      terminateSoon(wire);
    };
    socket.on('data', this.#onData);
  }

  /** The handshake is over. */
  stop(): void {
    this.#socket.off('data', this.#onData);
  }
}
