import type { Selection } from '../codec/select.js';
import { type BodyCoder, type BodyCoderOptions, createBodyCoder } from './body-coder.js';
import { Requester, type RequesterOptions } from './requester.js';

/**
 * What a session works with once it is established and everything that it needs is loaded. Each part is
 * made when it is first used: most sessions of a server wait most of the time, and many never ask.
 */
export class Established {
  readonly #coding: BodyCoderOptions;
  readonly #asking: Omit<RequesterOptions, 'coder'>;
  #coder: BodyCoder | undefined;
  #requester: Requester | undefined;

  constructor(coding: BodyCoderOptions, asking: Omit<RequesterOptions, 'coder'>) {
    this.#coding = coding;
    this.#asking = asking;
  }

  get coder(): BodyCoder {
    this.#coder ??= createBodyCoder(this.#coding);
    return this.#coder;
  }

  get requester(): Requester {
    this.#requester ??= new Requester({ ...this.#asking, coder: this.coder });
    return this.#requester;
  }

  /** How `auto` chose for the last message, and why. */
  get lastSelection(): Selection | undefined {
    return this.#coder?.lastSelection;
  }

  /** The session is over: every reply that is waited for fails with `error`. */
  end(error: Error): void {
    this.#requester?.end(error);
  }
}
