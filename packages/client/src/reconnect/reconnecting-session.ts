import type {
  CloseOptions,
  CloseResult,
  Logger,
  Negotiated,
  SessionCore,
  SessionEnd,
  SessionEvents,
  SessionReset,
  SessionState,
  SessionStats,
} from '@parlance/protocol';
import {
  CloseCode,
  CloseReason,
  EndOfSession,
  type EndpointOptions,
  guard,
  Listeners,
  ProtocolError,
  SILENT_LOGGER,
  type Sweepable,
  sessionClosed,
  type Ticket,
  type UserSessionHost,
  type Wire,
} from '@parlance/protocol/client';
import type { DialingSession } from '../connection/dialer.js';
import type { TransportName } from '../connection/transport.js';
import { ClientEndpoint } from '../session/endpoint.js';
import type { Sessions } from '../session/module.js';
import { ModuleList } from '../session/module-list.js';
import { type ClientSession, ClientUserSession } from '../session/session.js';
import { type Continuation, continuationOf } from './continuation.js';
import { Moves } from './moves.js';
import { ClientOutbound } from './outbound.js';
import { ReconnectingMailbox } from './reconnecting-mailbox.js';

export interface ReconnectingOptions {
  /**
   * @param proof the ticket of the session before this one, which this client or a former page had.
   * @param isRepeated no server has accepted the one before. One may have begun it, so HELLO has to say that it comes again.
   */
  readonly createCore: (proof: Ticket | undefined, isRepeated: boolean) => SessionCore;
  /** The session of a former page. */
  readonly proof?: Ticket | undefined;
  /** A lost session, or one whose server drains, is replaced by a new one. */
  readonly isRenewed: boolean;
  /** A first attempt that has failed is repeated. Asked for errors that may pass. @default it is not */
  readonly mayTryAgain?: ((failure: ProtocolError) => boolean) | undefined;
  /**
   * The server has refused the credentials. Returns after how many milliseconds others are presented. @default the refusal is final
   */
  readonly onRefused?: (() => number | undefined) | undefined;
  readonly agentId: string | undefined;
  /** The options of each endpoint. */
  readonly endpoint: Omit<EndpointOptions, 'core'>;
  /** @default that of WebSockets */
  readonly transport?: (() => TransportName) | undefined;
  readonly onReady: () => void;
  readonly onState: (state: SessionState) => void;
  /** Another connection is needed. @param retryAfterMs how long the server asked to wait, else 0. */
  readonly onWireLost: (retryAfterMs: number) => void;
  /** Another connection is needed within so many milliseconds, while the present one continues. */
  readonly moveWithin: (withinMs: number) => void;
  readonly retryAt: () => number | undefined;
  /** The modules for which the options of the client asked. @default none */
  readonly modules?: ModuleList | undefined;
  /** No session follows any more. */
  readonly onEnded: (error: ProtocolError | undefined) => void;
}

/** The successive sessions of one client, as one session of its application. */
export class ReconnectingSession implements UserSessionHost, DialingSession, Sessions, Sweepable {
  readonly reachesAgents = true;
  readonly session: ClientSession;
  readonly listeners = new Listeners();
  readonly logger: Logger;
  readonly mailbox: ReconnectingMailbox = new ReconnectingMailbox();
  readonly outbound: ClientOutbound;
  readonly #options: ReconnectingOptions;
  readonly #modules: ModuleList;
  #current: ClientEndpoint;
  /** The endpoint whose HELLO travels in an upgrade request. */
  #greeter: ClientEndpoint | undefined;
  /** A session was accepted, although its codecs may still be loading. */
  #isAccepted = false;
  #isSuccessor = false;
  /** The application has closed the session, so none follows. */
  #isCloseRequested = false;
  /** Either end closes the present session. */
  #isClosing = false;
  #hasEnded = false;
  readonly #over = new EndOfSession();
  #reportedState: SessionState | undefined;
  #suspendedUntil: number | undefined;
  /** How the end of the present session is continued, once it is known. */
  #continuation: Continuation | undefined;
  #retryAfterMs = 0;
  /** The ACCEPT with which the server has begun a session in place of the lost one. */
  #accept: Uint8Array | string | undefined;
  readonly #moves: Moves;
  /** That of the last session that began. */
  #agreed: Negotiated | undefined;
  /** Proves to the server that the next session is of the same client as the one before. */
  #proof: Ticket | undefined;

  constructor(options: ReconnectingOptions) {
    this.#options = options;
    this.#modules = options.modules ?? new ModuleList([]);
    this.#proof = options.proof;
    this.logger = options.endpoint.logger ?? SILENT_LOGGER;
    this.#moves = new Moves(this.logger, options.moveWithin);
    this.session = new ClientUserSession(this);
    const present = () => this.#current.outbound;
    const [isComing, windowMs] = [() => this.#isComing, () => this.#current.core.windowMs];
    const waiting = { present, isComing, windowMs, clock: options.endpoint.clock };
    this.outbound = new ClientOutbound(waiting, (module) => this.#modules.add(module));
    this.#current = this.#begin();
  }

  /** The endpoint of the present session. */
  get current(): ClientEndpoint {
    return this.#current;
  }

  // --- as the host of the application's session

  get id(): string {
    return this.#current.id;
  }
  get state(): SessionState {
    return this.#current.state;
  }
  get negotiated(): Negotiated {
    return this.#current.core.negotiated ?? this.#agreed ?? this.#current.negotiated;
  }
  get principal(): string | undefined {
    return this.#current.principal;
  }
  get agentId(): string | undefined {
    return this.#current.agentId;
  }

  async flush(): Promise<void> {
    await this.outbound.wait(0, {}, () => this.#current.flush());
  }

  /** The present session is over, or was left, and the next one is not ready. */
  get #isComing(): boolean {
    const isOver = this.#hasEnded || this.#isCloseRequested;
    const isLeft = this.#continuation !== undefined || (this.#isClosing && this.#isDraining);
    return !isOver && (isLeft || !this.#current.isReady);
  }

  /** The server of the present session has asked to leave it. */
  get #isDraining(): boolean {
    return this.#current.core.goAway !== undefined;
  }

  stats(): SessionStats {
    return this.#current.stats();
  }

  get transport(): TransportName | undefined {
    return this.#options.transport?.();
  }
  get suspendedUntil(): number | undefined {
    const { timeOrigin } = this.#options.endpoint.clock;
    return this.#suspendedUntil === undefined ? undefined : Math.round(timeOrigin + this.#suspendedUntil);
  }
  get nextAttemptAt(): number | undefined {
    return this.#suspendedUntil && this.#options.retryAt();
  }

  get isRebuilt(): boolean {
    return this.#modules.has('isRebuilt');
  }

  get closed(): Promise<SessionEnd> {
    return this.#over.promise;
  }

  async close(options: CloseOptions = {}): Promise<CloseResult> {
    this.#isCloseRequested = true;
    this.#modules.call('closing');
    return await this.#current.close(options);
  }

  async detach(): Promise<void> {
    const left = await Promise.all(this.#modules.call('detach'));
    if (left.includes(true)) return;
    throw new ProtocolError('unsupported', 'detach: the session has no store');
  }

  stop(): void {
    this.#isCloseRequested = true;
  }

  get isStopping(): boolean {
    return this.#isCloseRequested || this.#isClosing;
  }

  move(): void {
    this.#moves.make(0);
  }

  // --- as the owner of connections

  get needsWire(): boolean {
    const needsAny = this.#moves.isUnderWay || this.#current.wire === undefined;
    return needsAny && !this.#hasEnded && !this.#modules.has('isAway');
  }
  get isAccepted(): boolean {
    return this.#isAccepted;
  }
  hello(token: string | undefined): Uint8Array | string | undefined {
    // The server still sends on the present connection, and HELLO states what has arrived.
    if (this.#current.wire !== undefined) return undefined;
    this.#greeter = this.#current;
    return this.#current.hello(token);
  }
  handleConnected(wire: Wire, token: string | undefined, hello?: Uint8Array | string): void {
    if (hello !== undefined && this.#greeter !== this.#current) {
      // The session that said it has ended since.
      wire.close(CloseCode.NORMAL, '');
      return this.#options.onWireLost(0);
    }
    const former = this.#current.wire;
    this.#moves.handleConnected(former);
    // Nothing more is read from it, and HELLO states what has arrived.
    if (former !== undefined) this.#current.handleDisconnected(CloseCode.ABNORMAL, '');
    this.#current.handleConnected(wire, token, hello);
  }
  handleMessage(data: Uint8Array | string, wire: Wire): void {
    this.#current.handleMessage(data, wire);
  }
  handleWritable(): void {
    this.#current.handleWritable();
  }
  probe(): void {
    this.#current.probe();
  }
  handleDisconnected(code: number, reason: string, wire: Wire): void {
    this.#current.handleDisconnected(code, reason, wire);
  }
  handleTick(): void {
    this.#current.handleTick();
  }
  abort(error: ProtocolError): void {
    this.#current.abort(error);
  }
  crash(error: unknown): void {
    this.#current.crash(error);
  }

  // --- one session after the other

  #begin(isRepeated = false): ClientEndpoint {
    const { createCore, endpoint: shared, onWireLost } = this.#options;
    return new ClientEndpoint({
      ...shared,
      core: createCore(this.#proof, isRepeated),
      userSession: this.session,
      mailbox: this.mailbox,
      onAccepted: () => {
        this.#isAccepted = true;
      },
      onReady: () => this.#handleReady(),
      onNotify: (name, event) => this.#handleNotification(name, event),
      onGoAway: (goAway) => {
        if (goAway.move) this.#moves.begin(goAway);
      },
      onSuperseded: (accept) => {
        this.#accept = accept;
      },
      onTakenUp: (cancelled) => this.#modules.call('rebuilt', cancelled),
      onApplied: () => this.#handleApplied(),
      onWireLost,
      onEnding: (error) => this.#handleEnding(error),
      onEnded: (error) => this.#handleEnded(error),
    });
  }

  #handleReady(): void {
    this.#current.agentId = this.#options.agentId;
    this.#options.onReady();
    this.#modules.call('ready');
    this.outbound.ready();
  }

  #handleNotification<Name extends keyof SessionEvents>(name: Name, event: SessionEvents[Name]): void {
    if (name === 'state') return this.#handleState(event as SessionState);
    // An attempt to begin a session is not a session that ended.
    if (this.#continuation === 'retry') return;
    if (name === 'reset' && this.#continuation !== undefined)
      return this.notify('reset', this.#modules.lossOf(event as SessionReset));
    this.notify(name, event);
  }

  notify<Name extends keyof SessionEvents>(name: Name, event: SessionEvents[Name]): void {
    this.listeners.notify(name, event, this);
  }

  #handleState(state: SessionState): void {
    if (state !== 'suspended') this.#moves.closeLeft();
    if (state !== 'closed') this.#isClosing = state === 'closing';
    if (state !== 'closed' || this.#continuation === undefined) this.#reportState(state);
  }

  /** Reports repeated attempts to begin a session as a single state change. */
  #reportState(state: SessionState): void {
    if (state === this.#reportedState) return;
    this.#reportedState = state;
    const now = this.#options.endpoint.clock.now();
    this.#suspendedUntil = state === 'suspended' ? now + this.#current.core.windowMs : undefined;
    this.#options.onState(state);
    this.notify('state', state);
  }

  #handleApplied(): void {
    this.#leaveWhenIdle();
    this.#modules.call('applied', this.#current.core);
  }

  /** Closes the session of a server that drains as soon as it is idle. */
  #leaveWhenIdle(): void {
    const { core, isIdle, isReady } = this.#current;
    if (!this.#isDraining || !isReady || core.state !== 'established') return;
    if (core.channel.openStreams > 0 || !isIdle) return;
    void this.#current.shutdown(CloseReason.CLIENT_SHUTDOWN, 'the server drains');
  }

  /** Decides how the present session is continued, and with which error it ends. */
  #handleEnding(given: ProtocolError | undefined): ProtocolError | undefined {
    const { core, openReplies } = this.#current;
    const { error, continuation, retryAfterMs } = continuationOf(given, {
      core,
      openReplies,
      isCloseRequested: this.#isCloseRequested,
      isSuccessor: this.#isSuccessor,
      isClosing: this.#isClosing,
      isRenewed: this.#options.isRenewed,
      mayTryAgain: (failure) => this.#mayTryAgain(failure),
      onRefused: () => this.#options.onRefused?.(),
    });
    this.#continuation = continuation;
    this.#retryAfterMs = retryAfterMs;
    this.mailbox.isContinued = continuation !== undefined;
    return error;
  }

  #mayTryAgain(failure: ProtocolError): boolean {
    if (this.#isAccepted) return this.#isSuccessor;
    return !this.#isCloseRequested && this.#options.mayTryAgain?.(failure) === true;
  }

  #handleEnded(error: ProtocolError | undefined): void {
    const continuation = this.#continuation;
    this.#continuation = undefined;
    // A listener that was told of the end may have closed the session.
    if (continuation !== undefined && !(continuation === 'restart' && this.#isCloseRequested))
      return guard(this, () => this.#succeed(continuation));
    this.#hasEnded = true;
    if (continuation !== undefined) this.#endAnyway(error);
    this.#over.settle(this.#current.core.closeStatement, error);
    const failure = error ?? sessionClosed(this.#current.core);
    this.outbound.end(failure);
    this.#modules.call('ended', failure);
    this.#options.onEnded(error);
  }

  /** The session was about to be followed by another one. */
  #endAnyway(error: ProtocolError | undefined): void {
    this.mailbox.isContinued = false;
    this.mailbox.end(error);
    this.#reportState('closed');
  }

  /** Begins the next session, on a new connection unless the server has begun it on the present one. */
  #succeed(continuation: Continuation): void {
    if (continuation === 'restart') this.mailbox.handleLost(this.logger);
    const [former, accept] = [this.#current, this.#accept];
    this.#accept = undefined;
    this.#isSuccessor = true;
    this.#isClosing = false;
    // A session that never began has nothing to prove, but its attempt may have arrived, and is not made twice.
    const { proof, negotiated } = former.core;
    const next = this.#proof && { ...this.#proof, attempt: this.#proof.attempt + 1 };
    this.#agreed = negotiated ?? this.#agreed;
    this.#proof = proof ?? (negotiated === undefined ? next : undefined);
    this.#current = this.#begin(continuation === 'retry');
    this.#reportState(this.#current.state);
    const { wire } = former;
    if (accept === undefined || wire === undefined) return this.#options.onWireLost(this.#retryAfterMs);
    former.releaseWire();
    this.#current.handleAccepted(wire, accept);
  }
}
