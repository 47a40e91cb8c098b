import { ProtocolError } from '../../base/errors.js';
import { systemClock } from '../../platform/clock.js';
import { type FormBounds, formBoundsOf } from '../http/form-bounds.js';

/** Bytes of a form that are checked at a time: about a millisecond of work. */
export const SLICE = 256 * 1024;

export interface BodyBoundsOptions {
  /** Bytes. */
  readonly most: number;
  /** The content type. */
  readonly type: string | undefined;
  /** The body is not read any more. */
  readonly signal: AbortSignal;
  /** Lets others have the event loop between two slices. @default the `yield` of the clock */
  readonly rest?: (() => Promise<void> | undefined) | undefined;
}

/** Counts what arrives of a body: a handler may collect and parse all of it. */
export class BodyBounds {
  readonly #options: BodyBoundsOptions;
  readonly #form: FormBounds | undefined;
  #size = 0;
  /** The bound that the body exceeds, as a text. */
  exceeded: string | undefined;

  /** @throws {ProtocolError} `bad_message` for a form that cannot be checked. */
  constructor(options: BodyBoundsOptions) {
    this.#options = options;
    this.#form = formBoundsOf(options.type);
  }

  /**
   * Must be called with all of the body, in pieces of any size.
   *
   * @throws {ProtocolError} `transfer_too_large`; the reason of the signal.
   */
  async checkForm(piece: Uint8Array): Promise<void> {
    const { signal, rest } = this.#options;
    for (let at = 0; this.#form !== undefined && at < piece.length; at += SLICE) {
      if (at > 0) await (rest?.() ?? systemClock.yield());
      signal.throwIfAborted();
      const excess = this.#form.push(piece.subarray(at, at + SLICE));
      if (excess !== undefined) this.#exceed(excess);
    }
  }

  /** @throws {ProtocolError} `transfer_too_large`. */
  async *limit(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      this.#size += chunk.length;
      const { most } = this.#options;
      if (this.#size > most) this.#exceed(`at most ${most} bytes`);
      await this.checkForm(chunk);
      yield chunk;
    }
  }

  #exceed(bound: string): never {
    this.exceeded = bound;
    throw new ProtocolError('transfer_too_large', `the body exceeds its bound: ${bound}`);
  }
}
