import { CloseCode, isConnectionLoss } from '../base/close-codes.js';
import { Extension, type Subprotocol } from '../base/constants.js';
import { ProtocolError, toProtocolError } from '../base/errors.js';
import { decodeAvpHello } from '../codec/avp/hello.js';
import { assertContextParameters } from '../codec/context/parameters.js';
import {
  AgreementCache,
  type Answer,
  acceptOf,
  linkParameters,
  type Negotiated,
  offerKey,
  offerOf,
  serverAgreement,
} from '../control/agreement.js';
import { laterCodecs } from '../control/capabilities.js';
import {
  type AuthPayload,
  type GoAwayPayload,
  type HelloPayload,
  type LaterCodec,
  type ReadyPayload,
  RejectCode,
  type ResumeAnswer,
  type ResumeOffer,
  ResumeRefusal,
} from '../control/messages.js';
import { type Negotiation, negotiate } from '../control/negotiate.js';
import { RateLimiter } from '../link/rates.js';
import { drainingError } from './close-reason.js';
import { LifecycleEvent, LifecycleState } from './lifecycle.js';
import { ResumeGuard } from './resume-token.js';
import { type Disconnection, type Role, type RoleHost, type RoleMessage, wrongRole } from './role.js';
import type { AcceptOptions } from './types.js';

/** A server: answers HELLO, decides who may resume the session, checks credentials and announces draining. */
export class ServerRole implements Role {
  limiter: RateLimiter | undefined;
  readonly #session: RoleHost;
  /** Waits for {@link accept} or a rejection. */
  #hello: HelloPayload | undefined;
  #answer: Answer | undefined;
  /** The agent ID in HELLO; the one that was granted may differ. */
  #statedAgentId: string | undefined;
  #agentId: string | undefined;
  #guard: ResumeGuard | undefined;
  resumeProof: ResumeGuard | undefined;
  awaitedCodecs: ReadonlySet<LaterCodec> = NONE_AWAITED;
  // Created on first use: most sessions need neither.
  #credentials: CredentialExpiry | undefined;
  #goAway: GoAwaySender | undefined;

  constructor(session: RoleHost) {
    this.#session = session;
  }

  get isResumable(): boolean {
    return this.#guard !== undefined;
  }
  get windowMs(): number {
    return this.#session.options.timers.resumeWindowMs;
  }
  get isRejected(): boolean {
    return false;
  }
  get handshakeTimeout(): string {
    const { helloTimeoutMs, acceptTimeoutMs } = this.#session.options.timers;
    return this.#hello === undefined
      ? `no HELLO within ${helloTimeoutMs} ms`
      : `the server did not answer HELLO within ${acceptTimeoutMs} ms`;
  }
  get answerDue(): number {
    return Infinity;
  }
  get credentialsEnd(): number {
    return this.#credentials?.deadline ?? Infinity;
  }
  get idleTimeoutMs(): number {
    return this.#session.options.timers.sessionTimeoutMs;
  }
  get retryAfterMs(): number {
    return 0;
  }
  get goAway(): GoAwayPayload | undefined {
    return this.#goAway?.announced;
  }

  // --- connections

  handleConnected(): void {
    // Each connection proves on its own who its client is.
    this.#credentials = undefined;
  }

  handleDisconnected(closeCode: number): Disconnection {
    return { isLoss: isConnectionLoss(closeCode) };
  }

  handleLinkFrame(): void {
    this.#guard?.revokePrevious();
  }

  forget(): void {
    this.#guard = undefined;
  }

  // --- control messages

  handleControl(message: RoleMessage): void {
    switch (message.type) {
      case 'HELLO':
        return this.#handleHello(message.payload);
      case 'AUTH':
        return this.#handleAuth(message.payload);
      case 'READY':
        return this.#handleReady(message.payload);
      default:
        throw new ProtocolError('protocol_violation', `${message.type} is for a server to send`);
    }
  }

  handlePong(): void {
    const { limiter } = this;
    this.#goAway?.handlePong();
    if (this.#goAway?.isAcknowledged && limiter !== undefined) {
      limiter.refusal = drainingError(this.#goAway.announced);
    }
  }

  /** Validates the HELLO here, so that one that is malformed is blamed on the client. */
  #handleHello(hello: HelloPayload): void {
    const { lifecycle, options, timers } = this.#session;
    if (lifecycle !== LifecycleState.AWAITING_HELLO || this.#hello !== undefined) {
      throw new ProtocolError('protocol_violation', 'HELLO may be sent only once on a connection');
    }
    const { extensions } = hello;
    linkParameters(extensions);
    const context = extensions[Extension.CONTEXT];
    if (context !== undefined) assertContextParameters(context);
    const later = extensions[Extension.READY];
    if (later !== undefined) laterCodecs(later);
    const introduced = extensions[Extension.AVP];
    if (introduced !== undefined && options.avp !== undefined) decodeAvpHello(introduced);
    this.#hello = hello;
    timers.startState(options.timers.acceptTimeoutMs);
    this.#session.emit({ type: 'hello', hello });
  }

  #handleReady({ codecs }: ReadyPayload): void {
    const { negotiated } = this.#session;
    if (negotiated?.extensions[Extension.READY] === undefined) {
      throw new ProtocolError('protocol_violation', 'READY was not agreed on');
    }
    const loaded = codecs.filter((codec) => this.awaitedCodecs.has(codec));
    if (loaded.length === 0) return;
    this.awaitedCodecs = new Set([...this.awaitedCodecs].filter((codec) => !loaded.includes(codec)));
    this.#session.emit({ type: 'ready' });
  }

  #handleAuth(payload: AuthPayload): void {
    const { timers, options } = this.#session;
    if (!('token' in payload)) throw new ProtocolError('bad_message', 'AUTH of a client must have a token');
    this.#credentials ??= new CredentialExpiry(options.timers.acceptTimeoutMs);
    if (this.#credentials.isPending) {
      throw new ProtocolError('protocol_violation', 'AUTH before the previous one was answered');
    }
    // Checking credentials costs more than a message does.
    this.limiter?.handleMessage(timers.now);
    this.#credentials.handleRequested(timers.now);
    this.#session.emit({ type: 'auth', token: payload.token });
  }

  // --- commands: the handshake

  accept(sessionId: string, { agentId, refusal }: AcceptOptions): Negotiation {
    const session = this.#session;
    const hello = this.#hello;
    if (hello === undefined || session.lifecycle !== LifecycleState.AWAITING_HELLO) {
      throw new ProtocolError('invalid_argument', 'there is no HELLO to accept');
    }
    let answer: Answer;
    try {
      answer = this.#negotiate(hello);
    } catch (error) {
      // A callback of the application failed, such as the one for the tokens of a model.
      session.violate(toProtocolError(error, 'internal', 'the agreement could not be worked out'));
      return { accepted: false, reject: { code: RejectCode.UNKNOWN, message: 'the server failed' } };
    }
    const { offer, outcome } = answer;
    if (!outcome.accepted) {
      session.reject(outcome.reject, CloseCode.BAD_FRAME, session.timers.now);
      return outcome;
    }
    const negotiated = answer.negotiated as Negotiated;
    this.#answer = answer;
    this.#statedAgentId = hello.agentId;
    this.#agentId = agentId;
    this.#hello = undefined;
    if (negotiated.extensions[Extension.RESUME] !== undefined)
      this.resumeProof = this.#guard = new ResumeGuard();
    this.limiter = new RateLimiter(session.options.limits);
    const later = offer.extensions[Extension.READY];
    if (later !== undefined && negotiated.extensions[Extension.READY] !== undefined) {
      this.awaitedCodecs = new Set(laterCodecs(later));
    }
    session.agree(sessionId, negotiated, offer.extensions);
    this.#sendAccept(this.#resumeAnswer(false, refusal));
    session.apply(LifecycleEvent.ACCEPT);
    return outcome;
  }

  /** Throws the error of a callback of the application, such as the one for maps or tokens. */
  #negotiate(hello: HelloPayload): Answer {
    const { options } = this.#session;
    const { subprotocol, capabilities, agreements = new AgreementCache() } = options;
    return agreements.recall(hello, subprotocol, (offer, key) => {
      const outcome = negotiate(offer, capabilities);
      const negotiated = outcome.accepted ? serverAgreement(outcome.agreement, offer, options) : undefined;
      return { offer, key, outcome, negotiated };
    });
  }

  #sendAccept(resume: ResumeAnswer | undefined): void {
    const { control, negotiated, options } = this.#session;
    const { offer } = this.#answer as Answer;
    const payload = acceptOf(negotiated as Negotiated, offer, options, this.#agentId, resume);
    control.send({ type: 'ACCEPT', payload });
  }

  /** @param reason why the session that the client asked for was not resumed. */
  #resumeAnswer(recovered: boolean, reason?: ResumeRefusal): ResumeAnswer | undefined {
    if (this.#guard === undefined) return undefined;
    const received = this.#session.channel.framesReceived;
    return { token: this.#guard.token, windowMs: this.windowMs, recovered, received, reason };
  }

  // --- commands: resume

  checkResume(hello: HelloPayload, subprotocol: Subprotocol): ResumeRefusal | 'stale_attempt' | undefined {
    const { resume } = hello;
    if (resume === undefined || this.#guard === undefined) return ResumeRefusal.UNKNOWN_SESSION;
    // A client without a valid token learns nothing else.
    if (!this.#guard.matches(resume.token)) return ResumeRefusal.UNKNOWN_SESSION;
    if (!this.#guard.isNewer(resume.attempt)) return 'stale_attempt';
    const same =
      subprotocol === this.#session.options.subprotocol &&
      hello.agentId === this.#statedAgentId &&
      offerKey(offerOf(hello)) === this.#answer?.key;
    return same ? undefined : ResumeRefusal.OTHER_OFFER;
  }

  resume(offer: ResumeOffer): void {
    const session = this.#session;
    const { channel } = session;
    if (!session.isLost || !channel.hasLink || this.#guard === undefined) {
      throw new ProtocolError('invalid_argument', 'only a session without a connection can be resumed');
    }
    session.connect();
    this.handleConnected();
    session.handleResumed();
    this.#guard.accept(offer);
    try {
      channel.confirmResumed(offer.received);
    } catch (error) {
      session.violate(toProtocolError(error, 'internal', 'the session could not be resumed'));
      return;
    }
    this.#sendAccept(this.#resumeAnswer(true));
    // Everything that this sends again follows ACCEPT.
    channel.resume(offer.received);
    session.apply(LifecycleEvent.ACCEPT);
    this.#announceGoAway();
  }

  // --- commands: credentials and draining

  grant(expiresAt: number | null): void {
    const { options, control, isConnected, isEstablished } = this.#session;
    const wasRequested = this.#credentials?.isPending ?? false;
    if (expiresAt === null && !wasRequested) return;
    this.#credentials ??= new CredentialExpiry(options.timers.acceptTimeoutMs);
    this.#credentials.handleGranted(expiresAt === null ? Infinity : expiresAt - (options.timeOrigin ?? 0));
    // Sent without a connection, it would precede the next ACCEPT.
    if (isConnected && isEstablished) control.send({ type: 'AUTH', payload: { expiresAt } });
  }

  sendGoAway(payload: GoAwayPayload): void {
    this.#goAway = new GoAwaySender(payload);
    this.#announceGoAway();
  }

  #announceGoAway(): void {
    const { control, timers, isConnected, isEstablished } = this.#session;
    if (this.#goAway === undefined || !isConnected || !isEstablished) return;
    this.#goAway.handleSent(timers.liveness.unanswered);
    control.send({ type: 'GOAWAY', payload: this.#goAway.announced });
    control.send({ type: 'PING', payload: {} });
  }

  authenticate(): void {
    throw wrongRole('only a client sends credentials');
  }

  announceReady(): void {
    throw wrongRole('only a client loads codecs after ACCEPT');
  }
}

const NONE_AWAITED: ReadonlySet<LaterCodec> = new Set();

/**
 * What the server has announced about draining, and whether the client knows. GOAWAY is followed by a PING,
 * and its PONG proves that the client has read both: requests that it sent before are served, later ones
 * are refused.
 */
export class GoAwaySender {
  readonly announced: GoAwayPayload;
  #pongsDue = Infinity;

  constructor(announced: GoAwayPayload) {
    this.announced = announced;
  }

  get isAcknowledged(): boolean {
    return this.#pongsDue === 0;
  }

  /** GOAWAY and a PING were sent on the present connection. @param unanswered PINGs that were sent before. */
  handleSent(unanswered: number): void {
    this.#pongsDue = unanswered + 1;
  }

  handlePong(): void {
    if (this.#pongsDue > 0) this.#pongsDue--;
  }
}

/**
 * When the credentials of a connection expire. A client that sends new ones before that stays connected
 * while the server checks them, even beyond the expiry of the old ones.
 */
export class CredentialExpiry {
  readonly #maxDecisionMs: number;
  #expiresAt = Infinity;
  #decisionDue: number | undefined;

  /** @param maxDecisionMs how long checking new credentials may take. */
  constructor(maxDecisionMs: number) {
    this.#maxDecisionMs = maxDecisionMs;
  }

  /** AUTH was received and not answered yet. */
  get isPending(): boolean {
    return this.#decisionDue !== undefined;
  }

  /** The clock reading from which on the connection has no valid credentials. */
  get deadline(): number {
    if (this.#decisionDue === undefined) return this.#expiresAt;
    return Math.max(this.#expiresAt, this.#decisionDue);
  }

  handleRequested(now: number): void {
    this.#decisionDue = now + this.#maxDecisionMs;
  }

  /** @param expiresAt clock reading; `Infinity` for credentials that do not expire. */
  handleGranted(expiresAt: number): void {
    this.#expiresAt = expiresAt;
    this.#decisionDue = undefined;
  }
}
