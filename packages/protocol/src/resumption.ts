import { platform } from '#platform';
import { ProtocolError } from './errors.js';
import type { ResumeAnswer, ResumeOffer } from './messages.js';
import { newResumeToken } from './session-id.js';
import { encodeUtf8 } from './text.js';

/**
 * The tokens and attempts by which a session is taken up again. Each ACCEPT carries a new token; the
 * one before it stays valid until the first frame after HELLO shows that the ACCEPT has arrived.
 */

/** The server's side. */
export interface ResumeGuard {
  /** Constant-time comparison with the tokens that are valid. */
  matches(token: string): boolean;
  /** Whether an attempt is newer than every one that was accepted. */
  isNewer(attempt: number): boolean;
  /** Accepts an attempt and issues the next token. */
  accept(offer: ResumeOffer): string;
  /** The client has heard the last ACCEPT: only its token stays valid. */
  settle(): void;
  readonly token: string;
}

export function createResumeGuard(): ResumeGuard {
  let token = newResumeToken();
  let previous: string | undefined;
  let lastAttempt = 0;
  return {
    get token() {
      return token;
    },
    matches: (candidate) => equal(candidate, token) || (previous !== undefined && equal(candidate, previous)),
    isNewer: (attempt) => attempt > lastAttempt,
    accept(offer) {
      lastAttempt = offer.attempt;
      // The token that was presented and the new one are the only valid ones.
      previous = offer.token;
      token = newResumeToken();
      return token;
    },
    settle() {
      previous = undefined;
    },
  };
}

function equal(a: string, b: string): boolean {
  const [x, y] = [encodeUtf8(a), encodeUtf8(b)];
  return x.length === y.length && platform.crypto.equal(x, y);
}

/** The client's side. */
export interface ResumeTicket {
  readonly windowMs: number;
  /** What to say in the HELLO of the next connection. */
  next(sessionId: string, received: number): ResumeOffer;
  renew(answer: ResumeAnswer): void;
}

export function createResumeTicket(first: ResumeAnswer): ResumeTicket {
  let { token, windowMs } = first;
  let attempt = 0;
  return {
    get windowMs() {
      return windowMs;
    },
    next: (sessionId, received) => ({ sessionId, token, received, attempt: ++attempt }),
    renew(answer) {
      ({ token, windowMs } = answer);
    },
  };
}

/** @throws {ProtocolError} `bad_acceptance` where resume was agreed and nothing is said about it. */
export function assertAnswer(answer: ResumeAnswer | undefined): ResumeAnswer {
  if (answer !== undefined) return answer;
  throw new ProtocolError('bad_acceptance', 'ACCEPT agrees on resume and carries no token for it');
}
