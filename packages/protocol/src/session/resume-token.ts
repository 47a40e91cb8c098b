import { cryptoSuite } from '#crypto';
import { encodeUtf8 } from '../base/text.js';
import type { ResumeOffer } from '../control/messages.js';
import { newResumeToken } from './random-id.js';

/**
 * The tokens and attempts that resume a session. Each ACCEPT carries a new token; the previous one stays valid
 * until the first frame after HELLO shows that the client has received the ACCEPT.
 */

/** The state of a {@link ResumeGuard}. */
export interface ResumeState {
  /** A secret, as is the previous one. */
  readonly token: string;
  readonly previous: string | undefined;
  readonly lastAttempt: number;
  readonly isRebuilt: boolean;
}

/** The server's side. */
export class ResumeGuard {
  token = newResumeToken();
  #previous: string | undefined;
  #lastAttempt = 0;
  /** The last attempt asked for a rebuilt link. */
  #isRebuilt = false;

  /** Those that are valid, which are secrets. */
  get tokens(): readonly string[] {
    return this.#previous === undefined ? [this.token] : [this.token, this.#previous];
  }

  snapshot(): ResumeState {
    return {
      token: this.token,
      previous: this.#previous,
      lastAttempt: this.#lastAttempt,
      isRebuilt: this.#isRebuilt,
    };
  }

  restore({ token, previous, lastAttempt, isRebuilt }: ResumeState): void {
    this.token = token;
    this.#previous = previous;
    this.#lastAttempt = lastAttempt;
    this.#isRebuilt = isRebuilt;
  }

  /** Compares in constant time with the tokens that are valid. */
  matches(candidate: string): boolean {
    return equal(candidate, this.token) || this.#isPrevious(candidate);
  }

  /** Whether an attempt is newer than all that were accepted. */
  isNewer(attempt: number): boolean {
    return attempt > this.#lastAttempt;
  }

  /** Whether the link was rebuilt and the client does not know that, because the ACCEPT was lost. */
  isOutdated({ token }: ResumeOffer): boolean {
    return this.#isRebuilt && this.#isPrevious(token);
  }

  /** How many frames of the present link the client has received. */
  receivedBy(offer: ResumeOffer): number {
    return this.isOutdated(offer) ? 0 : offer.received;
  }

  #isPrevious(candidate: string): boolean {
    return this.#previous !== undefined && equal(candidate, this.#previous);
  }

  /** Accepts an attempt and issues the next token. */
  accept(offer: ResumeOffer): void {
    this.#lastAttempt = offer.attempt;
    // The token that was presented and the new one are the only valid ones.
    this.#previous = offer.token;
    this.#isRebuilt = offer.rebuild === true;
    this.token = newResumeToken();
  }

  /** The client has received the last ACCEPT: only its token stays valid. */
  revokePrevious(): void {
    this.#previous = undefined;
  }
}

function equal(a: string, b: string): boolean {
  const [x, y] = [encodeUtf8(a), encodeUtf8(b)];
  return x.length === y.length && cryptoSuite.equal(x, y);
}
