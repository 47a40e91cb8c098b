import { CloseCode, isConnectionLoss } from '../base/close-codes.js';
import { Extension, type Subprotocol } from '../base/constants.js';
import { ProtocolError, toProtocolError } from '../base/errors.js';
import { type Answer, acceptOf, type Negotiated, offerKey, offerOf } from '../control/agreement.js';
import { laterCodecs } from '../control/capabilities.js';
import {
  type AuthPayload,
  type GoAwayPayload,
  type HelloPayload,
  type LaterCodec,
  RECORD_BEHIND,
  type ReadyPayload,
  type RebuiltLink,
  RejectCode,
  type ResumeAnswer,
  type ResumeOffer,
  ResumeRefusal,
} from '../control/messages.js';
import type { Negotiation } from '../control/negotiate.js';
import { RateLimiter } from '../link/rates.js';
import type { ChannelOptions } from './channel-options.js';
import { channelOf } from './channels.js';
import { drainingError } from './close-reason.js';
import type { ChannelHost, SessionChannel } from './closed-channel.js';
import { CredentialExpiry } from './credential-expiry.js';
import type { SessionBegin } from './durable-session.js';
import { GoAwaySender } from './go-away-sender.js';
import { checkHello } from './hello.js';
import { LifecycleEvent, LifecycleState } from './lifecycle.js';
import { type AcceptedResume, ResumeGuard } from './resume-token.js';
import { answerTo, canGoOn, haveOf } from './resuming.js';
import { type Disconnection, onlyFor, type Role, type RoleHost, type RoleMessage } from './role.js';
import type { ServerRoleState } from './server-role-state.js';
import type { AcceptOptions, ServerSessionCore } from './types.js';

type ServerRoleHost = RoleHost & Pick<ServerSessionCore, 'reject'>;

/** A server: answers HELLO, decides who may resume the session, checks credentials and announces draining. */
export class ServerRole implements Role {
  limiter: RateLimiter | undefined;
  readonly #session: ServerRoleHost;
  /** Waits for {@link accept} or a rejection. */
  #hello: HelloPayload | undefined;
  #answer: Answer | undefined;
  /** The client's ID in HELLO; the one that was granted may differ. */
  #statedAgentId: string | undefined;
  #agentId: string | undefined;
  #guard: ResumeGuard | undefined;
  resumeProof: ResumeGuard | undefined;
  /** The page has left the session to the next page. */
  #isDetached = false;
  awaitedCodecs: ReadonlySet<LaterCodec> = NONE_AWAITED;
  // Created on first use: most sessions need neither.
  #credentials: CredentialExpiry | undefined;
  #goAway: GoAwaySender | undefined;

  constructor(session: ServerRoleHost) {
    this.#session = session;
  }

  createChannel(host: ChannelHost, options: ChannelOptions): SessionChannel {
    const Channel = channelOf(options.negotiated);
    return new Channel(host, options);
  }

  /** Its state once a client is admitted. {@link goAway} is what this server does, not what the session is. */
  snapshot(now: number): ServerRoleState {
    return {
      answer: this.#answer as Answer,
      statedAgentId: this.#statedAgentId,
      agentId: this.#agentId,
      guard: this.#guard?.snapshot(),
      isDetached: this.#isDetached,
      awaitedCodecs: this.awaitedCodecs,
      rates: (this.limiter as RateLimiter).snapshot(now),
      expiresIn: this.#credentials?.snapshot(now),
    };
  }

  restore(state: ServerRoleState, now: number): void {
    const { limits } = this.#session.options;
    this.#answer = state.answer;
    this.#statedAgentId = state.statedAgentId;
    this.#agentId = state.agentId;
    if (state.guard !== undefined) {
      this.resumeProof = this.#guard = new ResumeGuard();
      this.#guard.restore(state.guard);
    }
    this.#isDetached = state.isDetached;
    this.awaitedCodecs = state.awaitedCodecs;
    this.limiter = new RateLimiter(limits);
    this.limiter.restore(state.rates, now);
    if (state.expiresIn === undefined) return;
    this.#credentials = new CredentialExpiry(this.#session.options);
    this.#credentials.handleGranted(now + state.expiresIn);
  }

  /** Continues a recorded session. */
  takeOver({ answer, statedAgentId, agentId }: SessionBegin, accepted: AcceptedResume): void {
    [this.#answer, this.#statedAgentId, this.#agentId] = [answer, statedAgentId, agentId];
    this.resumeProof = this.#guard = new ResumeGuard();
    this.#guard.restoreAccepted(accepted);
    this.limiter = new RateLimiter(this.#session.options.limits);
  }

  /** New credentials of the client are being checked. */
  get isChecking(): boolean {
    return this.#credentials?.isPending === true;
  }

  get isResumable(): boolean {
    return this.#guard !== undefined;
  }
  get proof(): undefined {
    return undefined;
  }
  get ticket(): undefined {
    return undefined;
  }
  get windowMs(): number {
    return this.#session.options.timers.resumeWindowMs;
  }
  get suspensionMs(): number {
    const { reloadWindowMs } = this.#session.options.timers;
    return this.#isDetached ? Math.min(this.windowMs, reloadWindowMs) : this.windowMs;
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
    return this.#session.options.timers.idleTimeoutMs;
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
    this.#isDetached = closeCode === CloseCode.DETACHED;
    return { isLoss: this.#isDetached || isConnectionLoss(closeCode) };
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

  #handleHello(hello: HelloPayload): void {
    const { lifecycle } = this.#session;
    if (lifecycle !== LifecycleState.AWAITING_HELLO || this.#hello !== undefined) {
      throw new ProtocolError('protocol_violation', 'HELLO may be sent only once on a connection');
    }
    this.greet(checkHello(hello));
    this.#session.emit({ type: 'hello', hello });
  }

  /** @param answer if it has been worked out already. */
  greet(hello: HelloPayload, answer?: Answer): void {
    const { timers, options } = this.#session;
    this.#hello = hello;
    this.#answer = answer;
    timers.startState(options.timers.acceptTimeoutMs);
  }

  #handleReady({ codecs }: ReadyPayload): void {
    const { negotiated } = this.#session;
    if (negotiated?.extensions[Extension.READY] === undefined) {
      throw new ProtocolError('protocol_violation', 'READY was not agreed on');
    }
    const loaded = codecs.filter((codec) => this.awaitedCodecs.has(codec));
    if (loaded.length === 0) return;
    this.#await([...this.awaitedCodecs].filter((codec) => !loaded.includes(codec)));
    this.#session.emit({ type: 'ready' });
  }

  #handleAuth(payload: AuthPayload): void {
    const { timers, options } = this.#session;
    if (!('token' in payload)) throw new ProtocolError('bad_message', 'AUTH of a client must have a token');
    this.#credentials ??= new CredentialExpiry(options);
    if (this.#credentials.isPending) {
      throw new ProtocolError('protocol_violation', 'AUTH before the previous one was answered');
    }
    // Checking credentials costs more than a message does.
    this.limiter?.handleMessage(timers.now);
    this.#credentials.handleRequested(timers.now);
    this.#session.emit({ type: 'auth', token: payload.token });
  }

  // --- commands: the handshake

  accept(sessionId: string, { agentId, refusal, isDurable = false }: AcceptOptions): Negotiation {
    const session = this.#session;
    const hello = this.#hello;
    if (hello === undefined || session.lifecycle !== LifecycleState.AWAITING_HELLO) {
      throw new ProtocolError('invalid_argument', 'there is no HELLO to accept');
    }
    let answer: Answer;
    try {
      answer = this.#answer ?? answerTo(hello, session.options, isDurable);
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
      this.resumeProof = this.#guard = new ResumeGuard(hello.nonce);
    this.limiter = new RateLimiter(session.options.limits);
    session.agree(sessionId, negotiated, offer.extensions);
    this.#awaitCodecs();
    const { channel } = session;
    channel.begin?.({ id: sessionId, answer, statedAgentId: hello.agentId, agentId });
    this.#sendAccept(this.#resumeAnswer(false, refusal));
    session.apply(LifecycleEvent.ACCEPT);
    return outcome;
  }

  /** The client has begun to load the codecs that its HELLO lists. */
  #awaitCodecs(): void {
    const { negotiated } = this.#session;
    const later = this.#answer?.offer.extensions[Extension.READY];
    if (later === undefined || negotiated?.extensions[Extension.READY] === undefined) return;
    this.#await(laterCodecs(later));
  }

  #await(codecs: readonly LaterCodec[]): void {
    this.awaitedCodecs = codecs.length === 0 ? NONE_AWAITED : new Set(codecs);
  }

  #sendAccept(resume: ResumeAnswer | undefined): void {
    const { control, channel, negotiated, options } = this.#session;
    const { offer } = this.#answer as Answer;
    const payload = acceptOf(negotiated as Negotiated, offer, options, this.#agentId, resume);
    control.send({ type: 'ACCEPT', payload });
    if (this.#guard !== undefined) channel.recordAccept?.(this.#guard.accepted);
  }

  /** @param reason why the session that the client asked for was not resumed. */
  #resumeAnswer(recovered: boolean, reason?: string, rebuilt?: RebuiltLink): ResumeAnswer | undefined {
    if (this.#guard === undefined) return undefined;
    const { channel } = this.#session;
    const received = channel.durableFrames ?? channel.framesReceived;
    return { token: this.#guard.token, windowMs: this.windowMs, recovered, received, reason, rebuilt };
  }

  // --- commands: resume

  checkResume(hello: HelloPayload, subprotocol: Subprotocol): ResumeRefusal | 'stale_attempt' | undefined {
    const { resume } = hello;
    if (resume === undefined || this.#guard === undefined) return ResumeRefusal.UNKNOWN_SESSION;
    // A client without a valid token learns nothing else.
    const { again } = resume;
    if (!this.#guard.matches(resume.token)) return again ? 'stale_attempt' : ResumeRefusal.UNKNOWN_SESSION;
    if (again === undefined && !this.#guard.isNewer(resume.attempt)) return 'stale_attempt';
    const same =
      subprotocol === this.#session.options.subprotocol &&
      hello.agentId === this.#statedAgentId &&
      offerKey(offerOf(hello)) === this.#answer?.key;
    if (!same) return ResumeRefusal.OTHER_OFFER;
    return canGoOn(this.#session, resume, this.#guard) ? undefined : ResumeRefusal.NO_STATE;
  }

  resume(offer: ResumeOffer): number | undefined {
    const session = this.#session;
    const { channel } = session;
    if (!session.isLost || !channel.hasLink || this.#guard === undefined) {
      throw new ProtocolError('invalid_argument', 'only a session without a connection can be resumed');
    }
    session.connect();
    this.handleConnected();
    session.handleResumed();
    const received = this.#guard.receivedBy(offer);
    const have = haveOf(session, offer, this.#guard);
    const { again } = offer;
    if (this.#guard.isNewest(offer.token)) channel.handleBehindTold?.();
    // The client may still read the ACCEPT before, so the token in it stays valid: both state the same one.
    if (again === undefined) this.#guard.accept(offer, offer.rebuild === true || have !== undefined);
    let rebuilt: RebuiltLink | undefined;
    try {
      if (have !== undefined) rebuilt = channel.goOnFrom?.(have, offer.rebuild === true);
      else if (offer.rebuild === true) rebuilt = channel.rebuild?.(received);
      else channel.confirmResumed(received);
    } catch (error) {
      session.violate(toProtocolError(error, 'internal', 'the session could not be resumed'));
      return undefined;
    }
    const reason = channel.isBehind ? RECORD_BEHIND : undefined;
    this.#sendAccept(this.#resumeAnswer(again === undefined, again ? again.refusal : reason, rebuilt));
    // Everything that this sends again follows ACCEPT.
    if (rebuilt === undefined) channel.resume(received);
    else this.#awaitCodecs();
    session.apply(LifecycleEvent.ACCEPT);
    // Also before CLOSE, after which a client that knows of no GOAWAY begins no other session.
    this.#announceGoAway();
    return offer.rebuild === true && rebuilt !== undefined ? received : undefined;
  }

  // --- commands: credentials and draining

  grant(expiresAt: number | null): void {
    const { options, control, isConnected, isEstablished } = this.#session;
    const wasRequested = this.#credentials?.isPending ?? false;
    if (expiresAt === null && !wasRequested) return;
    this.#credentials ??= new CredentialExpiry(options);
    this.#credentials.handleGranted(expiresAt === null ? Infinity : expiresAt - (options.timeOrigin ?? 0));
    // Sent without a connection, it would precede the next ACCEPT.
    if (isConnected && isEstablished) control.send({ type: 'AUTH', payload: { expiresAt } });
  }

  sendGoAway(payload: GoAwayPayload): void {
    const { control, isConnected, isEstablished, negotiated } = this.#session;
    const canSend = isConnected && isEstablished;
    if (payload.move === true && negotiated?.extensions[Extension.MOVE] !== undefined) {
      if (canSend) control.send({ type: 'GOAWAY', payload });
      return;
    }
    this.#goAway = new GoAwaySender({ ...payload, move: undefined });
    if (canSend) this.#announceGoAway();
  }

  #announceGoAway(): void {
    const { control, timers } = this.#session;
    if (this.#goAway === undefined) return;
    // The client of a resumed session opens streams until it has read GOAWAY again.
    if (this.limiter !== undefined) this.limiter.refusal = undefined;
    this.#goAway.handleSent(timers.liveness.unanswered);
    control.send({ type: 'GOAWAY', payload: this.#goAway.announced });
    control.send({ type: 'PING', payload: {} });
  }

  authenticate(): void {
    throw onlyFor('client');
  }

  announceReady(): void {
    throw onlyFor('client');
  }
}

const NONE_AWAITED: ReadonlySet<LaterCodec> = new Set();
