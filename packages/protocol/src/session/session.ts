import { CloseCode, isConnectionLoss, isRetryableCloseCode } from '../base/close-codes.js';
import { Extension, Subprotocol } from '../base/constants.js';
import { ProtocolError, toProtocolError } from '../base/errors.js';
import type { StringMap } from '../base/fields.js';
import { Fifo } from '../base/fifo.js';
import { LINK_FIRST_BYTE } from '../base/frame-kind.js';
import type { SecurityStatus } from '../codec/body.js';
import { type Answer, acceptOf, type Negotiated } from '../control/agreement.js';
import {
  type AcceptMessage,
  type AuthMessage,
  type CloseMessage,
  CloseReason,
  type ControlMessage,
  type GoAwayPayload,
  type HelloPayload,
  type Offer,
  RejectCode,
  type RejectPayload,
  type ResumeAnswer,
  type ResumeOffer,
  ResumeRefusal,
  type UnknownMessage,
} from '../control/messages.js';
import type { Negotiation } from '../control/negotiate.js';
import { isCounted, type LinkKind } from '../link/frame.js';
import type { BodyToSend, OutgoingTransfer } from '../link/link.js';
import { createOutbox, type Outbox } from '../link/outbox.js';
import { Pacer, RateLimiter } from '../link/rates.js';
import { DataPath } from './channel.js';
import { ClientHandshake, notRecovered } from './client-role.js';
import { closeReasonOf, disconnectError, rejection, truncateReason } from './close-reason.js';
import { ControlWriter } from './control-writer.js';
import { Departure, drainingError } from './departure.js';
import { Expiry } from './expiry.js';
import { HeldFrames } from './held-frames.js';
import { readIncoming } from './incoming.js';
import { LifecycleEffect, LifecycleEvent, LifecycleState, stepLifecycle } from './lifecycle.js';
import { Liveness } from './liveness.js';
import { ServerHandshake } from './server-role.js';
import type {
  AcceptOptions,
  Channel,
  SessionCore,
  SessionEvent,
  SessionOptions,
  SessionState,
  Undelivered,
  UndeliveredBody,
} from './types.js';
import { undelivered, unsent } from './undelivered.js';

/** Creates one end of a session; see {@link SessionCore} for how it is driven. */
export function createSession(options: SessionOptions): SessionCore {
  return new Core(options);
}

const PUBLIC_STATE: Readonly<Record<LifecycleState, SessionState>> = {
  initial: 'connecting',
  helloSent: 'connecting',
  awaitingHello: 'connecting',
  established: 'established',
  suspended: 'suspended',
  closing: 'closing',
  closed: 'closed',
  failed: 'closed',
};

const NORMAL_CLOSE: CloseMessage['payload'] = Object.freeze({ reason: CloseReason.NORMAL, message: '' });
/** Control frames that may wait to be written: far more than a peer that reads ever leaves waiting. */
const MAX_CONTROL_FRAMES = 10_000;

class Core implements SessionCore, Channel {
  readonly subprotocol: Subprotocol;
  readonly #options: SessionOptions;
  readonly #outbox: Outbox = createOutbox();
  readonly #control: ControlWriter;
  /** The one of its role. */
  readonly #server: ServerHandshake | undefined;
  readonly #client: ClientHandshake | undefined;
  readonly #liveness: Liveness;
  readonly #events = new Fifo<SessionEvent>();

  #lifecycle: LifecycleState = LifecycleState.INITIAL;
  /** Mirrors `#lifecycle === established`: all that the data path asks. */
  #isEstablished = false;
  #isConnected = false;
  #hasEnded = false;
  #id: string | undefined;
  #negotiated: Negotiated | undefined;
  /** In place from ACCEPT on. */
  #data: DataPath | undefined;
  /** Server: what the client may send per time. */
  #gate: RateLimiter | undefined;

  #agentId: string | undefined;
  /** Server: until when the credentials are good, where they end. */
  #expiry: Expiry | undefined;
  /** Server: what it has said about draining. */
  #departure: Departure | undefined;
  /** Client: what it has heard about it. */
  #goAway: GoAwayPayload | undefined;
  #retryAfterMs = 0;
  #unknownMessages = 0;
  /** Why the session ends, where it does not end as agreed. */
  #failure: ProtocolError | undefined;
  #close: CloseMessage['payload'] = NORMAL_CLOSE;
  /** CLOSE was said on this connection; like all that is not counted it is said anew on the next. */
  #sentClose = false;
  #receivedClose = false;
  /** The peer closes, and this end only follows. */
  #wasAskedToClose = false;
  /** The connection was lost, and another one may take the session up. */
  #isLost = false;
  /** Tensors that were cut short as the peer closes. */
  #givenUp: readonly UndeliveredBody[] = [];
  /** As it was when the session failed, which forgets what waits. */
  #undelivered: Undelivered | undefined;
  /** In place while the codecs of the session are being loaded. */
  #held: HeldFrames | undefined;

  /** The last clock reading, for what the application does between two of them. */
  #now = 0;
  #lastData = 0;
  /** Clock reading at which the present state times out. */
  #stateDeadline = Infinity;
  /** Clock reading at which closing times out, whether a connection carries it or not. */
  #closingDue = Infinity;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.subprotocol = options.subprotocol;
    this.#control = new ControlWriter(this.#outbox, options.subprotocol, options.timeOrigin);
    if (options.role === 'server') this.#server = new ServerHandshake(options);
    else this.#client = new ClientHandshake(options);
    this.#liveness = new Liveness(options.timers);
  }

  get channel(): Channel {
    return this;
  }
  get state(): SessionState {
    return PUBLIC_STATE[this.#lifecycle];
  }
  get lifecycle(): LifecycleState {
    return this.#lifecycle;
  }
  get id(): string | undefined {
    return this.#id;
  }
  get negotiated(): Negotiated | undefined {
    return this.#negotiated;
  }
  get hasLink(): boolean {
    return this.#data?.link !== undefined;
  }
  get queuedBytes(): number {
    return this.#outbox.queuedBytes;
  }
  get heldBytes(): number {
    return this.#outbox.memory + (this.#data?.unreadBytes ?? 0);
  }
  get sentBodies(): Channel['sentBodies'] {
    return this.#outbox.sentBodies;
  }
  get hasOutput(): boolean {
    return !this.#outbox.isIdle;
  }
  get hasEvents(): boolean {
    return this.#events.size > 0;
  }
  get isBlockedOnCredit(): boolean {
    return this.#outbox.blockedStreams > 0;
  }
  get isFull(): boolean {
    return this.#held?.isFull === true || (this.#data?.isFull ?? false);
  }
  get isPaced(): boolean {
    return this.#outbox.isPaced;
  }
  get openStreams(): number {
    return this.#data?.link?.openStreams ?? 0;
  }
  get contextUse(): Channel['contextUse'] {
    return this.#data?.link?.contextUse;
  }
  get framesConfirmed(): number {
    return this.#data?.link?.framesConfirmed ?? 0;
  }
  get framesUnconfirmed(): number {
    return this.#data?.link?.framesUnconfirmed ?? 0;
  }
  get unknownMessages(): number {
    return this.#unknownMessages;
  }
  undelivered(): Undelivered {
    if (this.#undelivered !== undefined) return this.#undelivered;
    const { notSent, unknown } = undelivered(this.#outbox);
    return { notSent: [...this.#givenUp, ...notSent], unknown };
  }
  get roundTripMs(): number | undefined {
    return this.#liveness.roundTripMs;
  }
  get goAway(): GoAwayPayload | undefined {
    return this.#goAway ?? this.#departure?.announced;
  }
  get retryAfterMs(): number {
    return this.#retryAfterMs;
  }

  // --- what happens

  handleConnected(now: number, token: string | undefined = this.#options.token): void {
    this.#tick(now);
    this.#connect(now);
    this.#apply(LifecycleEvent.OPEN);
    const client = this.#client;
    if (client === undefined) return;
    const payload = this.#isLost
      ? client.helloAgain(token, this.#id ?? '', this.#data?.link?.framesReceived ?? 0, now)
      : client.hello(token);
    this.#control.sayWithoutSession({ type: 'HELLO', payload }, this.#now);
  }

  handleMessage(data: Uint8Array | string, now: number): void {
    this.#tick(now);
    this.#liveness.handleReceived(now);
    if (this.#hasEnded || this.#client?.rejected !== undefined) return;
    try {
      this.#gate?.handleBytes(data.length, now);
      this.#handleFrame(data);
      this.#assertRead();
    } catch (error) {
      this.#fail(error);
    }
  }

  holdFrames(): void {
    this.#held ??= new HeldFrames(this.#options.limits);
  }

  releaseFrames(now: number): void {
    this.#tick(now);
    const frames = this.#held?.take() ?? [];
    this.#held = undefined;
    try {
      for (const frame of frames) {
        if (this.#hasEnded) return;
        this.#handleFrame(frame);
      }
    } catch (error) {
      this.#fail(error);
    }
  }

  handleUnread(now: number): void {
    this.#liveness.handleReceived(now);
  }

  handleDisconnected(closeCode: number, reason: string, now: number): void {
    this.#tick(now);
    // What was not counted comes again, or its sender knows that it was not acknowledged.
    this.#held?.take();
    // In the initial state it is a connection that never came about.
    if (!this.#isConnected && this.#lifecycle !== LifecycleState.INITIAL) return;
    const client = this.#client;
    const isUnanswered = this.#isLost && client?.isResuming === true;
    const rejected = client?.rejected;
    this.#isConnected = false;
    if (client !== undefined) client.answerDue = Infinity;
    if (this.#hasEnded) return;
    const retryable = rejected?.retryable ?? isRetryableCloseCode(closeCode);
    // A server that is full or drains refuses the connection and keeps the session. Where somebody repeats a
    // HELLO and is heard first, the next attempt is newer than both.
    const isRefused = rejected !== undefined || isUnanswered;
    const isLoss = isRefused
      ? retryable || closeCode === CloseCode.STALE_ATTEMPT
      : isConnectionLoss(closeCode);
    if (isLoss && this.#isResumable) {
      if (client !== undefined) client.rejected = undefined;
      this.#isLost = true;
      this.#sentClose = false;
      this.#outbox.pause();
      this.#apply(LifecycleEvent.LOST);
      return;
    }
    if (rejected !== undefined) {
      this.#failure = rejection(rejected, { side: 'remote', closeCode, retryable });
      this.#apply(LifecycleEvent.REJECT);
      return;
    }
    // Whatever else the far end closes with ends the session and its token.
    this.#server?.forget();
    client?.forget();
    // Once the peer has said CLOSE and has everything, it may leave before it has heard ours.
    if (!this.#isSettled) {
      this.#failure ??= disconnectError(closeCode, reason, this.state === 'connecting');
    }
    // In the suspended state only a refusal is no loss of the connection.
    this.#apply(this.#lifecycle === LifecycleState.SUSPENDED ? LifecycleEvent.REJECT : LifecycleEvent.LOST);
  }

  handleTimeout(now: number): void {
    this.#tick(now);
    if (this.#hasEnded) return;
    this.#data?.link?.handleTimeout(now);
    if (now >= this.#stateDeadline) {
      this.#stateDeadline = Infinity;
      this.#handleStateTimeout();
      return;
    }
    if (now >= this.#answerDue) this.#loseConnection('HELLO was not answered');
    if (!this.#isEstablished) return;
    if (this.#expiry !== undefined && now >= this.#expiry.deadline) {
      this.#violate(new ProtocolError('unauthenticated', 'the credentials have expired'));
      return;
    }
    if (now >= this.#idleDeadline()) {
      this.#close = {
        reason: CloseReason.TIMEOUT,
        message: `no data for ${this.#options.timers.sessionTimeoutMs} ms`,
      };
      this.#apply(LifecycleEvent.TIMEOUT);
      return;
    }
    switch (this.#liveness.check(now, this.framesUnconfirmed > 0)) {
      case 'ping':
        this.#outbox.releaseMemory();
        this.#say({ type: 'PING', payload: {} });
        return;
      case 'lost':
        this.#loseConnection('no PING was answered');
    }
  }

  nextTimeout(): number {
    if (this.#hasEnded) return Infinity;
    if (this.#isLost) return Math.min(this.#stateDeadline, this.#answerDue);
    const link = this.#data?.link?.nextTimeout() ?? Infinity;
    const pace = this.isPaced ? (this.#outbox.pace?.readyAt(this.#now) ?? Infinity) : Infinity;
    if (!this.#isEstablished) return Math.min(this.#stateDeadline, link, pace);
    return Math.min(
      this.#stateDeadline,
      link,
      pace,
      this.#expiry?.deadline ?? Infinity,
      this.#idleDeadline(),
      this.#liveness.nextCheck(this.framesUnconfirmed > 0),
    );
  }

  // --- commands

  accept(sessionId: string, now: number, { agentId, refusal }: AcceptOptions = {}): Negotiation {
    this.#tick(now);
    const server = this.#server;
    if (server?.isPending !== true || this.#lifecycle !== LifecycleState.AWAITING_HELLO) {
      throw new ProtocolError('invalid_argument', 'no HELLO waits for an answer');
    }
    let answer: Answer;
    try {
      answer = server.answer();
    } catch (error) {
      // What the application was asked for, such as the tokens of a model, failed.
      this.#violate(toProtocolError(error, 'internal', 'the agreement could not be worked out'));
      return { accepted: false, reject: { code: RejectCode.UNKNOWN, message: 'the server failed' } };
    }
    const { offer, outcome, negotiated } = answer;
    if (!outcome.accepted) {
      this.reject(outcome.reject, CloseCode.BAD_FRAME, now);
      return outcome;
    }
    this.#begin(sessionId);
    this.#agree(negotiated as Negotiated, offer.extensions);
    server.complete(answer, negotiated as Negotiated);
    this.#agentId = agentId;
    this.#sendAccept(offer, this.#resumeAnswer(false, refusal));
    this.#apply(LifecycleEvent.ACCEPT);
    return outcome;
  }

  checkResume(hello: HelloPayload, subprotocol: Subprotocol): ResumeRefusal | 'stale_attempt' | undefined {
    if (this.#hasEnded || this.#server === undefined) return ResumeRefusal.UNKNOWN_SESSION;
    return this.#server.checkResume(hello, subprotocol);
  }

  resume(offer: ResumeOffer, now: number): void {
    this.#tick(now);
    const link = this.#data?.link;
    const server = this.#server;
    if (!this.#isLost || link === undefined || server?.isResumable !== true) {
      throw new ProtocolError('invalid_argument', 'only a session without a connection is taken up');
    }
    this.#connect(now);
    this.#handleTakenUp();
    server.acceptResume(offer);
    try {
      link.confirmResumed(offer.received);
    } catch (error) {
      this.#violate(toProtocolError(error, 'internal', 'the session could not be taken up'));
      return;
    }
    if (server.offer !== undefined) this.#sendAccept(server.offer, this.#resumeAnswer(true));
    // Whatever this states and replays comes behind ACCEPT.
    link.resume(offer.received);
    this.#apply(LifecycleEvent.ACCEPT);
    if (this.#departure !== undefined) this.#sayGoAway(this.#departure);
  }

  reject(refusal: RejectPayload, closeCode: CloseCode, now: number): void {
    this.#tick(now);
    if (this.#hasEnded) return;
    const reject = { ...refusal, retryable: refusal.retryable ?? isRetryableCloseCode(closeCode) };
    this.#control.sayWithoutSession({ type: 'REJECT', payload: reject }, this.#now);
    this.#failure = rejection(reject, { closeCode });
    this.#apply(LifecycleEvent.REJECT);
  }

  grant(expiresAt: number | null, now: number): void {
    this.#tick(now);
    const wasAsked = this.#expiry?.isPending ?? false;
    if (expiresAt === null && !wasAsked) return;
    this.#expiry ??= new Expiry(this.#options.timers.acceptTimeoutMs);
    this.#expiry.handleGranted(expiresAt === null ? Infinity : expiresAt - (this.#options.timeOrigin ?? 0));
    // What is said without a connection would come before the next ACCEPT.
    if (!this.#isConnected || !this.#isEstablished) return;
    this.#say({ type: 'AUTH', payload: { expiresAt } });
  }

  authenticate(token: string, now: number): void {
    this.#tick(now);
    if (this.#isEstablished) this.#say({ type: 'AUTH', payload: { token } });
  }

  sendGoAway(payload: GoAwayPayload, now: number): void {
    this.#tick(now);
    this.#departure = new Departure(payload);
    this.#sayGoAway(this.#departure);
  }

  send(body: BodyToSend): void {
    this.#sendable().send(body);
  }

  request(body: BodyToSend): number {
    if (this.#goAway !== undefined) throw drainingError(this.#goAway);
    return this.#sendable().linkFor(body).request(body);
  }

  transfer(transfer: OutgoingTransfer): number {
    return this.#sendable().linkForTransfer(transfer).transfer(transfer);
  }

  feed(streamId: number, bytes: Uint8Array, onWritten?: () => void): void {
    this.#lastData = this.#now;
    this.#data?.link?.feed(streamId, bytes, onWritten);
  }

  respond(streamId: number, body: BodyToSend): void {
    const data = this.#replyTo(streamId);
    if (data === undefined) this.end(streamId);
    else data.linkFor(body).respond(streamId, body);
  }

  chunk(streamId: number, body: BodyToSend): void {
    this.#replyTo(streamId)?.linkFor(body).chunk(streamId, body);
  }

  end(streamId: number): void {
    this.#lastData = this.#now;
    // A reply that closing has cut short must not look complete, and nothing may follow CLOSE.
    if (this.#isOpen) this.#data?.link?.end(streamId);
  }

  fail(streamId: number, error: unknown): void {
    this.#lastData = this.#now;
    if (this.#isOpen) this.#data?.link?.fail(streamId, error);
  }

  refuse(streamId: number, error: ProtocolError): void {
    this.#lastData = this.#now;
    if (this.#hasEnded || this.#sentClose) return;
    this.#data?.link?.refuse(streamId, error);
  }

  cancel(streamId: number): void {
    if (this.#hasEnded || this.#sentClose) return;
    if (this.#data?.link?.cancel(streamId)) this.#emit({ type: 'end', streamId });
  }

  consume(streamId: number, charge: number): boolean {
    return charge > 0 && !this.#hasEnded && (this.#data?.consume(streamId, charge) ?? false);
  }

  queuedOn(streamId: number): number {
    return this.#outbox.queuedOn(streamId);
  }

  memoryOf(streamId: number): number {
    return this.#outbox.memoryOf(streamId);
  }

  holdCredit(isHeld: boolean): void {
    const link = this.#data?.link;
    if (link !== undefined) link.isCreditHeld = isHeld;
  }

  isWanted(streamId: number): boolean {
    return !this.#hasEnded && (this.#data?.link?.isWanted(streamId) ?? false);
  }

  close(reason: CloseReason, message: string, now: number): void {
    this.#tick(now);
    if (this.#hasEnded) return;
    if (this.#negotiated === undefined) {
      this.#failure ??= new ProtocolError('session_closed', 'closed before it was established');
    }
    this.#close = { reason, message };
    this.#apply(LifecycleEvent.CLOSE);
  }

  abort(error: ProtocolError, now: number): void {
    this.#tick(now);
    this.#violate(error);
  }

  // --- effects

  pollTransmit(): Uint8Array | string | undefined {
    const frame = this.#outbox.next(this.#now);
    if (frame !== undefined || this.#lifecycle !== LifecycleState.CLOSING || this.#isLost) return frame;
    // Once everything else is out, CLOSE is said; once both have said it and all has arrived, whoever began
    // leaves. The other stays until then, for the answer may be lost with its connection.
    if (!this.#sentClose) {
      if (this.#outbox.hasBodies) return undefined;
      this.#sentClose = true;
      this.#data?.link?.stopSending();
      this.#say({ type: 'CLOSE', payload: this.#close });
      return this.#outbox.next(this.#now);
    }
    const stays = this.#wasAskedToClose && this.#isResumable;
    if (this.#receivedClose && this.framesUnconfirmed === 0 && !stays) this.#apply(LifecycleEvent.CLOSE_DONE);
    return undefined;
  }

  pollEvent(): SessionEvent | undefined {
    return this.#events.shift();
  }

  // --- frames

  #handleFrame(data: Uint8Array | string): void {
    const isLink = typeof data !== 'string' && (data[0] ?? 0) >> 4 === LINK_FIRST_BYTE >> 4;
    if (isLink && this.#data?.link !== undefined) this.#handleLinkFrame(this.#data, data);
    else this.#handleOther(data);
  }

  #handleLinkFrame(data: DataPath, frame: Uint8Array): void {
    if (this.#isLost) {
      throw new ProtocolError('protocol_violation', 'a link frame before ACCEPT');
    }
    if (this.#held !== undefined) return this.#held.add(frame);
    this.#server?.settle();
    // Acknowledgements and credit come after CLOSE too.
    if (isCounted(((frame[0] ?? 0) & 0x0f) as LinkKind)) {
      this.#assertOpen();
      this.#lastData = this.#now;
    }
    const event = data.handleLinkFrame(frame, this.#now);
    if (event !== undefined) this.#emit(event);
  }

  #handleOther(data: Uint8Array | string): void {
    const { limits, subprotocol } = this.#options;
    const isAgreed = this.#negotiated !== undefined;
    const incoming = readIncoming(data, subprotocol, limits, isAgreed, !isAgreed || this.#isLost);
    if (incoming.type === 'control') this.#handleControl(incoming.message, data);
    else if (this.#held !== undefined) this.#held.add(data);
    else this.#handleBare(incoming.content);
  }

  #handleBare(content: Uint8Array | string, securityStatus?: SecurityStatus): void {
    if (this.#data === undefined) throw new ProtocolError('protocol_violation', 'data before ACCEPT');
    this.#assertOpen();
    const event = this.#data.handleBare(content, this.#now, securityStatus);
    this.#lastData = this.#now;
    this.#emit(event);
  }

  /** Every PING is answered, and much else: who does not read the answers is not waited for. */
  #assertRead(): void {
    if (this.#outbox.controlFrames <= MAX_CONTROL_FRAMES) return;
    throw new ProtocolError('rate_limited', 'the peer does not read what it is answered');
  }

  /** While closing, what still arrives is taken until the peer's CLOSE. */
  #assertOpen(): void {
    if (this.#receivedClose) throw new ProtocolError('protocol_violation', 'a frame after CLOSE');
  }

  #sendable(): DataPath {
    if (!this.#isOpen || this.#data === undefined) {
      throw new ProtocolError('session_closed', `the session is ${this.state}; nothing can be sent`);
    }
    this.#lastData = this.#now;
    return this.#data;
  }

  /** `undefined` where nobody waits for a reply any more. */
  #replyTo(streamId: number): DataPath | undefined {
    this.#lastData = this.#now;
    return this.#isOpen && this.isWanted(streamId) ? this.#data : undefined;
  }

  /** Established, or suspended and waiting to go on: what is sent now is written then. */
  get #isOpen(): boolean {
    return this.#isEstablished || this.#lifecycle === LifecycleState.SUSPENDED;
  }

  /** The peer has closed and has everything: nothing is left but to leave. */
  get #isSettled(): boolean {
    return this.#receivedClose && this.framesUnconfirmed === 0 && this.#outbox.unwritten().length === 0;
  }

  /** Resume was agreed, and nothing has come in between. */
  get #hasResume(): boolean {
    return this.#server?.isResumable ?? this.#client?.isResumable ?? false;
  }

  /** When HELLO must be answered on a further connection. */
  get #answerDue(): number {
    return this.#client?.answerDue ?? Infinity;
  }

  /** A lost connection is no end: a session that closes is taken up to finish as well. */
  get #isResumable(): boolean {
    return this.#hasResume && (this.#isOpen || this.#lifecycle === LifecycleState.CLOSING);
  }

  // --- control messages

  #handleControl(message: ControlMessage | UnknownMessage, frame: Uint8Array | string): void {
    const { type, sessionId } = message;
    if (type !== 'DATA') this.#gate?.handleControl(this.#now);
    if (type === 'UNKNOWN') {
      // Once: a peer that goes on is counted, and fills no log.
      if (this.#unknownMessages++ > 0) return;
      this.#emit({
        type: 'warning',
        message: 'a message of unknown type was ignored',
      });
      return;
    }
    // A new session on a connection that was to take up this one bears its own name.
    if (this.#id !== undefined && sessionId !== null && sessionId !== this.#id && type !== 'ACCEPT') {
      throw new ProtocolError('bad_message', `${type} names another session`);
    }
    const isHandshake = type === 'HELLO' || type === 'ACCEPT' || type === 'REJECT';
    if (!isHandshake && this.#negotiated === undefined) {
      throw new ProtocolError('protocol_violation', `${type} before ACCEPT`);
    }
    switch (type) {
      case 'HELLO':
        return this.#handleHello(message.payload);
      case 'ACCEPT':
        return this.#handleAccept(message, frame);
      case 'REJECT':
        return this.#handleReject(message.payload);
      case 'DATA':
        if (this.subprotocol === Subprotocol.BINARY)
          throw new ProtocolError('protocol_violation', `DATA belongs to ${Subprotocol.JSON}`);
        if (typeof message.payload.content !== 'string') {
          throw new ProtocolError('bad_message', 'content must be a string');
        }
        if (this.#held !== undefined) return this.#held.add(frame);
        return this.#handleBare(message.payload.content, message.payload.securityStatus);
      case 'PING':
        return this.#say({ type: 'PONG', payload: {} });
      case 'PONG':
        return this.#handlePong();
      case 'AUTH':
        return this.#handleAuth(message);
      case 'GOAWAY':
        return this.#handleGoAway(message.payload);
      case 'CLOSE':
        if (this.#isLost) throw new ProtocolError('protocol_violation', 'CLOSE before ACCEPT');
        if (this.#held !== undefined) return this.#held.add(frame);
        return this.#handleClose(message.payload);
    }
  }

  #handleHello(hello: HelloPayload): void {
    const server = this.#server;
    if (server === undefined || this.#lifecycle !== LifecycleState.AWAITING_HELLO || server.isPending) {
      throw new ProtocolError('protocol_violation', 'HELLO out of place: it is said once, by the client');
    }
    server.receive(hello);
    this.#stateDeadline = this.#now + this.#options.timers.acceptTimeoutMs;
    this.#emit({ type: 'hello', hello });
  }

  #handleAccept({ sessionId, payload }: AcceptMessage, frame: Uint8Array | string): void {
    const client = this.#client;
    if (client?.isResuming === true)
      return this.#handleResumeAnswer(client, sessionId as string, payload.resume, frame);
    if (client === undefined || this.#lifecycle !== LifecycleState.HELLO_SENT) {
      throw new ProtocolError('protocol_violation', 'ACCEPT out of place');
    }
    const negotiated = client.agree(payload);
    this.#begin(sessionId as string);
    this.#agree(negotiated, payload.extensions);
    this.#apply(LifecycleEvent.ACCEPT);
  }

  #handleResumeAnswer(
    client: ClientHandshake,
    sessionId: string,
    resume: ResumeAnswer | undefined,
    frame: Uint8Array | string,
  ): void {
    client.answerDue = Infinity;
    if (resume?.recovered === true && sessionId === this.#id) {
      this.#handleTakenUp();
      client.handleRecovered(resume);
      this.#data?.link?.resume(resume.received);
      this.#apply(LifecycleEvent.ACCEPT);
      return;
    }
    if (!this.#isSettled) this.#failure = notRecovered(resume);
    // The connection belongs to the new session from here on; after a close nobody wants one.
    if (this.#isOpen) {
      this.#isConnected = false;
      this.#emit({ type: 'superseded', accept: frame });
    }
    this.#apply(LifecycleEvent.TIMEOUT);
  }

  #handleReject(reject: RejectPayload): void {
    const client = this.#client;
    const isAnswer = this.#lifecycle === LifecycleState.HELLO_SENT || client?.isResuming === true;
    // Later it says that the server refuses what was sent.
    if (client === undefined || (!isAnswer && !this.#isEstablished)) {
      throw new ProtocolError('protocol_violation', 'REJECT out of place');
    }
    client.answerDue = Infinity;
    // The close code that follows says more, so the end of the session waits for it, for a while.
    client.rejected = reject;
    this.#retryAfterMs = reject.retryAfterMs ?? 0;
    if (this.#lifecycle !== LifecycleState.SUSPENDED) {
      this.#stateDeadline = this.#now + this.#options.timers.closingTimeoutMs;
    }
  }

  #handlePong(): void {
    this.#liveness.handlePong(this.#now);
    const departure = this.#departure;
    if (departure === undefined) return;
    departure.handlePong();
    if (departure.isHeard && this.#gate !== undefined)
      this.#gate.refusal = drainingError(departure.announced);
  }

  #handleAuth({ payload, timestamp }: AuthMessage): void {
    const { role, timers } = this.#options;
    if (role === 'client') {
      if ('token' in payload)
        throw new ProtocolError('protocol_violation', 'AUTH with a token is for a client to send');
      const { expiresAt } = payload;
      // Both are readings of the server's clock, which may differ from the one here.
      const expiresInMs = expiresAt === null ? Infinity : Math.max(0, expiresAt - timestamp);
      this.#emit({ type: 'granted', expiresInMs });
      return;
    }
    if (!('token' in payload)) throw new ProtocolError('bad_message', 'AUTH of a client carries a token');
    this.#expiry ??= new Expiry(timers.acceptTimeoutMs);
    if (this.#expiry.isPending)
      throw new ProtocolError('protocol_violation', 'AUTH before the last one was answered');
    // Finding out who somebody is costs more than a message.
    this.#gate?.handleMessage(this.#now);
    this.#expiry.handleRequested(this.#now);
    this.#emit({ type: 'auth', token: payload.token });
  }

  #handleGoAway(payload: GoAwayPayload): void {
    if (this.#options.role === 'server')
      throw new ProtocolError('protocol_violation', 'GOAWAY is for a server to send');
    this.#goAway = payload;
    this.#emit({ type: 'goaway', ...payload });
  }

  #sayGoAway(departure: Departure): void {
    if (!this.#isConnected || !this.#isEstablished) return;
    departure.handleSaid(this.#liveness.unanswered);
    this.#say({ type: 'GOAWAY', payload: departure.announced });
    this.#say({ type: 'PING', payload: {} });
  }

  #handleClose({ reason, message }: CloseMessage['payload']): void {
    this.#wasAskedToClose ||= this.#lifecycle !== LifecycleState.CLOSING;
    this.#receivedClose = true;
    // Nothing counted follows, and the peer waits until it knows that all has arrived.
    this.#data?.link?.acknowledge();
    // A tensor that is still being generated would keep the peer waiting, who does not want it any more.
    this.#givenUp = this.#dropSources();
    if (reason === CloseReason.TIMEOUT) {
      this.#failure ??= new ProtocolError('timeout', `the peer closed: ${message || 'idle'}`, {
        side: 'remote',
      });
    }
    this.#apply(LifecycleEvent.PEER_CLOSE);
  }

  #dropSources(): UndeliveredBody[] {
    const before = this.#outbox.unwritten();
    this.#outbox.dropSources();
    const kept = new Set(this.#outbox.unwritten());
    return [...this.#givenUp, ...before.filter((body) => !kept.has(body)).map(unsent)];
  }

  #begin(sessionId: string): void {
    this.#id = sessionId;
    this.#control.sessionId = sessionId;
  }

  /** Pins what was agreed and puts the data path in place. */
  #agree(negotiated: Negotiated, peerExtensions: StringMap): void {
    const { role, limits, capabilities, security } = this.#options;
    this.#negotiated = negotiated;
    if (role === 'server') this.#gate = new RateLimiter(limits);
    else this.#outbox.pace = new Pacer(negotiated.limits);
    this.#outbox.retain = negotiated.extensions[Extension.RESUME] !== undefined;
    this.#data = new DataPath({
      role,
      limits,
      negotiated,
      ownExtensions: capabilities.extensions,
      peerExtensions,
      outbox: this.#outbox,
      gate: this.#gate,
      security,
      sendData:
        this.subprotocol === Subprotocol.JSON
          ? (payload, body) => this.#control.sayData(payload, body, this.#now)
          : undefined,
    });
  }

  #handleTakenUp(): void {
    this.#isLost = false;
    if (this.#lifecycle === LifecycleState.CLOSING) this.#stateDeadline = this.#closingDue;
  }

  #sendAccept(offer: Offer, resume: ResumeAnswer | undefined): void {
    const payload = acceptOf(this.#negotiated as Negotiated, offer, this.#options, this.#agentId, resume);
    this.#say({ type: 'ACCEPT', payload });
  }

  #resumeAnswer(recovered: boolean, reason?: ResumeRefusal): ResumeAnswer | undefined {
    return this.#server?.resumeAnswer(recovered, this.#data?.link?.framesReceived ?? 0, reason);
  }

  #say(said: Parameters<ControlWriter['say']>[0]): void {
    this.#control.say(said, this.#now);
  }

  // --- time

  #tick(now: number): void {
    if (now > this.#now) this.#now = now;
  }

  /** Only the server closes idle sessions; an open stream keeps one, PING and PONG do not. */
  #idleDeadline(): number {
    if (this.#options.role === 'client' || this.openStreams > 0) return Infinity;
    return this.#lastData + this.#options.timers.sessionTimeoutMs;
  }

  /** Gives up a connection on which the peer is silent; what that means is the lifecycle's to say. */
  #loseConnection(reason: string): void {
    this.#emit({ type: 'disconnect', closeCode: CloseCode.TIMEOUT, reason });
    this.handleDisconnected(CloseCode.TIMEOUT, reason, this.#now);
  }

  #handleStateTimeout(): void {
    const { helloTimeoutMs, acceptTimeoutMs, closingTimeoutMs } = this.#options.timers;
    if (this.#client?.rejected !== undefined) {
      this.#emit({ type: 'disconnect', closeCode: CloseCode.NORMAL, reason: '' });
      this.handleDisconnected(CloseCode.ABNORMAL, '', this.#now);
      return;
    }
    const told = {
      [LifecycleState.AWAITING_HELLO]:
        this.#server?.isPending !== true
          ? `no HELLO within ${helloTimeoutMs} ms`
          : `HELLO was not decided upon within ${acceptTimeoutMs} ms`,
      [LifecycleState.HELLO_SENT]: `HELLO was not answered within ${acceptTimeoutMs} ms`,
      [LifecycleState.CLOSING]: `the peer did not close within ${closingTimeoutMs} ms`,
    }[this.#lifecycle as string];
    if (!this.#isSettled) {
      this.#failure ??= this.#isLost
        ? new ProtocolError('session_lost', 'no connection took the session up in time')
        : new ProtocolError('timeout', told ?? 'the session timed out');
    }
    this.#apply(LifecycleEvent.TIMEOUT);
  }

  #connect(now: number): void {
    this.#isConnected = true;
    this.#retryAfterMs = 0;
    this.#expiry = undefined;
    this.#liveness.restart(now);
  }

  // --- lifecycle

  #apply(event: LifecycleEvent): void {
    const before = this.state;
    const step = stepLifecycle(this.#lifecycle, event, {
      role: this.#options.role,
      resumable: this.#hasResume,
    });
    this.#lifecycle = step.state;
    this.#isEstablished = step.state === LifecycleState.ESTABLISHED;
    if (this.state !== before) this.#emit({ type: 'state', state: this.state });
    for (const effect of step.effects) this.#perform(effect);
  }

  #perform(effect: LifecycleEffect): void {
    const { timers } = this.#options;
    switch (effect) {
      case LifecycleEffect.AWAIT_HELLO:
        this.#stateDeadline = this.#now + timers.helloTimeoutMs;
        return;
      case LifecycleEffect.AWAIT_ACCEPT:
        this.#stateDeadline = this.#now + timers.acceptTimeoutMs;
        return;
      case LifecycleEffect.ESTABLISH:
        this.#stateDeadline = Infinity;
        this.#lastData = this.#now;
        return;
      case LifecycleEffect.SUSPEND:
        this.#stateDeadline = this.#now + (this.#client?.windowMs ?? timers.resumeWindowMs);
        return;
      case LifecycleEffect.BEGIN_CLOSING:
        this.#closingDue = this.#now + timers.closingTimeoutMs;
        // A suspended session ends with its window all the same.
        this.#stateDeadline = Math.min(this.#stateDeadline, this.#closingDue);
        return;
      case LifecycleEffect.END: {
        const refused = this.#failure?.code === 'rejected' && this.#failure.side === 'local';
        const [closeCode, reason] = refused
          ? [this.#failure?.closeCode ?? CloseCode.BAD_FRAME, truncateReason(this.#failure?.message ?? '')]
          : [CloseCode.NORMAL, this.#close.reason];
        this.#finish(closeCode, reason);
        return;
      }
      case LifecycleEffect.FAIL: {
        this.#undelivered = this.undelivered();
        this.#outbox.clear();
        const error = this.#failure ?? new ProtocolError('internal', 'the session failed');
        this.#finish(error.closeCode, closeReasonOf(error));
      }
    }
  }

  /** What the peer has sent cannot be taken. */
  #fail(error: unknown): void {
    this.#violate(toProtocolError(error, 'internal', 'the session failed on a frame'), CloseCode.BAD_FRAME);
  }

  /** @param closeCode for errors that have none: 1000 says that the session ended as agreed. */
  #violate(error: ProtocolError, closeCode: CloseCode = CloseCode.INTERNAL): void {
    if (this.#hasEnded) return;
    this.#failure = isSent(error.closeCode) || !this.#isConnected ? error : endingWith(closeCode, error);
    this.#apply(LifecycleEvent.VIOLATION);
  }

  #finish(closeCode: number, reason: string): void {
    this.#hasEnded = true;
    this.#stateDeadline = Infinity;
    this.#outbox.releaseMemory();
    if (this.#isConnected) this.#emit({ type: 'disconnect', closeCode, reason });
    this.#emit({ type: 'ended', error: this.#failure });
  }

  #emit(event: SessionEvent): void {
    this.#events.push(event);
  }
}

/** Whether a connection is closed with `code` if something went wrong. */
function isSent(code: number): boolean {
  return code !== CloseCode.NORMAL && code !== CloseCode.ABNORMAL;
}

function endingWith(closeCode: CloseCode, error: ProtocolError): ProtocolError {
  const { code, message, side, retryable, retryAfterMs } = error;
  return new ProtocolError(code, message, { side, retryable, retryAfterMs, closeCode, cause: error });
}
