import { ProtocolError } from '../../base/errors.js';
import { type FormBounds, formBoundsOf } from '../http/form-bounds.js';

/** Counts what arrives of a body: a handler may collect and parse all of it. */
export class BodyBounds {
  readonly #most: number;
  readonly #form: FormBounds | undefined;
  #size = 0;
  /** What the body has more of than it may have, as a text. */
  exceeded: string | undefined;

  /**
   * @param most bytes.
   * @param type the content type.
   * @throws {ProtocolError} `bad_message` for a form that cannot be checked.
   */
  constructor(most: number, type: string | undefined) {
    this.#most = most;
    this.#form = formBoundsOf(type);
  }

  /** Must be called with all of the body, in pieces of any size. @throws {ProtocolError} `transfer_too_large`. */
  checkForm(chunk: Uint8Array): void {
    const excess = this.#form?.push(chunk);
    if (excess !== undefined) this.#exceed(excess);
  }

  /** @throws {ProtocolError} `transfer_too_large`. */
  async *limit(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      this.#size += chunk.length;
      if (this.#size > this.#most) this.#exceed(`at most ${this.#most} bytes`);
      this.checkForm(chunk);
      yield chunk;
    }
  }

  #exceed(bound: string): never {
    this.exceeded = bound;
    throw new ProtocolError('transfer_too_large', `the body exceeds its bound: ${bound}`);
  }
}
