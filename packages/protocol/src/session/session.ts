import { CloseCode } from '../base/close-codes.js';
import type { Subprotocol } from '../base/constants.js';
import { ProtocolError, toProtocolError } from '../base/errors.js';
import {
  CloseReason,
  type CloseStatement,
  type GoAwayPayload,
  type HelloPayload,
  type LaterCodec,
  type ResumeOffer,
  ResumeRefusal,
} from '../control/messages.js';
import type { Negotiation } from '../control/negotiate.js';
import type { RateName } from '../link/rates.js';
import { disconnectError } from './close-reason.js';
import { receive } from './incoming.js';
import { SessionInternals } from './internals.js';
import { LifecycleEvent, LifecycleState } from './lifecycle.js';
import type { Ticket } from './resume-ticket.js';
import type { AcceptOptions, SessionCore, SessionEvent, Unconfirmed } from './types.js';

/** Milliseconds between two reports that a rate is reached. */
const REPORT_EVERY_MS = 60_000;
/** Control frames that may wait to be written: far more than a peer that reads ever leaves waiting. */
const MAX_CONTROL_FRAMES = 10_000;

/** A session as its driver sees it. */
export class Core extends SessionInternals implements SessionCore {
  /** When a rate may be reported again. */
  #reportAt = 0;

  get subprotocol(): Subprotocol {
    return this.options.subprotocol;
  }
  get queuedBytes(): number {
    return this.outbox.queuedBytes;
  }
  get heldBytes(): number {
    return this.outbox.memory + this.channel.unreadBytes;
  }
  get hasOutput(): boolean {
    return !this.outbox.isIdle && this.channel.isHeldBack !== true;
  }
  get hasEvents(): boolean {
    return this.events.size > 0;
  }
  get isBlockedOnCredit(): boolean {
    return this.outbox.blockedStreams > 0;
  }
  get isFull(): boolean {
    return this.held?.isFull === true || this.channel.isFull;
  }
  get isPaced(): boolean {
    return this.outbox.isPaced;
  }
  isPeerPaced(now: number): boolean {
    return this.role.limiter?.isReached(now) === true;
  }
  get roundTripMs(): number | undefined {
    return this.timers.liveness.roundTripMs;
  }
  silentMs(now: number): number | undefined {
    return this.timers.liveness.silentMs(now);
  }
  get goAway(): GoAwayPayload | undefined {
    return this.role.goAway;
  }
  get awaitedCodecs(): ReadonlySet<LaterCodec> {
    return this.role.awaitedCodecs;
  }
  get resumeProof(): SessionCore['resumeProof'] {
    return this.role.resumeProof;
  }
  get ticket(): Ticket | undefined {
    return this.role.ticket;
  }
  get proof(): Ticket | undefined {
    return this.role.proof;
  }
  get retryAfterMs(): number {
    return this.role.retryAfterMs;
  }
  get windowMs(): number {
    return this.role.windowMs;
  }

  get closeStatement(): CloseStatement {
    return this.closing.statement;
  }

  unconfirmed(): Unconfirmed {
    return this.closing.unconfirmed();
  }

  // --- events of the connection and the clock

  hello(now: number, token: string | undefined = this.options.token): Uint8Array | string | undefined {
    this.timers.tick(now);
    return this.role.hello?.(token);
  }

  handleConnected(now: number, token: string | undefined = this.options.token, isSaid = false): void {
    this.timers.tick(now);
    this.connect();
    this.apply(LifecycleEvent.OPEN);
    this.role.handleConnected(token, isSaid);
  }

  handleMessage(data: Uint8Array | string, now: number): void {
    this.timers.tick(now);
    this.timers.liveness.handleReceived(now);
    if (this.hasEnded || this.role.isRejected) return;
    try {
      const { limiter } = this.role;
      limiter?.handleData(data, now);
      receive(this, data);
      this.#reportRate(limiter?.reached);
      this.#assertRead();
    } catch (error) {
      this.#fail(error);
    }
  }

  releaseFrames(now: number): void {
    this.timers.tick(now);
    const frames = this.held?.release() ?? [];
    this.held = undefined;
    try {
      for (const frame of frames) {
        if (this.hasEnded) return;
        receive(this, frame);
      }
    } catch (error) {
      this.#fail(error);
    }
  }

  /** A peer that sends PINGs, for example, must also read the answers. */
  #assertRead(): void {
    if (this.outbox.controlFrames <= MAX_CONTROL_FRAMES) return;
    throw new ProtocolError('rate_limited', 'the peer does not read the answers to what it sends');
  }

  handleUnread(now: number): void {
    this.timers.liveness.handleReceived(now);
  }

  handleDisconnected(closeCode: number, reason: string, now: number): void {
    this.timers.tick(now);
    // Held frames were not counted: the peer sends them again, or knows that they were not acknowledged.
    this.held?.release();
    // In the initial state the connection attempt itself has failed.
    if (!this.isConnected && this.lifecycle !== LifecycleState.INITIAL) return;
    this.isConnected = false;
    const { isLoss, rejection } = this.role.handleDisconnected(closeCode);
    if (this.hasEnded) return;
    // A page that closes its session while it is being left does not come back to finish that.
    const isLeft = closeCode === CloseCode.GOING_AWAY && this.hasReceivedClose;
    if (isLoss && this.canResume && !isLeft) {
      this.isLost = true;
      this.closing.step('lose');
      this.outbox.pause();
      return this.apply(LifecycleEvent.LOST);
    }
    if (rejection !== undefined) {
      this.failure = rejection;
      return this.apply(LifecycleEvent.REJECT);
    }
    // Any other close code is final: drop the session and its resume token.
    this.role.forget();
    // A peer that has sent CLOSE and received everything may leave before it has received our CLOSE.
    if (!this.isSettled) {
      this.failure ??= disconnectError(closeCode, reason, this.state === 'connecting');
    }
    this.#leave();
  }

  /** While suspended, only a refusal ends the session; a lost connection does not. */
  #leave(): void {
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
        const message = `no data for ${this.options.timers.idleTimeoutMs} ms`;
        this.closing.payload = { reason: CloseReason.TIMEOUT, message };
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
    if (this.hasEnded) return Infinity;
    const stallEnds = this.lifecycle === LifecycleState.CLOSING ? this.closing.stallEnds : Infinity;
    return Math.min(this.timers.next(this), stallEnds);
  }

  // --- commands

  accept(sessionId: string, now: number, options: AcceptOptions = {}): Negotiation {
    this.timers.tick(now);
    return this.role.accept(sessionId, options);
  }

  checkResume(hello: HelloPayload, subprotocol: Subprotocol): ResumeRefusal | 'stale_attempt' | undefined {
    return this.hasEnded ? ResumeRefusal.UNKNOWN_SESSION : this.role.checkResume(hello, subprotocol);
  }

  resume(offer: ResumeOffer, now: number): number | undefined {
    this.timers.tick(now);
    return this.role.resume(offer);
  }

  grant(expiresAt: number | null, now: number): void {
    this.timers.tick(now);
    this.role.grant(expiresAt);
  }

  authenticate(token: string, now: number): void {
    this.timers.tick(now);
    this.role.authenticate(token);
  }

  probe(now: number): void {
    this.timers.tick(now);
    if (this.isEstablished && this.isConnected) this.timers.liveness.probe();
    else this.role.probe?.();
    this.handleTimeout(now);
  }

  leaveConnection(reason: string, now: number): boolean {
    this.timers.tick(now);
    if (!this.isEstablished || !this.isConnected || !this.canResume) return false;
    this.#loseConnection(reason);
    return true;
  }

  announceReady(codecs: readonly LaterCodec[], now: number): void {
    this.timers.tick(now);
    this.role.announceReady(codecs);
  }

  sendGoAway(payload: GoAwayPayload, now: number): void {
    this.timers.tick(now);
    this.role.sendGoAway(payload);
  }

  close(reason: CloseReason, message: string, now: number, code?: string): void {
    this.timers.tick(now);
    if (this.hasEnded) return;
    if (this.negotiated === undefined) {
      this.failure ??= new ProtocolError('session_closed', 'closed before it was established');
    }
    // A word of the application is not replaced by one of its server.
    if (this.closing.payload.code === undefined) this.closing.payload = { reason, message, code };
    this.apply(LifecycleEvent.CLOSE);
  }

  detach(now: number): void {
    this.timers.tick(now);
    if (this.hasEnded) return;
    this.finalCode = CloseCode.DETACHED;
    this.role.forget();
    this.#leave();
  }

  abort(error: ProtocolError, now: number): void {
    this.timers.tick(now);
    this.violate(error);
  }

  // --- output

  pollTransmit(): Uint8Array | string | undefined {
    if (this.channel.isHeldBack) return undefined;
    const frame = this.outbox.next(this.timers.now);
    if (frame === undefined) this.#reportRate(this.outbox.pacedBy);
    if (frame !== undefined || this.lifecycle !== LifecycleState.CLOSING || this.isLost) return frame;
    if (this.channel.hasUntold) return undefined;
    const closing = this.closing;
    const { timers, options } = this;
    switch (closing.due(this.isAcknowledged, this.canResume, timers.now, options.timers.closingTimeoutMs)) {
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
    return this.events.shift();
  }

  /** @param limit the rate for which the sender waits, at either end. */
  #reportRate(limit: RateName | undefined): void {
    if (limit === undefined || this.timers.now < this.#reportAt) return;
    this.#reportAt = this.timers.now + REPORT_EVERY_MS;
    const { [limit]: rate = Infinity } = this.role.limiter?.rates ?? this.negotiated?.limits ?? {};
    this.emit({ type: 'throttled', throttled: { limit, rate } });
  }

  // --- timeouts and errors

  /** Gives up a connection whose peer is silent; the lifecycle decides whether the session continues. */
  #loseConnection(reason: string): void {
    this.emit({ type: 'disconnect', closeCode: CloseCode.TIMEOUT, reason });
    this.handleDisconnected(CloseCode.TIMEOUT, reason, this.timers.now);
  }

  #handleStateTimeout(): void {
    // The window of a suspended session ends in any case.
    if (this.role.isRejected && this.lifecycle !== LifecycleState.SUSPENDED) {
      this.emit({ type: 'disconnect', closeCode: CloseCode.NORMAL, reason: '' });
      return this.handleDisconnected(CloseCode.ABNORMAL, '', this.timers.now);
    }
    if (!this.isSettled) this.failure ??= this.#timeoutError();
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

  /** Handling a frame of the peer has failed. */
  #fail(error: unknown): void {
    this.violate(toProtocolError(error, 'internal', 'the session failed on a frame'), CloseCode.BAD_FRAME);
  }
}
