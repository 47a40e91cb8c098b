import { ProtocolError } from '../base/errors.js';
import type { Fields } from '../base/fields.js';
import type { RebuiltLink, ResumeAnswer, ResumeOffer } from '../control/messages.js';
import type { TakenUpBodies } from './channel-options.js';

/** The data that a client needs to resume a session; another page takes the session up with it. */
export interface Ticket {
  readonly sessionId: string;
  /** The token of the last ACCEPT; a secret. */
  readonly token: string;
  /** The last attempt to resume the session; the next one has to be larger. */
  readonly attempt: number;
  /** Counted frames that were received. */
  readonly received: number;
  /** Of a recorded session: the counts of the page, as HELLO states them, but for requests. */
  readonly have?: Fields | undefined;
}

/** The state of a page that has just begun. */
export const NOTHING: Fields = { messages: 0, sent: 0, written: 0, opened: 0, heard: 0, streams: [] };

/** The client's side of resuming a session; see `resume-token.ts`. */
export class ResumeTicket {
  windowMs: number;
  #token: string;
  #attempt: number;

  /** @param attempt the last one that was made for the session. */
  constructor({ token, windowMs }: Pick<ResumeAnswer, 'token' | 'windowMs'>, attempt: number) {
    this.#token = token;
    this.windowMs = windowMs;
    this.#attempt = attempt;
  }

  /** The resume offer in the HELLO of the next connection. */
  next(sessionId: string, received: number): ResumeOffer {
    return { sessionId, token: this.#token, received, attempt: ++this.#attempt };
  }

  renew({ token, windowMs }: ResumeAnswer): void {
    this.#token = token;
    this.windowMs = windowMs;
  }

  stateOf(sessionId: string, received: number): Ticket {
    return { sessionId, token: this.#token, attempt: this.#attempt, received };
  }
}

/** @throws {ProtocolError} `bad_acceptance` if ACCEPT agrees on resume but has no answer to it. */
export function assertAnswer(answer: ResumeAnswer | undefined): ResumeAnswer {
  if (answer !== undefined) return answer;
  throw new ProtocolError('bad_acceptance', 'ACCEPT agrees on resume and carries no token for it');
}

/**
 * The link that the server has rebuilt for the session that HELLO named; `undefined` if it begins a new session.
 *
 * @throws {ProtocolError} `bad_acceptance` if it continues a session or a link that this end does not have.
 */
export function assertTakenUp(
  ticket: Ticket | undefined,
  sessionId: string | undefined,
  answer: ResumeAnswer | undefined,
): RebuiltLink | undefined {
  if (answer?.recovered !== true) return undefined;
  if (
    ticket === undefined ||
    sessionId !== ticket.sessionId ||
    answer.rebuilt === undefined ||
    answer.received !== 0
  )
    throw new ProtocolError('bad_acceptance', 'ACCEPT resumes another session');
  return answer.rebuilt;
}

/**
 * The state of a recorded session that a page took up from the page before.
 *
 * @throws {ProtocolError} `bad_acceptance` if the server does not say what it has.
 */
export function takenUpOf(ticket: Ticket | undefined, { kept }: RebuiltLink): TakenUpBodies {
  if (ticket?.have !== undefined && kept !== undefined) return { have: ticket.have, kept };
  throw new ProtocolError('bad_acceptance', 'ACCEPT does not say what is kept of the session');
}
