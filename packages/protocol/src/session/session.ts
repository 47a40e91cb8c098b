import { CloseCode, isRetryableCloseCode } from '../base/close-codes.js';
import { Extension, Subprotocol } from '../base/constants.js';
import { ProtocolError, toProtocolError } from '../base/errors.js';
import type { StringMap } from '../base/fields.js';
import { Fifo } from '../base/fifo.js';
import { LINK_FIRST_BYTE } from '../base/frame-kind.js';
import type { SecurityStatus } from '../codec/body.js';
import type { Negotiated } from '../control/agreement.js';
import {
  type CloseMessage,
  CloseReason,
  type ControlMessage,
  type GoAwayPayload,
  type HelloPayload,
  type RejectPayload,
  type ResumeOffer,
  ResumeRefusal,
  type UnknownMessage,
} from '../control/messages.js';
import type { Negotiation } from '../control/negotiate.js';
import { isCounted, type LinkKind } from '../link/frame.js';
import { createOutbox, type Outbox } from '../link/outbox.js';
import { createChannel } from './channel.js';
import { ClientRole } from './client-role.js';
import { closeReasonOf, disconnectError, rejection, truncateReason, withCloseCode } from './close-reason.js';
import { type ChannelHost, ClosedChannel, type SessionChannel } from './closed-channel.js';
import { Closing } from './closing.js';
import { ControlWriter } from './control-writer.js';
import { HeldFrames } from './held-frames.js';
import { readIncoming } from './incoming.js';
import { LifecycleEffect, LifecycleEvent, LifecycleState, stepLifecycle } from './lifecycle.js';
import type { Role, RoleHost } from './role.js';
import { ServerRole } from './server-role.js';
import { SessionTimers, type TimedSession } from './timers.js';
import type {
  AcceptOptions,
  SessionCore,
  SessionEvent,
  SessionOptions,
  SessionState,
  Undelivered,
} from './types.js';

/** Creates one end of a session; see {@link SessionCore} for how to drive it. */
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

/** Control frames that may wait to be written: far more than a peer that reads ever leaves waiting. */
const MAX_CONTROL_FRAMES = 10_000;

class Core implements SessionCore, RoleHost, ChannelHost, TimedSession {
  readonly subprotocol: Subprotocol;
  readonly options: SessionOptions;
  readonly outbox: Outbox = createOutbox();
  readonly timers: SessionTimers;
  readonly control: ControlWriter;
  readonly role: Role;
  readonly #events = new Fifo<SessionEvent>();

  lifecycle: LifecycleState = LifecycleState.INITIAL;
  /** Mirrors `lifecycle === established`: the data path reads nothing else. */
  isEstablished = false;
  isConnected = false;
  isLost = false;
  hasEnded = false;
  id: string | undefined;
  negotiated: Negotiated | undefined;
  channel: SessionChannel = new ClosedChannel(this);
  unknownMessages = 0;
  /** Why the session ends; `undefined` if it ends as agreed. */
  #failure: ProtocolError | undefined;
  readonly #closing = new Closing(this.outbox);
  /** Set while the codecs of the session are being loaded. */
  #held: HeldFrames | undefined;

  constructor(options: SessionOptions) {
    this.options = options;
    this.subprotocol = options.subprotocol;
    this.timers = new SessionTimers(options.timers);
    this.control = new ControlWriter(this.outbox, this.timers, options.subprotocol, options.timeOrigin);
    this.role = options.role === 'server' ? new ServerRole(this) : new ClientRole(this);
  }

  get state(): SessionState {
    return PUBLIC_STATE[this.lifecycle];
  }
  get queuedBytes(): number {
    return this.outbox.queuedBytes;
  }
  get heldBytes(): number {
    return this.outbox.memory + this.channel.unreadBytes;
  }
  get hasOutput(): boolean {
    return !this.outbox.isIdle;
  }
  get hasEvents(): boolean {
    return this.#events.size > 0;
  }
  get isBlockedOnCredit(): boolean {
    return this.outbox.blockedStreams > 0;
  }
  get isFull(): boolean {
    return this.#held?.isFull === true || this.channel.isFull;
  }
  get isPaced(): boolean {
    return this.outbox.isPaced;
  }
  get roundTripMs(): number | undefined {
    return this.timers.liveness.roundTripMs;
  }
  get goAway(): GoAwayPayload | undefined {
    return this.role.goAway;
  }
  get retryAfterMs(): number {
    return this.role.retryAfterMs;
  }

  undelivered(): Undelivered {
    return this.#closing.undelivered();
  }

  // --- what happens

  handleConnected(now: number, token: string | undefined = this.options.token): void {
    this.timers.tick(now);
    this.connect();
    this.apply(LifecycleEvent.OPEN);
    this.role.handleConnected(token);
  }

  handleMessage(data: Uint8Array | string, now: number): void {
    this.timers.tick(now);
    this.timers.liveness.handleReceived(now);
    if (this.hasEnded || this.role.isRejected) return;
    try {
      this.role.limiter?.handleBytes(data.length, now);
      this.#handleFrame(data);
      this.#assertRead();
    } catch (error) {
      this.#fail(error);
    }
  }

  holdFrames(): void {
    this.#held ??= new HeldFrames(this.options.limits);
  }

  releaseFrames(now: number): void {
    this.timers.tick(now);
    const frames = this.#held?.take() ?? [];
    this.#held = undefined;
    try {
      for (const frame of frames) {
        if (this.hasEnded) return;
        this.#handleFrame(frame);
      }
    } catch (error) {
      this.#fail(error);
    }
  }

  handleUnread(now: number): void {
    this.timers.liveness.handleReceived(now);
  }

  handleDisconnected(closeCode: number, reason: string, now: number): void {
    this.timers.tick(now);
    // Held frames were not counted: the peer sends them again, or knows that they were not acknowledged.
    this.#held?.take();
    // In the initial state the connection attempt itself has failed.
    if (!this.isConnected && this.lifecycle !== LifecycleState.INITIAL) return;
    this.isConnected = false;
    const { isLoss, rejection } = this.role.handleDisconnected(closeCode);
    if (this.hasEnded) return;
    if (isLoss && this.#canResume) {
      this.isLost = true;
      this.#closing.step('lose');
      this.outbox.pause();
      return this.apply(LifecycleEvent.LOST);
    }
    if (rejection !== undefined) {
      this.#failure = rejection;
      return this.apply(LifecycleEvent.REJECT);
    }
    // Any other close code is final: drop the session and its resume token.
    this.role.forget();
    // A peer that has sent CLOSE and received everything may leave before it has received our CLOSE.
    if (!this.#isSettled) {
      this.#failure ??= disconnectError(closeCode, reason, this.state === 'connecting');
    }
    // While suspended, only a refusal ends the session; a lost connection does not.
    this.apply(this.lifecycle === LifecycleState.SUSPENDED ? LifecycleEvent.REJECT : LifecycleEvent.LOST);
  }

  handleTimeout(now: number): void {
    this.timers.tick(now);
    if (this.hasEnded) return;
    this.channel.handleTimeout(now);
    switch (this.timers.due(now, this)) {
      case 'state':
        return this.#handleStateTimeout();
      case 'answer':
        return this.#loseConnection('the server did not answer HELLO');
      case 'credentials':
        return this.violate(new ProtocolError('unauthenticated', 'the credentials have expired'));
      case 'idle': {
        const message = `no data for ${this.options.timers.sessionTimeoutMs} ms`;
        this.#closing.payload = { reason: CloseReason.TIMEOUT, message };
        return this.apply(LifecycleEvent.TIMEOUT);
      }
      case 'ping':
        this.outbox.releaseMemory();
        return this.control.send({ type: 'PING', payload: {} });
      case 'lost':
        this.#loseConnection('the peer answered no PING');
    }
  }

  nextTimeout(): number {
    return this.hasEnded ? Infinity : this.timers.next(this);
  }

  // --- commands

  accept(sessionId: string, now: number, options: AcceptOptions = {}): Negotiation {
    this.timers.tick(now);
    return this.role.accept(sessionId, options);
  }

  checkResume(hello: HelloPayload, subprotocol: Subprotocol): ResumeRefusal | 'stale_attempt' | undefined {
    return this.hasEnded ? ResumeRefusal.UNKNOWN_SESSION : this.role.checkResume(hello, subprotocol);
  }

  resume(offer: ResumeOffer, now: number): void {
    this.timers.tick(now);
    this.role.resume(offer);
  }

  reject(refusal: RejectPayload, closeCode: CloseCode, now: number): void {
    this.timers.tick(now);
    if (this.hasEnded) return;
    const reject = { ...refusal, retryable: refusal.retryable ?? isRetryableCloseCode(closeCode) };
    this.control.sendUnbound({ type: 'REJECT', payload: reject });
    this.#failure = rejection(reject, { closeCode });
    this.apply(LifecycleEvent.REJECT);
  }

  grant(expiresAt: number | null, now: number): void {
    this.timers.tick(now);
    this.role.grant(expiresAt);
  }

  authenticate(token: string, now: number): void {
    this.timers.tick(now);
    this.role.authenticate(token);
  }

  sendGoAway(payload: GoAwayPayload, now: number): void {
    this.timers.tick(now);
    this.role.sendGoAway(payload);
  }

  close(reason: CloseReason, message: string, now: number): void {
    this.timers.tick(now);
    if (this.hasEnded) return;
    if (this.negotiated === undefined) {
      this.#failure ??= new ProtocolError('session_closed', 'closed before it was established');
    }
    this.#closing.payload = { reason, message };
    this.apply(LifecycleEvent.CLOSE);
  }

  abort(error: ProtocolError, now: number): void {
    this.timers.tick(now);
    this.violate(error);
  }

  // --- effects

  pollTransmit(): Uint8Array | string | undefined {
    const frame = this.outbox.next(this.timers.now);
    if (frame !== undefined || this.lifecycle !== LifecycleState.CLOSING || this.isLost) return frame;
    const closing = this.#closing;
    switch (closing.due(this.#isAcknowledged, this.#canResume)) {
      case 'send':
        closing.step('send');
        this.channel.stopSending();
        this.control.send({ type: 'CLOSE', payload: closing.payload });
        return this.outbox.next(this.timers.now);
      case 'leave':
        this.apply(LifecycleEvent.CLOSE_DONE);
    }
    return undefined;
  }

  pollEvent(): SessionEvent | undefined {
    return this.#events.shift();
  }

  // --- frames

  #handleFrame(data: Uint8Array | string): void {
    const isLink = typeof data !== 'string' && (data[0] ?? 0) >> 4 === LINK_FIRST_BYTE >> 4;
    if (isLink && this.channel.hasLink) this.#handleLinkFrame(data);
    else this.#handleOther(data);
  }

  #handleLinkFrame(frame: Uint8Array): void {
    if (this.isLost) {
      throw new ProtocolError('protocol_violation', 'a link frame before ACCEPT');
    }
    if (this.#held !== undefined) return this.#held.add(frame);
    this.role.handleLinkFrame();
    // Acknowledgements and credit come after CLOSE too.
    if (isCounted(((frame[0] ?? 0) & 0x0f) as LinkKind)) {
      this.#assertOpen();
      this.timers.touch();
    }
    const event = this.channel.handleLinkFrame(frame, this.timers.now);
    if (event !== undefined) this.emit(event);
  }

  #handleOther(data: Uint8Array | string): void {
    const { limits, subprotocol } = this.options;
    const isAgreed = this.negotiated !== undefined;
    const incoming = readIncoming(data, subprotocol, limits, isAgreed, !isAgreed || this.isLost);
    if (incoming.type === 'control') this.#handleControl(incoming.message, data);
    else if (this.#held !== undefined) this.#held.add(data);
    else this.#handleBare(incoming.content);
  }

  #handleBare(content: Uint8Array | string, securityStatus?: SecurityStatus): void {
    this.#assertOpen();
    const event = this.channel.handleBare(content, this.timers.now, securityStatus);
    this.timers.touch();
    this.emit(event);
  }

  /** Every PING is answered, and much else: who does not read the answers is not waited for. */
  #assertRead(): void {
    if (this.outbox.controlFrames <= MAX_CONTROL_FRAMES) return;
    throw new ProtocolError('rate_limited', 'the peer does not read what it is answered');
  }

  /** While closing, what still arrives is taken until the peer's CLOSE. */
  #assertOpen(): void {
    if (this.#closing.hasReceived) throw new ProtocolError('protocol_violation', 'a frame after CLOSE');
  }

  /** Established, or suspended and waiting to go on: what is sent now is written then. */
  get isOpen(): boolean {
    return this.isEstablished || this.lifecycle === LifecycleState.SUSPENDED;
  }

  get hasSentClose(): boolean {
    return this.#closing.hasSent;
  }

  /** The peer has received everything that was written. */
  get #isAcknowledged(): boolean {
    return this.channel.framesUnconfirmed === 0;
  }

  /** The peer has closed and received everything, so the session may end without an error. */
  get #isSettled(): boolean {
    return this.#closing.isSettled(this.#isAcknowledged);
  }

  /** A closing session also resumes, to finish closing. */
  get #canResume(): boolean {
    return this.role.isResumable && (this.isOpen || this.lifecycle === LifecycleState.CLOSING);
  }

  // --- control messages

  #handleControl(message: ControlMessage | UnknownMessage, frame: Uint8Array | string): void {
    const { type, sessionId } = message;
    if (type !== 'DATA') this.role.limiter?.handleControl(this.timers.now);
    if (type === 'UNKNOWN') {
      // The first one is logged; a peer that goes on is only counted, so that it cannot fill the log.
      if (this.unknownMessages++ > 0) return;
      this.emit({ type: 'warning', message: 'a message of unknown type was ignored' });
      return;
    }
    // ACCEPT may begin a new session, with an ID of its own, on a connection that was to resume this one.
    if (this.id !== undefined && sessionId !== null && sessionId !== this.id && type !== 'ACCEPT') {
      throw new ProtocolError('bad_message', `${type} names another session`);
    }
    const isHandshake = type === 'HELLO' || type === 'ACCEPT' || type === 'REJECT';
    if (!isHandshake && this.negotiated === undefined) {
      throw new ProtocolError('protocol_violation', `${type} before ACCEPT`);
    }
    switch (type) {
      case 'DATA':
        if (this.subprotocol === Subprotocol.BINARY)
          throw new ProtocolError('protocol_violation', `DATA belongs to ${Subprotocol.JSON}`);
        if (typeof message.payload.content !== 'string') {
          throw new ProtocolError('bad_message', 'content must be a string');
        }
        if (this.#held !== undefined) return this.#held.add(frame);
        return this.#handleBare(message.payload.content, message.payload.securityStatus);
      case 'PING':
        return this.control.send({ type: 'PONG', payload: {} });
      case 'PONG':
        this.timers.liveness.handlePong(this.timers.now);
        return this.role.handlePong();
      case 'CLOSE':
        if (this.isLost) throw new ProtocolError('protocol_violation', 'CLOSE before ACCEPT');
        if (this.#held !== undefined) return this.#held.add(frame);
        return this.#handleClose(message.payload);
      default:
        return this.role.handleControl(message, frame);
    }
  }

  #handleClose({ reason, message }: CloseMessage['payload']): void {
    this.#closing.step('receive');
    // The peer sends no more counted frames, and waits until all that it sent is acknowledged.
    this.channel.acknowledge();
    this.#closing.dropSources();
    if (reason === CloseReason.TIMEOUT) {
      this.#failure ??= new ProtocolError('timeout', `the peer closed: ${message || 'idle'}`, {
        side: 'remote',
      });
    }
    this.apply(LifecycleEvent.PEER_CLOSE);
  }

  // --- for the role

  connect(): void {
    this.isConnected = true;
    this.timers.liveness.restart(this.timers.now);
  }

  agree(sessionId: string, negotiated: Negotiated, peerExtensions: StringMap): void {
    const { role, limits, capabilities, security } = this.options;
    this.id = sessionId;
    this.control.sessionId = sessionId;
    this.negotiated = negotiated;
    this.outbox.retain = negotiated.extensions[Extension.RESUME] !== undefined;
    this.channel = createChannel(this, {
      role,
      limits,
      negotiated,
      ownExtensions: capabilities.extensions,
      peerExtensions,
      outbox: this.outbox,
      limiter: this.role.limiter,
      security,
      envelopes: this.subprotocol === Subprotocol.JSON ? this.control : undefined,
    });
  }

  handleResumed(): void {
    this.isLost = false;
    if (this.lifecycle === LifecycleState.CLOSING) this.timers.resumeClosing();
  }

  handleSuperseded(error: ProtocolError, accept: Uint8Array | string): void {
    if (!this.#isSettled) this.#failure = error;
    // The connection now belongs to the new session; an application that has closed wants none.
    if (this.isOpen) {
      this.isConnected = false;
      this.emit({ type: 'superseded', accept });
    }
    this.apply(LifecycleEvent.TIMEOUT);
  }

  // --- time

  /** Gives up a connection whose peer is silent; the lifecycle decides whether the session goes on. */
  #loseConnection(reason: string): void {
    this.emit({ type: 'disconnect', closeCode: CloseCode.TIMEOUT, reason });
    this.handleDisconnected(CloseCode.TIMEOUT, reason, this.timers.now);
  }

  #handleStateTimeout(): void {
    if (this.role.isRejected) {
      this.emit({ type: 'disconnect', closeCode: CloseCode.NORMAL, reason: '' });
      return this.handleDisconnected(CloseCode.ABNORMAL, '', this.timers.now);
    }
    if (!this.#isSettled) this.#failure ??= this.#timeoutError();
    this.apply(LifecycleEvent.TIMEOUT);
  }

  #timeoutError(): ProtocolError {
    if (this.isLost) return new ProtocolError('session_lost', 'no connection resumed the session in time');
    if (this.lifecycle !== LifecycleState.CLOSING) {
      return new ProtocolError('timeout', this.role.handshakeTimeout);
    }
    const { closingTimeoutMs } = this.options.timers;
    return new ProtocolError('timeout', `the peer did not close within ${closingTimeoutMs} ms`);
  }

  // --- lifecycle

  apply(event: LifecycleEvent): void {
    const before = this.state;
    const { role } = this.options;
    const step = stepLifecycle(this.lifecycle, event, { role, resumable: this.role.isResumable });
    this.lifecycle = step.state;
    this.isEstablished = step.state === LifecycleState.ESTABLISHED;
    if (this.state !== before) this.emit({ type: 'state', state: this.state });
    for (const effect of step.effects) this.#perform(effect);
  }

  #perform(effect: LifecycleEffect): void {
    const { timers } = this;
    const { helloTimeoutMs, acceptTimeoutMs, closingTimeoutMs } = this.options.timers;
    switch (effect) {
      case LifecycleEffect.AWAIT_HELLO:
        return timers.startState(helloTimeoutMs);
      case LifecycleEffect.AWAIT_ACCEPT:
        return timers.startState(acceptTimeoutMs);
      case LifecycleEffect.ESTABLISH:
        timers.stopState();
        return timers.touch();
      case LifecycleEffect.SUSPEND:
        return timers.startState(this.role.windowMs);
      case LifecycleEffect.BEGIN_CLOSING:
        this.#closing.step('begin');
        return timers.startClosing(closingTimeoutMs);
      case LifecycleEffect.END: {
        const refused = this.#failure?.code === 'rejected' && this.#failure.side === 'local';
        return refused
          ? this.#finish(
              this.#failure?.closeCode ?? CloseCode.BAD_FRAME,
              truncateReason(this.#failure?.message ?? ''),
            )
          : this.#finish(CloseCode.NORMAL, this.#closing.payload.reason);
      }
      case LifecycleEffect.FAIL: {
        this.#closing.clear();
        const error = this.#failure ?? new ProtocolError('internal', 'the session failed');
        this.#finish(error.closeCode, closeReasonOf(error));
      }
    }
  }

  /** A frame of the peer cannot be handled. */
  #fail(error: unknown): void {
    this.violate(toProtocolError(error, 'internal', 'the session failed on a frame'), CloseCode.BAD_FRAME);
  }

  /** @param closeCode for an error without one that may be sent. */
  violate(error: ProtocolError, closeCode: CloseCode = CloseCode.INTERNAL): void {
    if (this.hasEnded) return;
    this.#failure = this.isConnected ? withCloseCode(error, closeCode) : error;
    this.apply(LifecycleEvent.VIOLATION);
  }

  #finish(closeCode: number, reason: string): void {
    this.hasEnded = true;
    this.timers.stopState();
    this.outbox.releaseMemory();
    if (this.isConnected) this.emit({ type: 'disconnect', closeCode, reason });
    this.emit({ type: 'ended', error: this.#failure });
  }

  touch(): void {
    this.timers.touch();
  }

  emit(event: SessionEvent): void {
    this.#events.push(event);
  }
}
