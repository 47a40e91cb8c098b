import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { CloseCode, ProtocolError } from '@parlance/protocol';
import type { ServerEndpoint } from '../endpoint.js';
import type { ServerWire } from '../http/ws.js';
import type { ResolvedServerOptions } from '../options.js';

/** Frame headers and control frames that may surround a HELLO of the largest size. */
const WEBSOCKET_OVERHEAD = 4 * 1024;

/** How long a client may take to hear why its connection is closed. */
const LINGER_MS = 1_000;

/** Bounds what a stranger may send before ACCEPT as a whole, and not only message by message. */
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
      // What is read of a message that is not whole would be kept, so nothing more is.
      wire.hold(true);
      setTimeout(() => wire.terminate(), LINGER_MS).unref();
    };
    socket.on('data', this.#onData);
  }

  /** The handshake is over. */
  stop(): void {
    this.#socket.off('data', this.#onData);
  }
}
