import { cryptoSuite } from '#crypto';
import { toHex } from '../base/bytes.js';
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

/** The data that another process needs to accept the tokens of this one. */
export interface AcceptedResume {
  /** SHA-256 of the valid tokens, in hexadecimal. */
  readonly tokens: readonly string[];
  readonly attempt: number;
}

/** The server's side. */
export class ResumeGuard {
  token = newResumeToken();
  #previous: string | undefined;
  #lastAttempt = 0;
  /** The last attempt got a rebuilt link. */
  #isRebuilt = false;
  /** SHA-256 of the tokens that a former process has issued, in hexadecimal. */
  #hashes: readonly string[] | undefined;

  /** @param nonce of the HELLO that begins the session. It is valid as the token before the first one, for the same HELLO only. */
  constructor(nonce?: Uint8Array) {
    if (nonce !== undefined) this.#previous = nonceToken(nonce);
  }

  get isUnseen(): boolean {
    return this.#previous?.startsWith(NONCE) === true;
  }

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

  /** The data that another process needs to accept the tokens of this one. */
  get accepted(): AcceptedResume {
    const previous = this.#previous === undefined ? [] : [hashOf(this.#previous)];
    return { tokens: [hashOf(this.token), ...previous], attempt: this.#lastAttempt };
  }

  /** Accepts the tokens of another process until it has issued one of its own. */
  restoreAccepted({ tokens, attempt }: AcceptedResume): void {
    this.#hashes = tokens;
    this.#lastAttempt = attempt;
  }

  /** Compares in constant time with the tokens that are valid. */
  matches(candidate: string): boolean {
    if (this.#hashes !== undefined) {
      const hash = hashOf(candidate);
      return this.#hashes.some((one) => equal(one, hash));
    }
    return equal(candidate, this.token) || this.#isPrevious(candidate);
  }

  /** Whether the client has received the last ACCEPT, whichever process has sent it. */
  isNewest(candidate: string): boolean {
    const [newest] = this.#hashes ?? [];
    return newest === undefined ? equal(candidate, this.token) : equal(hashOf(candidate), newest);
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
  accept(offer: ResumeOffer, isRebuilt: boolean): void {
    this.#hashes = undefined;
    this.#lastAttempt = offer.attempt;
    // The token that was presented and the new one are the only valid ones.
    this.#previous = offer.token;
    this.#isRebuilt = isRebuilt;
    this.token = newResumeToken();
  }

  /** The client has received the last ACCEPT: only its token stays valid. */
  revokePrevious(): void {
    this.#previous = undefined;
  }
}

/** No token that an end of ours has issued begins so. */
const NONCE = 'nonce:';

/** The text that stands for the nonce of a HELLO in place of a token. */
export function nonceToken(nonce: Uint8Array): string {
  return NONCE + toHex(nonce);
}

/** SHA-256 in hexadecimal. */
function hashOf(token: string): string {
  return toHex(cryptoSuite.sha256(encodeUtf8(token)));
}

function equal(a: string, b: string): boolean {
  const [x, y] = [encodeUtf8(a), encodeUtf8(b)];
  return x.length === y.length && cryptoSuite.equal(x, y);
}
