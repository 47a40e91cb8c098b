import { CloseCode } from '../base/close-codes.js';
import { ProtocolError, toProtocolError } from '../base/errors.js';
import type { SessionMemory } from '../base/memory.js';
import type { BodyCoder } from '../codec/auto/coder.js';
import type { Negotiated } from '../control/agreement.js';
import { CloseReason, RejectCode } from '../control/messages.js';
import type { Clock } from '../platform/clock.js';
import { LifecycleState } from '../session/lifecycle.js';
import type { SessionCore, SessionEvent, SessionState } from '../session/types.js';
import { decodeUndeliverable } from './agents/delivery.js';
import { isLoaded, load } from './agreed-codecs.js';
import { Ending, type EndingHost } from './ending.js';
import type { EndpointOptions } from './endpoint-options.js';
import { attempt, guard, guardLater } from './guard.js';
import type { EndpointHost } from './host.js';
import { Inbound } from './inbound.js';
import { Listeners } from './listeners.js';
import { loggable } from './loggable.js';
import { MemoryAccount, type MemoryAccountHost } from './memory-account.js';
import { type Mailbox, SessionMailbox } from './messages/mailbox.js';
import type { ReceivedMessage } from './messages/message.js';
import { isFaultIn } from './messages/undecodable.js';
import { Outbound } from './outbound.js';
import { type ContentScanner, type Logger, SILENT_LOGGER, type Wire } from './ports.js';
import type { CloseResult, Session, SessionEvents } from './session.js';
import { type SessionStats, StatsRecorder } from './stats.js';
import { Transmitter, type TransmitterHost } from './transmitter.js';
import { hostOf, UserSession, type UserSessionHost } from './user-session.js';

/** Timeouts nearer than this do not wait for the coarse clock, which ticks at least as often. */
const SHORT_TIMEOUT_MS = 1_100;

/**
 * Drives the core of one session over a wire: feeds it frames and time, applies its events, and gives the
 * application promises and iterators. A fault in any step ends this session alone.
 */
export class Endpoint
  implements EndpointHost, UserSessionHost, EndingHost, TransmitterHost, MemoryAccountHost
{
  principal: string | undefined;
  agentId: string | undefined;
  readonly options: EndpointOptions;
  readonly core: SessionCore;
  readonly logger: Logger;
  readonly recorder = new StatsRecorder();
  readonly listeners = new Listeners();
  readonly session: Session;
  readonly mailbox: Mailbox;
  readonly scanner: ContentScanner | undefined;
  readonly #clock: Clock;
  readonly #transmitter: Transmitter;
  protected readonly account = new MemoryAccount(this);
  readonly #ending = new Ending(this);
  /** Created on first use, once the session is ready. */
  #outbound: Outbound | undefined;
  #inbound: Inbound | undefined;
  /** Established, and everything that was agreed on is loaded. */
  #isReady = false;
  #isLoading = false;
  /** The short timer calls `handleTick` as well. */
  #isSoon = false;
  #disconnect: { readonly code: number; readonly reason: string } | undefined;
  constructor(options: EndpointOptions) {
    this.options = options;
    this.core = options.core;
    this.logger = options.logger ?? SILENT_LOGGER;
    this.#clock = options.clock;
    this.#transmitter = new Transmitter(this, options.clock, this.recorder);
    this.session = options.userSession ?? new UserSession(this);
    this.mailbox = options.mailbox ?? new SessionMailbox();
    this.scanner = options.createScanner?.(this);
  }

  now(): number {
    return this.#clock.now();
  }
  get role(): 'client' | 'server' {
    return this.options.role;
  }
  get id(): string {
    return this.core.id ?? '';
  }
  get state(): SessionState {
    if (this.#ending.isDropped) return 'closed';
    const { state } = this.core;
    // Nothing can be sent until everything that was agreed on is loaded.
    return state === 'established' && !this.#isReady ? 'connecting' : state;
  }
  get negotiated(): Negotiated {
    if (this.core.negotiated !== undefined) return this.core.negotiated;
    throw new ProtocolError('session_closed', 'nothing is negotiated yet');
  }
  get memory(): SessionMemory {
    return this.account.memory;
  }
  get waitingMessages(): number {
    return this.mailbox.size;
  }
  get hasEnded(): boolean {
    return this.#ending.hasEnded;
  }
  /** Ended without the core, because the core fails. */
  get isDropped(): boolean {
    return this.#ending.isDropped;
  }
  get isReady(): boolean {
    return this.#isReady;
  }
  /** The connection that carries the session. */
  get wire(): Wire | undefined {
    return this.#transmitter.wire;
  }
  get hasWire(): boolean {
    return this.wire !== undefined;
  }
  /** Replies that are not complete. */
  get openReplies(): number {
    return this.#outbound?.openReplies ?? 0;
  }
  /** Nothing is being coded, waits to be written or waits for its acknowledgement. */
  get isIdle(): boolean {
    return this.#outbound?.coding === undefined && this.#ending.isFlushed;
  }
  /** @throws {ProtocolError} `session_closed`. */
  get outbound(): Outbound {
    this.#assertReady();
    this.#outbound ??= new Outbound(this);
    return this.#outbound;
  }
  /** @throws {ProtocolError} `session_closed`. */
  get inbound(): Inbound {
    this.#inbound ??= new Inbound(this, this.outbound);
    return this.#inbound;
  }
  /** @throws {ProtocolError} `session_closed`. */
  get coder(): BodyCoder {
    return this.outbound.coder;
  }

  // --- what the driver of a connection reports

  /** @param token credentials of this connection. */
  handleConnected(wire: Wire, token?: string): void {
    this.#transmitter.wire = wire;
    guard(this, () => this.core.handleConnected(this.#clock.now(), token));
    this.pump();
  }

  /** Puts another connection, or none, in place of the one that carries the session. */
  protected replaceWire(wire: Wire | undefined): void {
    this.#transmitter.detach();
    this.#transmitter.wire = wire;
  }

  /** @param now clock reading, if the driver has one already. */
  handleMessage(
    data: Uint8Array | string,
    wire: Wire | undefined = this.wire,
    now = this.#clock.now(),
  ): void {
    if (wire !== this.wire || this.#ending.isDropped) return;
    try {
      this.recorder.received(data.length);
      this.core.handleMessage(data, now);
      this.apply();
      if (this.core.isFull) this.#transmitter.pauseWhileFull();
      // An acknowledgement is due before the coarse clock ticks.
      if (!this.#isSoon) this.#tickSoon(now);
    } catch (error) {
      this.crash(error);
    }
  }

  /** @param wire the connection that is gone; ignored if another one has replaced it. */
  handleDisconnected(code: number, reason: string, wire: Wire | undefined = this.wire): void {
    if (wire !== this.wire) return;
    guard(this, () => {
      this.#transmitter.detach();
      this.core.handleDisconnected(code, reason, this.#clock.now());
      this.apply();
      this.#wantWire();
    });
  }

  handleTaken(charge: number): void {
    try {
      if (this.core.channel.consume(0, charge)) this.apply();
      if (!this.#transmitter.isReading) this.#transmitter.pauseWhileFull();
    } catch (error) {
      this.crash(error);
    }
  }

  /** The socket has room again. */
  handleWritable(): void {
    this.pump();
  }

  /** One tick of the coarse clock. */
  handleTick(): void {
    this.#isSoon = false;
    if (this.#ending.isDropped) return;
    try {
      const now = this.#clock.now();
      this.account.handleTick(now);
      if (!this.#transmitter.isReading) this.core.handleUnread(now);
      if (now >= this.core.nextTimeout()) {
        this.core.handleTimeout(now);
        this.apply();
      }
      this.#tickSoon(now);
    } catch (error) {
      this.crash(error);
    }
  }

  #tickSoon(now: number): void {
    const wait = this.core.nextTimeout() - now;
    if (wait >= SHORT_TIMEOUT_MS) return;
    this.#isSoon = true;
    // Handlers work for a suspended session until its window ends, so it has to end on time.
    if (this.core.state === 'suspended') this.#clock.after(Math.max(0, wait), () => this.handleTick());
    else this.#clock.soon(this);
  }

  transmit(): void {
    this.#transmitter.transmit();
  }

  pump(): void {
    try {
      this.apply();
    } catch (error) {
      this.crash(error);
    }
  }

  // --- what the application asks for

  async flush(): Promise<void> {
    await this.#outbound?.coding;
    this.#assertReady();
    await this.#ending.flushed();
  }

  stats(): SessionStats {
    const { channel, queuedBytes, isBlockedOnCredit, isPaced, roundTripMs } = this.core;
    return this.recorder.snapshot(channel.sentBodies, {
      queuedBytes,
      blockedOnCredit: isBlockedOnCredit,
      blockedOnRate: isPaced,
      openStreams: channel.openStreams,
      roundTripMs,
      lastSelection: this.#outbound?.lastSelection,
      context: channel.contextUse,
    });
  }

  async close(): Promise<CloseResult> {
    await this.#outbound?.coding;
    const isClient = this.options.role === 'client';
    return await this.shutdown(isClient ? CloseReason.CLIENT_SHUTDOWN : CloseReason.NORMAL, '');
  }

  /** Closes with a reason of its own, such as the server's shutdown. */
  shutdown(reason: CloseReason, message: string): Promise<CloseResult> {
    return this.#ending.closed(() => this.command((core, now) => core.close(reason, message, now)));
  }

  /** Ends the session at once with the error's close code. */
  abort(error: ProtocolError): void {
    this.#ending.isAborted = true;
    this.command((core, now) => core.abort(error, now));
  }

  /** Ends the session with REJECT, because a scan blocks its content. */
  block(message: string): void {
    const refusal = { code: RejectCode.SECURITY_POLICY, message, retryable: false };
    this.core.reject(refusal, CloseCode.FORBIDDEN, this.#clock.now());
    this.pump();
  }

  /** Gives a command to the core and applies what it has to say. Never throws. */
  protected command(command: (core: SessionCore, now: number) => void): void {
    guard(this, () => command(this.core, this.#clock.now()));
    this.pump();
  }

  /** Whether `error` was thrown because something that this session received cannot be decoded. */
  blames(error: unknown): error is ProtocolError {
    return isFaultIn(this.#outbound?.coder, error);
  }

  handleReport(message: ReceivedMessage): void {
    try {
      this.notify('undelivered', decodeUndeliverable(message.text, this.options.limits));
    } catch (error) {
      const fields = { event: 'report.unreadable', session: this.id, err: loggable(error) };
      this.logger.warn(fields, 'a delivery report cannot be read');
    }
    if (this.core.channel.consume(0, message.charge)) this.pump();
  }

  notify<Name extends keyof SessionEvents>(name: Name, event: SessionEvents[Name]): void {
    const { onNotify } = this.options;
    if (onNotify === undefined) this.listeners.notify(name, event, this);
    else onNotify(name, event);
  }

  // --- what the core reports

  apply(): void {
    if (this.#ending.isDropped) return;
    this.#transmitter.transmit();
    while (this.core.hasEvents) {
      for (let event = this.core.pollEvent(); event !== undefined; event = this.core.pollEvent()) {
        this.#handleEvent(event);
      }
      this.#transmitter.transmit();
    }
    this.#closeWire();
    this.options.onApplied?.();
    this.#outbound?.wake();
    if (!this.#ending.hasEnded) this.account.update();
    this.#ending.checkFlushed();
  }

  #handleEvent(event: SessionEvent): void {
    switch (event.type) {
      case 'hello':
        return this.options.onHello?.(event);
      case 'state':
        return this.#handleState(event.state);
      case 'warning':
        return this.logger.warn({ event: 'session.warning', session: this.core.id }, event.message);
      case 'auth':
        return this.options.onAuth?.(event.token);
      case 'granted':
        return this.options.onGranted?.(event.expiresInMs);
      case 'goaway':
        return this.options.onGoAway?.(event);
      case 'superseded':
        return this.options.onSuperseded?.(event.accept);
      case 'disconnect':
        this.#disconnect ??= { code: event.closeCode, reason: event.reason };
        return;
      case 'ended':
        return this.#ending.end(event.error);
      default:
        this.inbound.handle(event);
    }
  }

  #handleState(state: SessionState): void {
    this.account.handleSuspended(state === 'suspended' ? this.#clock.now() : Infinity);
    // Handlers stop, as their replies would not be sent any more.
    if (state === 'closing')
      this.#inbound?.abortHandlers(new ProtocolError('session_closed', 'the session closes'));
    // A resumed session has everything it needs; any other is reported when it is ready.
    if (state === 'established' && !this.#isReady) this.#prepare();
    else if (state !== 'closed') this.notify('state', state);
  }

  #assertReady(): void {
    if (this.#isReady && !this.#ending.isDropped) return;
    throw new ProtocolError('session_closed', `the session is ${this.state}; nothing can be sent`);
  }

  /** Loads what was agreed on; the core holds what arrives meanwhile. */
  #prepare(): void {
    // The session may be resumed while its codecs are loaded.
    if (this.#isLoading) return;
    const { core, negotiated, options } = this;
    const hasContext = core.channel.contextUse !== undefined;
    // A server loads everything before it listens.
    if (options.role === 'server' && isLoaded(negotiated, hasContext)) return this.#start();
    this.#isLoading = true;
    options.onAccepted?.();
    core.holdFrames();
    const loaded = load(negotiated, hasContext).then(
      () => {
        if (core.state !== 'closed') this.#start();
      },
      (error: unknown) => {
        if (core.state === 'closed') return;
        this.abort(toProtocolError(error, 'internal', 'loading the codecs of the session failed'));
      },
    );
    guardLater(this, loaded);
  }

  #start(): void {
    if (this.#ending.hasCrashed) return;
    this.#isReady = true;
    this.#isLoading = false;
    this.options.onReady?.();
    this.notify('state', this.core.state);
    this.core.releaseFrames(this.#clock.now());
    this.pump();
    this.#transmitter.pauseWhileFull();
  }

  // --- the wire

  #closeWire(): void {
    if (this.#disconnect === undefined) return;
    const { code, reason } = this.#disconnect;
    this.#disconnect = undefined;
    this.wire?.close(code, reason);
    const { lifecycle } = this.core;
    if (lifecycle !== LifecycleState.SUSPENDED && lifecycle !== LifecycleState.CLOSING) return;
    // A peer that does not answer will not take part in a closing handshake either.
    this.#transmitter.detach();
    this.#wantWire();
  }

  #wantWire(): void {
    if (!this.#ending.hasEnded) this.options.onWireLost?.(this.core.retryAfterMs);
  }

  // --- the end

  get endingSteps(): readonly ((error: ProtocolError | undefined) => void)[] {
    return [
      (error) => this.#outbound?.end(error),
      (error) => this.#inbound?.end(error),
      () => this.account.close(),
    ];
  }

  crash(error: unknown): void {
    this.#ending.crash(error);
  }

  cutOff(reason: string): void {
    const { wire } = this;
    attempt(() => this.#transmitter.detach());
    const failed = attempt(() => wire?.close(CloseCode.INTERNAL, reason));
    if (failed !== undefined) attempt(() => wire?.terminate?.());
  }
}

/** The endpoint behind a session that it handed out. */
export function endpointOf(session: Session): Endpoint {
  return hostOf(session as UserSession) as Endpoint;
}
