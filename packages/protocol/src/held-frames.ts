import { ProtocolError } from './errors.js';
import type { Limits } from './limits.js';
import { decodeLinkFrame, LinkCodec } from './link/header.js';
import type { CloseMessage } from './messages.js';

/**
 * Link frames that arrived while what decodes them was still being loaded: from the first body in
 * context on, since frames take effect in order.
 */
export class HeldFrames {
  readonly frames: Uint8Array[] = [];
  /** CLOSE, which takes effect behind them. */
  close: CloseMessage['payload'] | undefined;
  #bytes = 0;
  readonly #maxBytes: number;

  /** What credit would let through, is held at most. */
  constructor({ sessionWindow, maxMessageSize }: Limits) {
    this.#maxBytes = sessionWindow + maxMessageSize;
  }

  /** Whether `frame` is kept. @throws {ProtocolError} `window_exceeded`, and as the frame's head does. */
  takes(frame: Uint8Array): boolean {
    if (this.frames.length === 0 && decodeLinkFrame(frame).codec !== LinkCodec.CONTEXT) return false;
    this.#bytes += frame.length;
    if (this.#bytes > this.#maxBytes) {
      throw new ProtocolError(
        'window_exceeded',
        `more than ${this.#maxBytes} bytes before they can be decoded`,
      );
    }
    this.frames.push(frame);
    return true;
  }

  takesClose(close: CloseMessage['payload']): boolean {
    if (this.frames.length === 0) return false;
    this.close = close;
    return true;
  }

  clear(): void {
    this.frames.length = 0;
    this.close = undefined;
    this.#bytes = 0;
  }
}
