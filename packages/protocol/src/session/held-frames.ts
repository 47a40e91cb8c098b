import { ProtocolError } from '../base/errors.js';
import type { Limits } from '../base/limits.js';

/** What a frame takes beside its bytes, so that empty ones are bounded as well. */
const FRAME_OVERHEAD = 64;

/**
 * What arrived while the codecs that decode it were still being loaded: link frames, bare ones and CLOSE,
 * which take effect in their order. Nothing of it is counted, so nothing of it is acknowledged before
 * it can be taken.
 */
export class HeldFrames {
  readonly #frames: (Uint8Array | string)[] = [];
  #bytes = 0;
  readonly #window: number;
  readonly #maxBytes: number;

  /** Holds at most what credit would let through: a session window and one message. */
  constructor({ sessionWindow, maxMessageSize }: Limits) {
    this.#window = sessionWindow;
    this.#maxBytes = sessionWindow + maxMessageSize;
  }

  /** No more should be read from the connection. */
  get isFull(): boolean {
    return this.#bytes > this.#window;
  }

  /** @throws {ProtocolError} `window_exceeded`. */
  add(frame: Uint8Array | string): void {
    this.#bytes += frame.length + FRAME_OVERHEAD;
    if (this.#bytes > this.#maxBytes) {
      throw new ProtocolError(
        'window_exceeded',
        `more than ${this.#maxBytes} bytes before they can be decoded`,
      );
    }
    this.#frames.push(frame);
  }

  /** Everything that is held, which is held no longer. */
  take(): (Uint8Array | string)[] {
    this.#bytes = 0;
    return this.#frames.splice(0);
  }
}
