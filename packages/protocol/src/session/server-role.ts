import { Extension, type Subprotocol } from '../base/constants.js';
import { decodeAvpHello } from '../codec/avp/hello.js';
import { assertContextParameters } from '../codec/context/parameters.js';
import {
  AgreementCache,
  type Answer,
  linkParameters,
  type Negotiated,
  offerKey,
  offerOf,
  serverAgreement,
} from '../control/agreement.js';
import {
  type HelloPayload,
  type Offer,
  type ResumeAnswer,
  type ResumeOffer,
  ResumeRefusal,
} from '../control/messages.js';
import { negotiate } from '../control/negotiate.js';
import { ResumeGuard } from './resume-token.js';
import type { SessionOptions } from './types.js';

/** A server's side of the handshake: what it was offered, what it answered, and who may come back. */
export class ServerHandshake {
  readonly #options: SessionOptions;
  /** Waits for its answer. */
  #hello: HelloPayload | undefined;
  #answer: Answer | undefined;
  /** As the client stated it; what it is granted may differ. */
  #statedAgentId: string | undefined;
  /** Guards the session against everybody who would take it up. */
  #guard: ResumeGuard | undefined;

  constructor(options: SessionOptions) {
    this.#options = options;
  }

  /** A HELLO has arrived and was not answered. */
  get isPending(): boolean {
    return this.#hello !== undefined;
  }

  /** A further connection may take the session up. */
  get isResumable(): boolean {
    return this.#guard !== undefined;
  }

  /** The offer that was accepted. */
  get offer(): Offer | undefined {
    return this.#answer?.offer;
  }

  /**
   * Takes a HELLO. What is malformed is the client's fault, and not to be found out by whoever answers.
   *
   * @throws {ProtocolError} `bad_message`, `bad_json`.
   */
  receive(hello: HelloPayload): void {
    const { extensions } = hello;
    linkParameters(extensions);
    const context = extensions[Extension.CONTEXT];
    if (context !== undefined) assertContextParameters(context);
    const introduced = extensions[Extension.AVP];
    if (introduced !== undefined && this.#options.avp !== undefined) decodeAvpHello(introduced);
    this.#hello = hello;
  }

  /**
   * Works out what to answer to the HELLO that waits. Throws what the application does where it is asked
   * for maps or tokens.
   */
  answer(): Answer {
    const { subprotocol, capabilities, agreements = new AgreementCache() } = this.#options;
    return agreements.recall(this.#hello as HelloPayload, subprotocol, (offer, key) => {
      const outcome = negotiate(offer, capabilities);
      const negotiated = outcome.accepted
        ? serverAgreement(outcome.agreement, offer, this.#options)
        : undefined;
      return { offer, key, outcome, negotiated };
    });
  }

  /** The answer is given. */
  complete(answer: Answer, { extensions }: Negotiated): void {
    this.#answer = answer;
    this.#statedAgentId = this.#hello?.agentId;
    this.#hello = undefined;
    if (extensions[Extension.RESUME] !== undefined) this.#guard = new ResumeGuard();
  }

  /** See `SessionCore.checkResume`. */
  checkResume(hello: HelloPayload, subprotocol: Subprotocol): ResumeRefusal | 'stale_attempt' | undefined {
    const { resume } = hello;
    if (resume === undefined || this.#guard === undefined) return ResumeRefusal.UNKNOWN_SESSION;
    // Who does not hold a token learns nothing else.
    if (!this.#guard.matches(resume.token)) return ResumeRefusal.UNKNOWN_SESSION;
    if (!this.#guard.isNewer(resume.attempt)) return 'stale_attempt';
    const same =
      subprotocol === this.#options.subprotocol &&
      hello.agentId === this.#statedAgentId &&
      offerKey(offerOf(hello)) === this.#answer?.key;
    return same ? undefined : ResumeRefusal.OTHER_OFFER;
  }

  /** A connection takes the session up. */
  acceptResume(offer: ResumeOffer): void {
    this.#guard?.accept(offer);
  }

  /** The client has heard the last ACCEPT. */
  settle(): void {
    this.#guard?.settle();
  }

  /** Nobody takes the session up any more. */
  forget(): void {
    this.#guard = undefined;
  }

  /**
   * What ACCEPT says about resuming, where that was agreed.
   *
   * @param received counted frames received so far.
   * @param reason why the session that was asked for is not taken up.
   */
  resumeAnswer(recovered: boolean, received: number, reason?: ResumeRefusal): ResumeAnswer | undefined {
    if (this.#guard === undefined) return undefined;
    const windowMs = this.#options.timers.resumeWindowMs;
    return { token: this.#guard.token, windowMs, recovered, received, reason };
  }
}
