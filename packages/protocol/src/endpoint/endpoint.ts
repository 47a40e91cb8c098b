import { CloseCode } from '../base/close-codes.js';
import { ProtocolError } from '../base/errors.js';
import type { SessionMemory } from '../base/memory.js';
import type { Negotiated } from '../control/agreement.js';
import { CloseReason, RejectCode } from '../control/messages.js';
import type { Clock } from '../platform/clock.js';
import { nothingSent } from '../session/closed-channel.js';
import type { ServerSessionCore, SessionCore, SessionEvent, SessionState } from '../session/types.js';
import { BEHIND, Ending, type EndingHost } from './ending.js';
import type { EndpointOptions } from './endpoint-options.js';
import { guard } from './guard.js';
import { Inbound } from './inbound.js';
import { Listeners } from './listeners.js';
import { CodecLoading, type LoadingHost } from './loading.js';
import { MemoryAccount, type MemoryAccountHost } from './memory-account.js';
import { type Mailbox, SessionMailbox } from './messages/mailbox.js';
import { isFaultIn } from './messages/undecodable.js';
import { Outbound } from './outbound.js';
import { type ContentScanner, type Logger, SILENT_LOGGER, type Wire } from './ports.js';
import type { CloseOptions, CloseResult, Session, SessionEvents } from './session.js';
import { type SessionStats, StatsRecorder } from './stats.js';
import { Transmitter, type TransmitterHost } from './transmitter.js';
import { UserSession } from './user-session.js';
import type { UserSessionHost } from './user-session-host.js';

/**
 * Drives the core of one session over a wire: feeds it frames and time, applies its events, and gives the
 * application promises and iterators. A fault in any step ends this session alone.
 */
export class Endpoint
  implements UserSessionHost, EndingHost, LoadingHost, TransmitterHost, MemoryAccountHost
{
  principal: string | undefined;
  agentId: string | undefined;
  readonly options: EndpointOptions;
  readonly core: SessionCore;
  readonly logger: Logger;
  readonly recorder: StatsRecorder = new StatsRecorder();
  readonly session: Session;
  readonly mailbox: Mailbox;
  readonly scanner: ContentScanner | undefined;
  readonly #clock: Clock;
  readonly #transmitter: Transmitter;
  protected readonly account = new MemoryAccount(this);
  protected readonly ending = new Ending(this);
  #listeners: Listeners | undefined;
  #loading: CodecLoading | undefined;
  #outbound: Outbound | undefined; // As `#inbound`, created once the session is ready.
  #inbound: Inbound | undefined;
  /** The session was accepted, and everything that was agreed on is loaded. */
  isReady = false;
  /** A task of {@link enter} or an event is under way. */
  #isEntered = false;

  constructor(options: EndpointOptions) {
    this.options = options;
    this.core = options.core;
    this.logger = options.logger ?? SILENT_LOGGER;
    this.#clock = options.clock;
    this.#transmitter = new Transmitter(this, options.clock);
    this.session = options.userSession ?? this.createSession();
    this.mailbox = options.mailbox ?? new SessionMailbox();
    this.scanner = options.createScanner?.(this);
  }
  get listeners(): Listeners {
    this.#listeners ??= new Listeners();
    return this.#listeners;
  }
  get loading(): CodecLoading {
    this.#loading ??= new CodecLoading(this);
    return this.#loading;
  }
  protected createSession(): Session {
    return new UserSession(this);
  }
  get reachesAgents(): boolean {
    return false;
  }
  get ends(): { readonly source: string; readonly target: string } {
    return { source: '', target: this.agentId ?? '' };
  }
  /** The reason of a CLOSE that the application asks for. */
  protected get closeReason(): CloseReason {
    return CloseReason.NORMAL;
  }
  get isPreloaded(): boolean {
    return false;
  }
  get id(): string {
    return this.core.id ?? '';
  }
  get state(): SessionState {
    if (this.ending.isDropped) return 'closed';
    const { state } = this.core;
    // Nothing can be sent until everything that was agreed on is loaded.
    return state === 'established' && !this.isReady ? 'connecting' : state;
  }
  get negotiated(): Negotiated {
    if (this.core.negotiated !== undefined) return this.core.negotiated;
    throw new ProtocolError('session_closed', 'the session has not been negotiated yet');
  }
  get memory(): SessionMemory {
    return this.account.memory;
  }
  get memoryKeys(): readonly string[] {
    return [];
  }
  get waitingMessages(): number {
    return this.mailbox.size;
  }
  get hasEnded(): boolean {
    return this.ending.hasEnded;
  }
  get wire(): Wire | undefined {
    return this.#transmitter.wire;
  }
  get openReplies(): number {
    return this.#outbound?.openReplies ?? 0;
  }
  /** Nothing is being coded, waits to be written or waits for its acknowledgement. */
  get isIdle(): boolean {
    return this.#outbound?.coding === undefined && this.ending.isFlushed;
  }
  /** @throws {ProtocolError} `session_closed` unless the session is ready. */
  get outbound(): Outbound {
    this.#assertReady();
    this.#outbound ??= new Outbound(this);
    return this.#outbound;
  }
  get inbound(): Inbound {
    this.#inbound ??= new Inbound(this, this.outbound);
    return this.#inbound;
  }

  // --- reported by the driver of a connection

  /** @param token credentials of this connection. @param hello the HELLO that has arrived with it, if it has. */
  handleConnected(wire: Wire, token?: string, hello?: Uint8Array | string): void {
    this.#transmitter.attach(wire);
    if (hello !== undefined) this.recorder.sent(hello.length);
    this.enter(() => this.core.handleConnected(this.#clock.now(), token, hello !== undefined));
  }

  protected replaceWire(wire: Wire | undefined): void {
    this.#transmitter.attach(wire);
  }

  /**
   * @param now clock reading, if the driver has one already.
   * @param isPart others may follow that arrived together with it, and then {@link handleRead} is called in this task.
   */
  handleMessage(data: Uint8Array | string, wire = this.wire, now = this.#clock.now(), isPart = false): void {
    if (wire !== this.wire || this.ending.isDropped) return;
    this.#transmitter.isUnsettled = true;
    this.recorder.received(data.length);
    this.enter(() => this.core.handleMessage(data, now), isPart && this.isReady);
  }

  /** All messages that arrived together were given to {@link handleMessage}: applies their effects. */
  handleRead(): void {
    if (this.#transmitter.isUnsettled) this.pump();
  }

  /** @param wire the connection that is gone; ignored if another one has replaced it. */
  handleDisconnected(code: number, reason: string, wire: Wire | undefined = this.wire): void {
    if (wire !== this.wire) return;
    this.enter(() => {
      this.#transmitter.lose();
      this.core.handleDisconnected(code, reason, this.#clock.now());
    });
  }

  handleTaken(charge: number): void {
    guard(this, () => {
      if (this.core.channel.consume(0, charge)) this.pump();
      if (!this.#transmitter.isReading) this.#transmitter.pauseWhileFull();
    });
  }

  handleWritable(): void {
    this.pump();
  }

  handleTick(): void {
    this.#transmitter.isTickSoon = false;
    if (this.ending.isDropped) return;
    guard(this, () => {
      const now = this.#clock.now();
      this.account.handleTick(now);
      if (!this.#transmitter.isReading) this.core.handleUnread(now);
      const isDue = now >= this.core.nextTimeout() || this.core.hasEvents;
      if (isDue) this.enter(() => this.core.handleTimeout(now));
      this.#transmitter.tickSoon(now);
    });
  }

  transmit(): void {
    if (!this.#isEntered) this.#transmitter.transmit();
  }

  pump(): void {
    if (!this.#isEntered) guard(this, () => this.apply());
  }

  /**
   * The one way in, for what arrives, what the application asks for, and timers. Frames are written and events are handled once,
   * after the outermost task; after the next one, if this is a part. Never throws.
   */
  protected enter(task: () => void, isPart = false): void {
    guard(this, () => this.#within(task));
    if (!isPart) this.pump();
  }

  /** May throw. */
  #within(task: () => void): void {
    const isEntered = this.#isEntered;
    this.#isEntered = true;
    try {
      task();
    } finally {
      this.#isEntered = isEntered;
    }
  }

  // --- asked for by the application

  async flush(): Promise<void> {
    await this.#outbound?.coding;
    this.#assertReady();
    await this.ending.flushed();
  }

  stats(): SessionStats {
    return this.recorder.snapshot(this.core, this.#outbound?.lastSelection, this.#clock.now());
  }
  get closed(): Session['closed'] {
    return this.ending.over.promise;
  }
  async close({ code, reason = '' }: CloseOptions = {}): Promise<CloseResult> {
    await this.#outbound?.coding;
    return await this.shutdown(this.closeReason, reason, code);
  }

  shutdown(reason: CloseReason, message: string, code?: string): Promise<CloseResult> {
    this.#transmitter.isUnsettled = true;
    return this.ending.closed(() => this.command((core, now) => core.close(reason, message, now, code)));
  }

  /** Ends the session at once with the error's close code. */
  abort(error: ProtocolError): void {
    this.ending.isAborted = true;
    this.command((core, now) => core.abort(error, now));
  }

  /** Server: ends the session with REJECT SECURITY_POLICY, because a scan blocked its content. */
  block(message: string): void {
    const refusal = { code: RejectCode.SECURITY_POLICY, message, retryable: false };
    this.command((core, now) => (core as ServerSessionCore).reject(refusal, CloseCode.FORBIDDEN, now));
  }

  /** Gives a command to the core and applies the events that follow. Never throws. */
  protected command(command: (core: SessionCore, now: number) => void): void {
    this.enter(() => command(this.core, this.#clock.now()));
  }

  /** Whether `error` was thrown because something that this session received cannot be decoded. */
  blames(error: unknown): error is ProtocolError {
    return isFaultIn(this.#outbound?.coder, error);
  }

  notify<Name extends keyof SessionEvents>(name: Name, event: SessionEvents[Name]): void {
    const { onNotify } = this.options;
    if (onNotify === undefined) this.#listeners?.notify(name, event, this);
    else onNotify(name, event);
  }

  // --- reported by the core

  /** May throw. */
  apply(): void {
    if (this.ending.isDropped) return;
    this.#transmitter.transmit();
    while (this.core.hasEvents) {
      this.#within(() => {
        for (let event = this.core.pollEvent(); event !== undefined; event = this.core.pollEvent())
          this.#handleEvent(event);
      });
      this.#transmitter.transmit();
    }
    if (this.#transmitter.closeWire() && !this.ending.hasEnded)
      this.options.onWireLost?.(this.core.retryAfterMs);
    this.options.onApplied?.();
    this.#outbound?.wake();
    if (!this.ending.hasEnded) this.account.update(this.#outbound?.waitingBytes);
    this.ending.checkFlushed();
    this.#transmitter.settle();
  }

  #handleEvent(event: SessionEvent): void {
    switch (event.type) {
      case 'hello':
        return this.options.onHello?.(event);
      case 'state':
        return this.#handleState(event.state);
      case 'warning':
        return this.logger.warn({ event: 'session.warning', session: this.core.id }, event.message);
      case 'codec':
        return this.loading.handleNeeded(event.codec);
      case 'streams':
        return this.loading.handleStreams();
      case 'ready':
        return this.handleCodecs();
      case 'auth':
        return this.options.onAuth?.(event.token);
      case 'granted':
        return this.options.onGranted?.(event.expiresInMs);
      case 'goaway':
        return this.options.onGoAway?.(event);
      case 'takenUp':
        return this.options.onTakenUp?.(event.cancelled);
      case 'behind':
        return this.notify('reset', { ...BEHIND, notSent: [], unknown: [] });
      case 'superseded':
        return this.options.onSuperseded?.(event.accept);
      case 'disconnect':
        return this.#transmitter.disconnect(event.closeCode, event.reason);
      case 'ended':
        return this.ending.end(event.error);
      default:
        this.inbound.handle(event);
    }
  }

  #handleState(state: SessionState): void {
    this.account.handleSuspended(state === 'suspended' ? this.#clock.now() : Infinity);
    // Their replies would not be sent any more.
    if (state === 'closing')
      this.#inbound?.abortHandlers(new ProtocolError('session_closed', 'the session closes'));
    // A resumed session has everything it needs; any other is reported when it is ready.
    if (state === 'established' && !this.isReady) this.loading.begin(() => this.#start());
    else if (state !== 'closed') this.notify('state', state);
  }

  #assertReady(): void {
    if (!this.isReady || this.ending.isDropped) throw nothingSent(this);
  }

  handleCodecs(): void {
    this.#outbound?.handleCodecs();
  }

  #start(): void {
    if (this.ending.hasCrashed) return;
    this.isReady = true;
    if (this.isPreloaded) this.#loading = undefined;
    this.options.onReady?.();
    this.notify('state', this.core.state);
    this.#transmitter.isUnsettled = true;
    this.enter(() => this.core.releaseFrames(this.#clock.now()));
  }

  /** No call of the application and no body waits, and no handler runs but those of streams that `isLeft` names. */
  protected isCalm(isLeft: (streamId: number) => boolean): boolean {
    const inbound = this.#inbound;
    if (this.#outbound?.isIdle === false || inbound?.isIdle === false || this.ending.isAwaited) return false;
    return [...(inbound?.responder?.streams ?? [])].every(isLeft);
  }

  /** A half has been used since the last {@link rest}. */
  protected get isAwake(): boolean {
    return this.#outbound !== undefined;
  }

  /** Server: lets go of both halves, which are made again when they are needed. The session has to be calm. */
  protected rest(): void {
    this.#outbound?.rest();
    this.#loading = undefined;
    this.options.onRest?.();
    this.#outbound = undefined;
    this.#inbound = undefined;
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
    this.ending.crash(error);
  }

  cutOff(reason: string): void {
    this.#transmitter.cutOff(reason);
  }
}
