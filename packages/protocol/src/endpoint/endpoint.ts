import { CloseCode } from '../close-codes.js';
import { drainingError } from '../departure.js';
import { ProtocolError, toProtocolError } from '../errors.js';
import { LifecycleState } from '../lifecycle.js';
import { DIRECTORY, isAgentAddress, isAgentId } from '../link/addressing.js';
import type { ReceivedBody } from '../link/assembly.js';
import type { CodedBody } from '../link/link.js';
import { CloseReason, type GoAwayPayload, RejectCode, type ResumeOffer } from '../messages.js';
import type { Clock } from '../platform/clock.js';
import type { Negotiated, SessionCore, SessionEvent, SessionState } from '../session-core.js';
import { type Agents, askForAgents } from './agents.js';
import { isLoaded, load } from './agreed-codecs.js';
import type { BodyCoder } from './body-coder.js';
import {
  assertEventName,
  assertRequestOptions,
  assertSendOptions,
  assertSendTensorOptions,
  NONE,
} from './call-options.js';
import { decodeUndeliverable } from './delivery.js';
import type { EndpointOptions } from './endpoint-options.js';
import { Exchange, sessionClosed } from './exchange.js';
import { Handover } from './handover.js';
import { Listeners } from './listeners.js';
import { loggable } from './loggable.js';
import { Mailbox, type MailboxHost } from './mailbox.js';
import type { Message, ReceivedMessage } from './message.js';
import type { Body } from './part.js';
import { type Logger, SILENT_LOGGER, type Wire } from './ports.js';
import type { Reply, ReplyStream } from './reply.js';
import type { RequestHandler } from './responder.js';
import { Scanner } from './scan.js';
import type {
  CloseResult,
  RequestOptions,
  SendOptions,
  SendTensorOptions,
  Session,
  SessionEvents,
} from './session.js';
import { type SessionStats, StatsRecorder } from './stats.js';
import type { TensorInput } from './tensor.js';
import { Transmitter, type TransmitterHost } from './transmitter.js';

/** Timeouts nearer than this do not wait for the coarse clock, which strikes at least as often. */
const SHORT_TIMEOUT_MS = 1_100;

/** Drives a session core over a wire and gives its user promises and iterators. */
export class Endpoint implements Session, TransmitterHost, MailboxHost {
  principal: string | undefined;
  agentId: string | undefined;
  core: SessionCore;
  readonly #options: EndpointOptions;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #stats = new StatsRecorder();
  readonly #transmitter: Transmitter;
  readonly #mailbox: Mailbox;
  readonly #listeners = new Listeners();
  readonly #scanner: Scanner | undefined;
  #flushing: { resolve: () => void; reject: (error: Error) => void }[] | undefined;
  #closing: ((result: CloseResult) => void)[] | undefined;
  /** Established, with everything loaded that the agreement needs. */
  #isReady = false;
  /** Of the present core; made when it is first used. */
  #exchange: Exchange | undefined;
  /** Events that arrived before the vocabulary was loaded; nothing overtakes them. */
  #early: SessionEvent[] | undefined;
  /** `handleTick` comes on the short timer as well. */
  #isSoon = false;
  #disconnect: { readonly code: number; readonly reason: string } | undefined;
  /** The ACCEPT of a session that the server began in place of the lost one. */
  #superseding: Uint8Array | string | undefined;
  #isRenewed = false;
  #toldState: SessionState | undefined;
  /** Either end closes, so that nobody wants a new session in place of this one. */
  #isClosing = false;
  #hasEnded = false;
  /** Client: the server drains, and this session is left, for the next one where there is one. */
  #handover: Handover | undefined;
  /** How long the server asked to wait before the next connection. */
  #retryAfterMs = 0;

  constructor(options: EndpointOptions) {
    this.#options = options;
    this.core = options.core;
    this.#clock = options.clock;
    this.#logger = options.logger ?? SILENT_LOGGER;
    this.#transmitter = new Transmitter(this, options.clock, this.#stats);
    this.#mailbox = new Mailbox(this);
    if (options.scan !== undefined) {
      this.#scanner = new Scanner(options.scan, this, this.#logger, (error) => this.#block(error.message));
    }
  }

  /** Over for good, and not only one session of several. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Whether a connection carries the session. */
  get hasWire(): boolean {
    return this.#transmitter.wire !== undefined;
  }

  /** Whether it is `wire` that carries the session. */
  isOn(wire: Wire): boolean {
    return wire === this.#transmitter.wire;
  }

  // --- what a driver reports

  /** @param token credentials of this connection. */
  handleConnected(wire: Wire, token?: string): void {
    this.#transmitter.wire = wire;
    this.core.handleConnected(this.#clock.now(), token);
    this.pump();
  }

  /**
   * Server: the session is taken up on `wire`. The connection that carried it so far is cut off before
   * anything of its count is stated.
   */
  handleResumed(wire: Wire, offer: ResumeOffer): void {
    const now = this.#clock.now();
    const former = this.#transmitter.wire;
    this.#transmitter.detach();
    this.core.handleDisconnected(CloseCode.ABNORMAL, 'taken over', now);
    former?.close(CloseCode.TAKEN_OVER, 'a newer connection carries the session');
    this.#transmitter.wire = wire;
    this.core.resume(offer, now);
    this.pump();
  }

  handleMessage(data: Uint8Array | string, wire: Wire | undefined = this.#transmitter.wire): void {
    if (wire !== this.#transmitter.wire) return;
    this.#stats.received(data.length);
    const now = this.#clock.now();
    this.core.handleMessage(data, now);
    this.pump();
    if (this.core.isFull) this.#transmitter.pauseWhileFull();
    // An acknowledgement is due sooner than the coarse clock strikes.
    if (!this.#isSoon) this.#tickSoon(now);
  }

  /** @param wire the connection that is gone; one that was replaced before says nothing new. */
  handleDisconnected(code: number, reason: string, wire: Wire | undefined = this.#transmitter.wire): void {
    if (wire !== this.#transmitter.wire) return;
    this.#transmitter.detach();
    this.core.handleDisconnected(code, reason, this.#clock.now());
    this.pump();
    this.#wantWire();
  }

  /** The application has taken a message that was charged `charge`. */
  handleTaken(charge: number): void {
    if (this.core.consume(0, charge)) this.pump();
    if (!this.#transmitter.isReading) this.#transmitter.pauseWhileFull();
  }

  /** The socket has room again. */
  handleWritable(): void {
    this.pump();
  }

  /** One step of the coarse clock. */
  handleTick(): void {
    const now = this.#clock.now();
    this.#isSoon = false;
    if (!this.#transmitter.isReading) this.core.handleUnread(now);
    if (now >= this.core.nextTimeout()) {
      this.core.handleTimeout(now);
      this.pump();
    }
    this.#tickSoon(now);
  }

  #tickSoon(now: number): void {
    const wait = this.core.nextTimeout() - now;
    if (wait >= SHORT_TIMEOUT_MS) return;
    this.#isSoon = true;
    // Handlers work for a suspended session until its window ends, so that one ends on time.
    if (this.core.state === 'suspended') this.#clock.after(Math.max(0, wait), () => this.handleTick());
    else this.#clock.soon(this);
  }

  /** Applies everything that the core has to say. */
  pump(): void {
    this.#transmitter.transmit();
    while (this.core.hasEvents) {
      for (let event = this.core.pollEvent(); event !== undefined; event = this.core.pollEvent()) {
        this.#handleEvent(event);
      }
      this.#transmitter.transmit();
    }
    if (this.#disconnect !== undefined) {
      const { code, reason } = this.#disconnect;
      this.#disconnect = undefined;
      this.#transmitter.wire?.close(code, reason);
      const { lifecycle } = this.core;
      const isLeft =
        lifecycle === LifecycleState.SUSPENDED ||
        lifecycle === LifecycleState.CLOSING ||
        lifecycle === LifecycleState.INITIAL;
      if (isLeft) {
        // A peer that does not answer will not take part in a closing handshake either, and a session
        // that is over has no use for what it would say.
        this.#transmitter.detach();
        this.#wantWire();
      }
    }
    if (this.#handover !== undefined) this.#leaveWhenDone(this.#handover);
    this.#exchange?.wake();
    if (this.#flushing !== undefined && this.#isFlushed()) this.#resolveFlushing();
  }

  // --- Session

  get id(): string {
    return this.core.id ?? '';
  }
  get state(): SessionState {
    const { state } = this.core;
    // What was agreed on may have to be loaded yet, and until then nothing can be sent.
    return state === 'established' && !this.#isReady ? 'connecting' : state;
  }
  get negotiated(): Negotiated {
    if (this.core.negotiated !== undefined) return this.core.negotiated;
    throw new ProtocolError('session_closed', 'nothing is negotiated yet');
  }

  send(body: Body, options: SendOptions = NONE): Promise<void> {
    if (this.#handover?.isClosing) return this.#handover.inNext(() => this.send(body, options));
    try {
      assertSendOptions(options);
      options.signal?.throwIfAborted();
      return this.#ready.send(body, options, this.#recipient(options.to));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async request(body: Body, options: RequestOptions = NONE): Promise<Message> {
    return await this.#ask(body, options).whole();
  }

  stream(body: Body, options: RequestOptions = NONE): ReplyStream {
    return this.#ask(body, options);
  }

  async sendTensor(tensor: TensorInput, options: SendTensorOptions = NONE): Promise<void> {
    assertSendTensorOptions(options);
    options.signal?.throwIfAborted();
    if (this.#handover?.isClosing) throw drainingError(this.#handover);
    await this.#ready.sendTensor(tensor, options, this.#recipient(options.to));
  }

  async agents(): Promise<Agents> {
    return await askForAgents((query) => this.#ask(query, NONE, DIRECTORY));
  }

  [Symbol.asyncIterator](): AsyncIterator<Message> {
    return this.#mailbox[Symbol.asyncIterator]();
  }

  async flush(): Promise<void> {
    await this.#exchange?.coding;
    this.#assertReady();
    if (this.#isFlushed()) return;
    await new Promise<void>((resolve, reject) => {
      this.#flushing ??= [];
      this.#flushing.push({ resolve, reject });
    });
  }

  on<Name extends keyof SessionEvents>(
    name: Name,
    listener: (event: SessionEvents[Name]) => void,
  ): () => void {
    assertEventName(name);
    return this.#listeners.add(name, listener);
  }

  stats(): SessionStats {
    return this.#stats.snapshot({
      queuedBytes: this.core.queuedBytes,
      blockedOnCredit: this.core.isBlockedOnCredit,
      blockedOnRate: this.core.isPaced,
      openStreams: this.core.openStreams,
      roundTripMs: this.core.roundTripMs,
      lastSelection: this.#exchange?.lastSelection,
      context: this.core.contextUse,
    });
  }

  async close(): Promise<CloseResult> {
    await this.#exchange?.coding;
    const reason = this.#options.role === 'client' ? CloseReason.CLIENT_SHUTDOWN : CloseReason.NORMAL;
    return await this.shutdown(reason, '');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Closes at once with a reason of its own, such as the server's shutdown. */
  shutdown(reason: CloseReason, message: string): Promise<CloseResult> {
    if (this.#hasEnded) return Promise.resolve({ unacknowledged: 0 });
    return new Promise((resolve) => {
      this.#closing ??= [];
      this.#closing.push(resolve);
      this.core.close(reason, message, this.#clock.now());
      this.pump();
    });
  }

  /** Ends the session at once with the error's close code. */
  abort(error: ProtocolError): void {
    this.core.abort(error, this.#clock.now());
    this.pump();
  }

  /** Client: sends new credentials before the old ones end. */
  authenticate(token: string): void {
    this.core.authenticate(token, this.#clock.now());
    this.pump();
  }

  /** Server: how long the credentials of the connection are good, in Unix milliseconds. */
  grant(expiresAt: number | null): void {
    this.core.grant(expiresAt, this.#clock.now());
    this.pump();
  }

  /** Server: tells the client that it drains. */
  leave(payload: GoAwayPayload): void {
    this.core.leave(payload, this.#clock.now());
    this.pump();
  }

  // --- messages and requests

  #ask(body: Body, options: RequestOptions, agent = this.#recipient(options.to)): Reply {
    assertRequestOptions(options);
    options.signal?.throwIfAborted();
    if (this.#handover?.isClosing) throw drainingError(this.#handover);
    return this.#ready.ask(body, options, agent);
  }

  /** @throws {ProtocolError} `unsupported` at a server, `invalid_argument` for what is no agent's ID. */
  #recipient(to: string | undefined): string | undefined {
    if (to === undefined) return undefined;
    if (this.#options.role === 'server') {
      throw new ProtocolError('unsupported', "a server's session speaks to its own client, not to others");
    }
    if (isAgentId(to) || isAgentAddress(to)) return to;
    throw new ProtocolError(
      'invalid_argument',
      'to: an agent is named by 1 to 128 of letters, digits, - and _, or by the address that agents() lists',
    );
  }

  // --- what a server's route does with other sessions

  /**
   * Gives a command to the core on somebody else's behalf.
   *
   * @param sent is counted as such: a body, or the bytes of a tensor.
   */
  perform<Result>(sent: CodedBody | number | undefined, command: (core: SessionCore) => Result): Result {
    const result = command(this.core);
    if (typeof sent === 'number') this.#stats.sentTensor(sent);
    else if (sent !== undefined) this.#stats.sentBody(sent);
    this.pump();
    return result;
  }

  /** @throws {ProtocolError} `session_closed`. */
  get coder(): BodyCoder {
    return this.#ready.coder;
  }

  /** Answers a request that has arrived by a handler of the caller's. */
  async answer(streamId: number, body: ReceivedBody, handler: RequestHandler): Promise<void> {
    await this.#ready.answer(streamId, body, handler);
  }

  // --- the present session

  /** @throws {ProtocolError} `session_closed`. */
  get #ready(): Exchange {
    this.#assertReady();
    this.#exchange ??= new Exchange({
      core: this.core,
      negotiated: this.negotiated,
      session: this,
      agentId: this.agentId,
      endpoint: this.#options,
      logger: this.#logger,
      stats: this.#stats,
      mailbox: this.#mailbox,
      scanner: this.#scanner,
      transmit: () => this.#transmitter.transmit(),
      pump: () => this.pump(),
      onReport: (message) => this.#handleReport(message),
    });
    return this.#exchange;
  }

  #assertReady(): void {
    if (this.#isReady) return;
    throw new ProtocolError('session_closed', `the session is ${this.state}; nothing can be sent`);
  }

  // --- the wire

  #wantWire(): void {
    if (this.#hasEnded) return;
    const retryAfterMs = Math.max(this.#retryAfterMs, this.core.retryAfterMs);
    this.#retryAfterMs = 0;
    this.#options.onWireLost?.(retryAfterMs);
  }

  #isFlushed(): boolean {
    const { core } = this;
    return core.queuedBytes === 0 && !core.hasOutput && core.framesUnconfirmed === 0;
  }

  // --- effects of the core

  #handleEvent(event: SessionEvent): void {
    switch (event.type) {
      case 'hello':
        this.#options.onHello?.(event);
        return;
      case 'state':
        if (event.state !== 'closed') this.#isClosing = event.state === 'closing';
        // What a handler would still reply is not sent any more.
        if (event.state === 'closing')
          this.#exchange?.abortHandlers(new ProtocolError('session_closed', 'the session closes'));
        if (event.state === 'closing' && this.#handover !== undefined) this.#handover.isClosing = true;
        // A session that was taken up again has everything it needs; any other is told of when it is ready.
        if (event.state === 'established' && !this.#isReady) return this.#prepare();
        // Whether this is the end for good is only known when it is known why.
        if (event.state !== 'closed' || this.#options.renew === undefined) this.#tellState(event.state);
        return;
      case 'warning':
        this.#logger.warn({ event: 'session.warning', session: this.core.id }, event.message);
        return;
      case 'auth':
        this.#options.onAuth?.(event.token);
        return;
      case 'granted':
        this.#options.onGranted?.(event.expiresInMs);
        return;
      case 'goaway':
        this.#handover ??= new Handover(event);
        return;
      case 'superseded':
        this.#superseding = event.accept;
        return;
      case 'disconnect':
        this.#disconnect ??= { code: event.closeCode, reason: event.reason };
        return;
      default:
        if (this.#early !== undefined) this.#early.push(event);
        else if (event.type === 'ended') this.#end(event.error);
        else this.#ready.handle(event);
    }
  }

  /** Content that goes no further ends the session, and its sender is told why. */
  #block(message: string): void {
    const refusal = { code: RejectCode.SECURITY_POLICY, message, retryable: false };
    this.core.reject(refusal, CloseCode.FORBIDDEN, this.#clock.now());
    this.pump();
  }

  #handleReport(message: ReceivedMessage): void {
    try {
      this.#notify('undelivered', decodeUndeliverable(message.text, this.#options.limits));
    } catch (error) {
      const fields = { event: 'report.unreadable', session: this.id, err: loggable(error) };
      this.#logger.warn(fields, 'a report of delivery could not be read');
    }
    if (this.core.consume(0, message.charge)) this.pump();
  }

  /** Loads what the agreement needs; what arrives meanwhile waits. */
  #prepare(): void {
    const { negotiated } = this;
    const hasContext = this.core.contextUse !== undefined;
    // A server has loaded everything before it listens.
    if (this.#options.role === 'server' && isLoaded(negotiated, hasContext)) {
      this.#start();
      return;
    }
    this.#early = [];
    // What is coded in context is decoded on arrival, which takes what is being loaded.
    if (hasContext) this.core.holdFrames();
    load(negotiated, hasContext).then(
      () => this.#start(),
      (error: unknown) => {
        this.abort(toProtocolError(error, 'internal', 'loading the codecs of the session failed'));
        this.#takeEarly();
      },
    );
  }

  #start(): void {
    this.#isReady = true;
    const handover = this.#handover;
    this.#handover = undefined;
    this.#options.onReady?.();
    handover?.complete();
    this.#tellState(this.core.state);
    this.#takeEarly();
    this.core.releaseFrames(this.#clock.now());
    this.pump();
  }

  #takeEarly(): void {
    const early = this.#early ?? [];
    this.#early = undefined;
    for (const event of early) {
      if (event.type === 'ended') this.#end(event.error);
      else if (this.#isReady) this.#ready.handle(event);
    }
  }

  /** Leaves a server that drains as soon as nothing is under way any more. */
  #leaveWhenDone(handover: Handover): void {
    if (handover.isClosing || this.core.state !== 'established' || this.core.openStreams > 0) return;
    if (this.#exchange?.coding !== undefined || !this.#isFlushed()) return;
    handover.isClosing = true;
    this.core.close(CloseReason.CLIENT_SHUTDOWN, 'the server drains', this.#clock.now());
    this.pump();
  }

  /** A client's attempts to begin a new session are one state, and not one each. */
  #tellState(state: SessionState): void {
    if (state === this.#toldState) return;
    this.#toldState = state;
    this.#notify('state', state);
  }

  #end(given: ProtocolError | undefined): void {
    // Whoever closes a session wants no other one, and has it even before the next one has begun.
    const isWanted = this.#closing === undefined;
    const reason = !isWanted && this.#isRenewed && given?.code === 'session_closed' ? undefined : given;
    const handover = isWanted ? this.#handover : undefined;
    const error = handover === undefined ? reason : handover.lossOf(reason, this.#exchange?.openReplies ?? 0);
    // A new session in place of a lost one may take several attempts to come about.
    const isUnborn = this.#isRenewed && this.core.negotiated === undefined && error?.retryable === true;
    // What leaves a draining server begins anew, however far the leaving has come.
    const isLost = error?.code === 'session_lost' && (!this.#isClosing || handover !== undefined);
    const isLeft = handover !== undefined && error === undefined;
    const renewed = isUnborn || isLeft || isLost ? this.#options.renew?.() : undefined;
    this.#retryAfterMs = error?.retryAfterMs ?? handover?.retryAfterMs ?? 0;
    if (isUnborn && renewed !== undefined) return this.#renew(renewed);
    this.#hasEnded = renewed === undefined;
    // An answered CLOSE says that all has arrived.
    if (isLeft) this.#resolveFlushing();
    this.#exchange?.end(error);
    this.#failFlushing(error);
    const unacknowledged = this.core.framesUnconfirmed + this.core.undelivered().notSent.length;
    for (const resolve of this.#closing ?? []) resolve({ unacknowledged });
    this.#closing = undefined;
    // A reader goes on with the next session where nothing is missing in between.
    if (isLeft && renewed !== undefined) {
      this.#mailbox.continue();
      return this.#renew(renewed);
    }
    if (renewed === undefined) this.#tellState('closed');
    this.#mailbox.end(error);
    if (error !== undefined) this.#notify('error', error);
    if (error?.code === 'session_lost') {
      this.#notify('reset', { reason: error.message, ...this.core.undelivered() });
    }
    if (renewed === undefined) {
      const unfinished = this.#handover;
      this.#handover = undefined;
      unfinished?.fail(error ?? sessionClosed());
      this.#options.onEnded?.(error);
      return;
    }
    this.#mailbox.reopen();
    this.#renew(renewed);
  }

  #failFlushing(error: ProtocolError | undefined): void {
    for (const { reject } of this.#flushing ?? []) reject(error ?? sessionClosed());
    this.#flushing = undefined;
  }

  #resolveFlushing(): void {
    for (const { resolve } of this.#flushing ?? []) resolve();
    this.#flushing = undefined;
  }

  /** Goes on with a new session; on the connection that the server has begun one on, if it has. */
  #renew(core: SessionCore): void {
    this.#isRenewed = true;
    this.core = core;
    this.#tellState(core.state);
    if (this.#handover !== undefined) this.#handover.isClosing = true;
    this.#isReady = false;
    this.#exchange = undefined;
    const accept = this.#superseding;
    this.#superseding = undefined;
    if (accept === undefined || this.#transmitter.wire === undefined) return;
    const now = this.#clock.now();
    core.handleConnected(now);
    // The HELLO that was answered is the one that the lost session said.
    core.pollTransmit();
    core.handleMessage(accept, now);
  }

  #notify<Name extends keyof SessionEvents>(name: Name, event: SessionEvents[Name]): void {
    this.#listeners.tell(name, event, (error) => {
      const fields = { event: 'listener.failed', session: this.core.id, err: loggable(error) };
      this.#logger.error(fields, `a listener of "${name}" threw`);
    });
  }
}
