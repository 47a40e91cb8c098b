import { assertToken } from '../session/option-values.js';

/** How often a token of a function that was refused is asked for again, and when the count begins again, in milliseconds. */
const MAX_REFUSALS = 3;
const FORGET_MS = 60_000;
/** The delay before the first time, of which each is four times the one before, in milliseconds. */
const FIRST_DELAY_MS = 250;

/** Where the tokens of a client come from. One that a function has given and the server has refused may have been an old one. */
export class Credentials {
  readonly #token: unknown;
  #refusals = 0;
  #since = -Infinity;

  /** @param token the option of the client. */
  constructor(token: unknown) {
    this.#token = token;
  }

  /** The application can be asked for another one. */
  get isRenewable(): boolean {
    return typeof this.#token === 'function';
  }

  /** @throws what the function throws; {ProtocolError} `invalid_option` for what is no token. */
  async ask(): Promise<string | undefined> {
    const token: unknown = typeof this.#token === 'function' ? await this.#token() : this.#token;
    assertToken(token);
    return token;
  }

  /**
   * The server has refused a token, or its time is over.
   *
   * @param isAccepted the server has accepted one before.
   * @returns the milliseconds after which another one is presented; `undefined` if the refusal is final.
   */
  handleRefused(now: number, isAccepted: boolean): number | undefined {
    if (!this.isRenewable) return undefined;
    if (now - this.#since > FORGET_MS) [this.#since, this.#refusals] = [now, 0];
    if (this.#refusals >= (isAccepted ? MAX_REFUSALS : 1)) return undefined;
    // Clients whose tokens were refused together do not come together.
    return FIRST_DELAY_MS * 4 ** this.#refusals++ * (0.5 + Math.random() / 2);
  }
}
