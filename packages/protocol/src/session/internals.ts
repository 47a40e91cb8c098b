import { stepLifecycle } from '#lifecycle';
import { CloseCode } from '../base/close-codes.js';
import { Extension, Subprotocol } from '../base/constants.js';
import { ProtocolError, toProtocolError } from '../base/errors.js';
import type { StringMap } from '../base/fields.js';
import { Fifo } from '../base/fifo.js';
import { type Limits, limitsWithin } from '../base/limits.js';
import type { BodyCodec } from '../codec/body.js';
import { isDurable, type Negotiated } from '../control/agreement.js';
import { type ClosePayload, CloseReason } from '../control/messages.js';
import { decodeLinkFrame, isBodyKind } from '../link/frame.js';
import { Outbox } from '../link/outbox.js';
import type { LastStreams } from '../link/streams.js';
import { LinkChannel } from './channel.js';
import type { ChannelModule, SessionCode } from './channel-module.js';
import type { ChannelOptions, TakenUpBodies } from './channel-options.js';
import { closeReasonOf, truncateReason, withCloseCode } from './close-reason.js';
import { type ChannelHost, ClosedChannel, type SessionChannel } from './closed-channel.js';
import { Closing } from './closing.js';
import { ControlWriter } from './control-writer.js';
import { HeldFrames, type Receiver } from './incoming.js';
import { LifecycleEffect, LifecycleEvent, LifecycleState } from './lifecycle.js';
import type { Role, RoleHost } from './role.js';
import { SessionTimers, type TimedSession } from './timers.js';
import type { SessionEvent, SessionOptions, SessionState } from './types.js';

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

/** A session as its parts see it: role, channel, timers, control messages and received frames. */
export class SessionInternals implements RoleHost, ChannelHost, Receiver, TimedSession {
  readonly options: SessionOptions;
  readonly outbox: Outbox = new Outbox();
  readonly timers: SessionTimers;
  readonly role: Role;
  protected readonly events = new Fifo<SessionEvent>();

  lifecycle: LifecycleState = LifecycleState.INITIAL;
  isConnected = false;
  isLost = false;
  hasEnded = false;
  id: string | undefined;
  negotiated: Negotiated | undefined;
  limits: Limits;
  channel: SessionChannel = new ClosedChannel(this);
  unknownMessages = 0;
  /** Why the session ends; `undefined` if it ends as agreed. */
  protected failure: ProtocolError | undefined;
  /** The close code of an end without an error. */
  protected finalCode: CloseCode = CloseCode.NORMAL;
  /** Created when the session begins to close. */
  #closing: Closing | undefined;
  held: HeldFrames | undefined;
  /** The options of a channel whose code has to be loaded. */
  #waitingChannel: ChannelOptions | undefined;

  readonly code: SessionCode;

  constructor(options: SessionOptions, createRole: (session: RoleHost) => Role, code: SessionCode) {
    this.options = options;
    this.limits = options.limits;
    this.code = code;
    this.timers = new SessionTimers(options.timers);
    this.role = createRole(this);
  }

  /** Holds nothing, and is rarely used. */
  get control(): ControlWriter {
    return new ControlWriter(this);
  }

  get state(): SessionState {
    return PUBLIC_STATE[this.lifecycle];
  }

  get isEstablished(): boolean {
    return this.lifecycle === LifecycleState.ESTABLISHED;
  }

  /** Established, or suspended: bodies that are sent now are written after a resume. */
  get isOpen(): boolean {
    return this.isEstablished || this.lifecycle === LifecycleState.SUSPENDED;
  }

  protected get closing(): Closing {
    this.#closing ??= new Closing(this.outbox);
    return this.#closing;
  }
  get hasSentClose(): boolean {
    return this.#closing?.hasSent === true;
  }
  get hasReceivedClose(): boolean {
    return this.#closing?.hasReceived === true;
  }

  /** The peer has received everything that was written. */
  protected get isAcknowledged(): boolean {
    return this.channel.framesUnconfirmed === 0;
  }

  /** The peer has closed and received everything, so the session may end without an error. */
  protected get isSettled(): boolean {
    return this.closing.isSettled(this.isAcknowledged);
  }

  /** A closing session also resumes, to finish closing. */
  protected get canResume(): boolean {
    return this.role.isResumable && (this.isOpen || this.lifecycle === LifecycleState.CLOSING);
  }

  /** Codecs whose code was asked for; a body in one of them that could not be loaded fails when it is decoded. */
  #askedFor: Set<BodyCodec> | undefined;

  missingCodec(frame: Uint8Array): BodyCodec | undefined {
    const { isDecodable } = this.options;
    if (isDecodable === undefined || this.negotiated === undefined) return undefined;
    const { kind, codec } = decodeLinkFrame(frame);
    if (!isBodyKind(kind) || this.#askedFor?.has(codec) || isDecodable(codec, this.negotiated))
      return undefined;
    this.#askedFor ??= new Set();
    this.#askedFor.add(codec);
    return codec;
  }

  holdFrames(): HeldFrames {
    this.held ??= new HeldFrames(this.limits);
    return this.held;
  }

  handleClose(payload: ClosePayload): void {
    const { reason, message } = payload;
    this.closing.received = payload;
    this.closing.step('receive');
    // The peer sends no more counted frames, and waits until all that it sent is acknowledged.
    this.channel.acknowledge();
    // The peer would only wait for tensors that are still being generated.
    this.closing.cutShort(true);
    if (reason === CloseReason.TIMEOUT) {
      this.failure ??= new ProtocolError('timeout', `the peer closed: ${message || 'idle'}`, {
        side: 'remote',
      });
    }
    this.apply(LifecycleEvent.PEER_CLOSE);
  }

  connect(): void {
    this.isConnected = true;
    this.timers.liveness.restart(this.timers.now);
  }

  agree(
    sessionId: string,
    negotiated: Negotiated,
    peerExtensions: StringMap,
    last?: LastStreams,
    takenUp?: TakenUpBodies,
  ): void {
    const { role, subprotocol, capabilities, security, maxRecordSize, tellsBeside } = this.options;
    this.id = sessionId;
    this.negotiated = negotiated;
    if (role === 'client') this.limits = limitsWithin(this.limits, negotiated.maxPayloadSize);
    this.outbox.retain = negotiated.extensions[Extension.RESUME] !== undefined;
    const channelOptions: ChannelOptions = {
      role,
      limits: this.limits,
      negotiated,
      ownExtensions: capabilities.extensions,
      peerExtensions,
      outbox: this.outbox,
      streams: this.code.streams,
      limiter: this.role.limiter,
      last,
      takenUp,
      maxRecordSize,
      tellsBeside,
      security,
      envelopes: subprotocol === Subprotocol.JSON ? this.control : undefined,
    };
    const hasLink = negotiated.extensions[Extension.LINK] !== undefined;
    if (hasLink && (role === 'server' || !isDurable(negotiated))) {
      this.channel = this.role.createChannel?.(this, channelOptions) ?? new LinkChannel(this, channelOptions);
      return;
    }
    this.#waitingChannel = channelOptions;
    const { plain } = this.code;
    if (!hasLink && plain !== undefined) this.openChannel(plain);
  }

  openChannel({ Channel }: ChannelModule): boolean {
    const options = this.#waitingChannel;
    this.#waitingChannel = undefined;
    if (options === undefined) return true;
    try {
      this.channel = new Channel(this, options);
    } catch (error) {
      this.violate(toProtocolError(error, 'internal', 'the session could not begin'));
    }
    return !this.hasEnded;
  }

  handleResumed(): void {
    this.isLost = false;
    if (this.lifecycle === LifecycleState.CLOSING) this.timers.resumeClosing();
  }

  handleSuperseded(error: ProtocolError, accept: Uint8Array | string): void {
    if (!this.isSettled) this.failure = error;
    // The connection now belongs to the new session; an application that has closed wants none.
    if (this.isOpen) {
      this.isConnected = false;
      this.emit({ type: 'superseded', accept });
    }
    this.apply(LifecycleEvent.TIMEOUT);
  }

  // --- lifecycle

  apply(event: LifecycleEvent): void {
    const before = this.state;
    const { role } = this.options;
    const step = stepLifecycle(this.lifecycle, event, { role, resumable: this.role.isResumable });
    this.lifecycle = step.state;
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
        return timers.startState(this.role.suspensionMs);
      case LifecycleEffect.BEGIN_CLOSING:
        this.closing.step('begin');
        return timers.startClosing(closingTimeoutMs);
      case LifecycleEffect.END: {
        const { failure } = this;
        return failure?.code === 'rejected' && failure.side === 'local'
          ? this.#finish(failure.closeCode, truncateReason(failure.message))
          : this.#finish(this.finalCode, this.closing.payload.reason);
      }
      case LifecycleEffect.FAIL: {
        this.closing.clear();
        const error = this.failure ?? new ProtocolError('internal', 'the session failed');
        this.#finish(error.closeCode, closeReasonOf(error));
      }
    }
  }

  /** @param closeCode for an error without one that may be sent. */
  violate(error: ProtocolError, closeCode: CloseCode = CloseCode.INTERNAL): void {
    if (this.hasEnded) return;
    this.failure = this.isConnected ? withCloseCode(error, closeCode) : error;
    this.apply(LifecycleEvent.VIOLATION);
  }

  #finish(closeCode: number, reason: string): void {
    this.hasEnded = true;
    this.timers.stopState();
    this.outbox.releaseMemory();
    if (this.isConnected) this.emit({ type: 'disconnect', closeCode, reason });
    this.emit({ type: 'ended', error: this.failure });
  }

  touch(): void {
    this.timers.touch();
  }

  emit(event: SessionEvent): void {
    this.events.push(event);
  }
}
