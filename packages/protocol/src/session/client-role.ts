import { Extension } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { clientAgreement, helloOf, type Negotiated } from '../control/agreement.js';
import {
  type AcceptMessage,
  type HelloPayload,
  type RejectPayload,
  type ResumeAnswer,
  ResumeRefusal,
} from '../control/messages.js';
import { assertAnswer, ResumeTicket } from './resume-token.js';
import type { SessionOptions } from './types.js';

/** A client's side of the handshake: what it said, what it waits for, and what it takes to come back. */
export class ClientHandshake {
  readonly #options: SessionOptions;
  #hello: HelloPayload | undefined;
  #ticket: ResumeTicket | undefined;
  /** When the HELLO that is to take the session up must be answered, `Infinity` where none is under way. */
  answerDue = Infinity;
  /** The server's REJECT, until the close code that follows it. */
  rejected: RejectPayload | undefined;

  constructor(options: SessionOptions) {
    this.#options = options;
  }

  /** A further connection may take the session up. */
  get isResumable(): boolean {
    return this.#ticket !== undefined;
  }

  /** Milliseconds for which the server keeps the session without a connection. */
  get windowMs(): number | undefined {
    return this.#ticket?.windowMs;
  }

  /** A HELLO is to take the session up, and was not answered. */
  get isResuming(): boolean {
    return this.answerDue !== Infinity;
  }

  /** The HELLO of the first connection. */
  hello(token: string | undefined): HelloPayload {
    this.#hello = helloOf(this.#options, token, undefined);
    return this.#hello;
  }

  /**
   * The HELLO of a connection that is to take the session up.
   *
   * @param received counted frames received so far.
   */
  helloAgain(token: string | undefined, sessionId: string, received: number, now: number): HelloPayload {
    this.answerDue = now + this.#options.timers.acceptTimeoutMs;
    return helloOf(this.#options, token, this.#ticket?.next(sessionId, received));
  }

  /** @throws {ProtocolError} `protocol_violation` where nothing was asked, and what is wrong with ACCEPT. */
  agree(payload: AcceptMessage['payload']): Negotiated {
    if (this.#hello === undefined) throw new ProtocolError('protocol_violation', 'ACCEPT out of place');
    const negotiated = clientAgreement(this.#hello, payload, this.#options.avp);
    if (negotiated.extensions[Extension.RESUME] !== undefined) {
      this.#ticket = new ResumeTicket(assertAnswer(payload.resume));
    }
    return negotiated;
  }

  /** The server has taken the session up. */
  handleRecovered(answer: ResumeAnswer): void {
    this.#ticket?.renew(answer);
  }

  /** The session cannot be taken up any more. */
  forget(): void {
    this.#ticket = undefined;
  }
}

/** What it means that ACCEPT has begun another session. */
export function notRecovered(answer: ResumeAnswer | undefined): ProtocolError {
  const reason = answer?.reason ?? ResumeRefusal.UNKNOWN_SESSION;
  return new ProtocolError('session_lost', `the session could not be taken up again: ${reason}`, {
    side: 'remote',
  });
}
