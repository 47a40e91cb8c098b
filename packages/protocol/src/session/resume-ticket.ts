import { ProtocolError } from '../base/errors.js';
import type { ResumeAnswer, ResumeOffer } from '../control/messages.js';

/** The client's side of resuming a session; see `resume-token.ts`. */
export class ResumeTicket {
  windowMs: number;
  #token: string;
  #attempt = 0;

  constructor({ token, windowMs }: ResumeAnswer) {
    this.#token = token;
    this.windowMs = windowMs;
  }

  /** The resume offer in the HELLO of the next connection. */
  next(sessionId: string, received: number): ResumeOffer {
    return { sessionId, token: this.#token, received, attempt: ++this.#attempt };
  }

  renew({ token, windowMs }: ResumeAnswer): void {
    this.#token = token;
    this.windowMs = windowMs;
  }
}

/** @throws {ProtocolError} `bad_acceptance` if ACCEPT agrees on resume but has no answer to it. */
export function assertAnswer(answer: ResumeAnswer | undefined): ResumeAnswer {
  if (answer !== undefined) return answer;
  throw new ProtocolError('bad_acceptance', 'ACCEPT agrees on resume and carries no token for it');
}
