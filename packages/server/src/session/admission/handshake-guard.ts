import { CloseCode, ProtocolError } from '@parlance/protocol';
import { type Transport, terminateSoon } from '../../transport/transport.js';
import type { ServerEndpoint } from '../endpoint.js';
import type { ServingOptions } from '../options.js';

/** Bytes of frame headers and control frames around a HELLO of the largest size. */
const WEBSOCKET_OVERHEAD = 4 * 1024;

/** Bounds the total of what a client may send before ACCEPT, not only each message. */
export class HandshakeGuard {
  readonly #wire: Transport;
  readonly #session: ServerEndpoint;
  readonly #maxSize: number;
  /** Bytes that may be read from the socket. */
  #budget: number;
  #isHeld = false;

  constructor(wire: Transport, session: ServerEndpoint, { limits }: Pick<ServingOptions, 'limits'>) {
    this.#wire = wire;
    this.#session = session;
    this.#maxSize = limits.maxHandshakeSize;
    this.#budget = wire.traffic.received + this.#maxSize + WEBSOCKET_OVERHEAD;
  }

  /** These bytes came before: HELLO was in the upgrade request. */
  handleEarlyHello(size: number): void {
    this.#budget -= size;
  }

  /** Bytes were read from the socket. */
  handleData(): void {
    if (this.#isHeld || this.#wire.traffic.received <= this.#budget) return;
    if (this.#session.longestMessage !== undefined) {
      // After ACCEPT the client may send more, which waits until the codecs of its session are loaded.
      this.#isHeld = true;
      this.#wire.hold();
      return;
    }
    const message = `more than ${this.#maxSize} bytes before ACCEPT`;
    this.#session.abort(new ProtocolError('message_too_large', message, { closeCode: CloseCode.TOO_LARGE }));
    // The WebSocket library keeps all that it reads of an unfinished message, so nothing more is read.
    this.#wire.hold();
    terminateSoon(this.#wire);
  }

  /** The handshake is over. */
  end(): void {
    if (this.#isHeld) this.#wire.unhold();
  }
}
