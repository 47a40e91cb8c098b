import { CloseCode } from '../base/close-codes.js';
import { isProtocolError, ProtocolError, toProtocolError } from '../base/errors.js';
import { MemoryBudget, type Reservation, type SessionMemory } from '../base/memory.js';
import type { BodyCoder } from '../codec/auto/coder.js';
import type { ReceivedBody } from '../codec/body.js';
import type { Negotiated } from '../control/agreement.js';
import { CloseReason, type GoAwayPayload, RejectCode, type ResumeOffer } from '../control/messages.js';
import { DIRECTORY, isAgentAddress, isAgentId } from '../link/addressing.js';
import type { Clock } from '../platform/clock.js';
import { closeReasonOf, drainingError } from '../session/close-reason.js';
import { LifecycleState } from '../session/lifecycle.js';
import type { SessionCore, SessionEvent, SessionState } from '../session/types.js';
import { type Agents, askForAgents } from './agents/agents.js';
import { decodeUndeliverable } from './agents/delivery.js';
import { isLoaded, load } from './agreed-codecs.js';
import {
  assertEventName,
  assertRequestOptions,
  assertSendOptions,
  assertSendTensorOptions,
  NONE,
} from './call-options.js';
import type { EndpointOptions } from './endpoint-options.js';
import { Exchange, sessionClosed } from './exchange.js';
import { attempt, type Crashable, guard, guardLater, logCrash } from './guard.js';
import { Handover } from './handover.js';
import { Listeners } from './listeners.js';
import { loggable } from './loggable.js';
import { Mailbox, type MailboxHost } from './mailbox.js';
import type { Message, ReceivedMessage } from './messages/message.js';
import type { Body } from './messages/part.js';
import { isFaultIn } from './messages/undecodable.js';
import { type Logger, SILENT_LOGGER, type Wire } from './ports.js';
import type { Reply, ReplyStream } from './requests/reply.js';
import type { RequestHandler } from './requests/responder.js';
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
import type { TensorInput } from './tensors/tensor.js';
import { Transmitter, type TransmitterHost } from './transmitter.js';

/** Bytes below which a session is not worth counting: an idle one has no account. */
const MIN_COUNTED = 64 * 1024;
/** A message that waits takes this much beside its bytes, at this end or on its way to another session. */
const MESSAGE_MEMORY = 512;
/** An open stream takes this much with its handler, and so many are not counted. */
const STREAM_MEMORY = 8 * 1024;
const FREE_STREAMS = 16;
const NO_KEYS: readonly string[] = [];
/** Each session is bounded by itself. */
const UNBOUNDED = new MemoryBudget(Infinity);

function evicted(): ProtocolError {
  return new ProtocolError(
    'over_budget',
    'others need the memory that the session holds without a connection',
  );
}

const SESSION_FAILED = 'the session failed';
/** Timeouts nearer than this do not wait for the coarse clock, which strikes at least as often. */
const SHORT_TIMEOUT_MS = 1_100;

/** Drives a session core over a wire and gives its user promises and iterators. */
export class Endpoint implements Session, TransmitterHost, MailboxHost, Crashable {
  principal: string | undefined;
  agentId: string | undefined;
  /** Server: bodies of this session that wait to be written to others. */
  relayed = 0;
  core: SessionCore;
  readonly #options: EndpointOptions;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #stats = new StatsRecorder();
  readonly #transmitter: Transmitter;
  readonly #mailbox: Mailbox;
  readonly #listeners = new Listeners();
  readonly #scanner: Scanner | undefined;
  #memory: SessionMemory | undefined;
  #memoryKeys: readonly string[] = NO_KEYS;
  /** The wait for memory, while the peer gets no credit. */
  #shortage: Reservation | undefined;
  #flushing: { resolve: () => void; reject: (error: Error) => void }[] | undefined;
  #closing: ((result: CloseResult) => void)[] | undefined;
  /** Established, with everything loaded that the agreement needs. */
  #isReady = false;
  /** Of the present core; made when it is first used. */
  #exchange: Exchange | undefined;
  /** The core whose codecs are being loaded. */
  #loading: SessionCore | undefined;
  /** Client: what the server has announced of its draining while that was so. */
  #announced: GoAwayPayload | undefined;
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
  #hasToldEnd = false;
  #hasCrashed = false;
  /** Ended without its core, which fails. */
  #isDropped = false;
  /** Somebody ends it with an error of theirs, and has logged it where it is worth it. */
  #isAborted = false;
  /** Nothing is due here any more. */
  #isAbandoned = false;
  /** What of the last session was not sent, or not acknowledged. */
  #unacknowledged = 0;
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

  /** What the session holds; most hold too little to be counted. */
  get memory(): SessionMemory {
    if (this.#memory === undefined) {
      const { memory = UNBOUNDED, limits } = this.#options;
      this.#memory = memory.open(limits.sessionMemory);
      this.#memory.assign(this.#memoryKeys);
      this.#memory.onEvict = () => this.abort(evicted());
      this.#memory.onFault = (error) => this.crash(error);
      if (this.core.state === 'suspended') this.#memory.handleSuspended(this.#clock.now());
    }
    return this.#memory;
  }

  /** Server: the principal and the address whose share the session takes of the memory of the process. */
  set memoryKeys(keys: readonly string[]) {
    this.#memoryKeys = keys;
    this.#memory?.assign(keys);
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
    guard(this, () => this.core.handleConnected(this.#clock.now(), token));
    this.pump();
  }

  /**
   * Server: the session is taken up on `wire`. The connection that carried it so far is cut off before
   * anything of its count is stated.
   */
  handleResumed(wire: Wire, offer: ResumeOffer): void {
    const former = this.#transmitter.wire;
    guard(this, () => {
      const now = this.#clock.now();
      this.#transmitter.detach();
      this.core.handleDisconnected(CloseCode.ABNORMAL, 'taken over', now);
      this.#transmitter.wire = wire;
      former?.close(CloseCode.TAKEN_OVER, 'a newer connection carries the session');
      this.core.resume(offer, now);
    });
    this.pump();
  }

  /** Server: the connection carries another session, and this one, which has never begun, is not heard of again. */
  abandon(): void {
    this.#isAbandoned = true;
    this.#transmitter.detach();
  }

  /** @param now clock reading, if the driver has one already. */
  handleMessage(
    data: Uint8Array | string,
    wire: Wire | undefined = this.#transmitter.wire,
    now = this.#clock.now(),
  ): void {
    if (wire !== this.#transmitter.wire || this.#isDropped) return;
    try {
      this.#stats.received(data.length);
      this.core.handleMessage(data, now);
      this.#apply();
      if (this.core.isFull) this.#transmitter.pauseWhileFull();
      // An acknowledgement is due sooner than the coarse clock strikes.
      if (!this.#isSoon) this.#tickSoon(now);
    } catch (error) {
      this.crash(error);
    }
  }

  /** @param wire the connection that is gone; one that was replaced before says nothing new. */
  handleDisconnected(code: number, reason: string, wire: Wire | undefined = this.#transmitter.wire): void {
    if (wire !== this.#transmitter.wire) return;
    guard(this, () => {
      this.#transmitter.detach();
      this.core.handleDisconnected(code, reason, this.#clock.now());
      this.#apply();
      this.#wantWire();
    });
  }

  /** The application has taken a message that was charged `charge`. */
  handleTaken(charge: number): void {
    try {
      if (this.core.channel.consume(0, charge)) this.#apply();
      if (!this.#transmitter.isReading) this.#transmitter.pauseWhileFull();
    } catch (error) {
      this.crash(error);
    }
  }

  /** The socket has room again. */
  handleWritable(): void {
    this.pump();
  }

  /** One step of the coarse clock. */
  handleTick(): void {
    if (this.#isAbandoned) return;
    this.#isSoon = false;
    if (this.#isDropped) return;
    try {
      const now = this.#clock.now();
      this.#memory?.handleTick(now);
      if (!this.#transmitter.isReading) this.core.handleUnread(now);
      if (now >= this.core.nextTimeout()) {
        this.core.handleTimeout(now);
        this.#apply();
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
    // Handlers work for a suspended session until its window ends, so that one ends on time.
    if (this.core.state === 'suspended') this.#clock.after(Math.max(0, wait), () => this.handleTick());
    else this.#clock.soon(this);
  }

  /** Applies everything that the core has to say. Never throws. */
  pump(): void {
    try {
      this.#apply();
    } catch (error) {
      this.crash(error);
    }
  }

  /**
   * Ends the session for a fault of this end's: with `internal` and a log line, and if that fails as well,
   * without its core, by dropping the connection and telling everybody who waits. Never throws.
   */
  crash(error: unknown): void {
    const again = this.#hasCrashed;
    this.#hasCrashed = true;
    this.#logFault(error);
    // What fails behind the end has nothing left to end but the connection.
    if (this.#hasToldEnd) return this.#cutOff(SESSION_FAILED);
    const failure = new ProtocolError('internal', SESSION_FAILED, { cause: error });
    const failed = again
      ? undefined
      : attempt(() => {
          this.core.abort(failure, this.#clock.now());
          this.#apply();
        });
    if (failed !== undefined) this.#logFault(failed.error);
    if (!this.#hasToldEnd) this.#drop(failure);
  }

  /** Each step is taken though others fail. */
  #drop(failure: ProtocolError): void {
    if (this.#isDropped) return;
    this.#isDropped = true;
    this.#hasEnded = true;
    this.#isReady = false;
    this.#cutOff(closeReasonOf(failure));
    const closing = this.#closing ?? [];
    this.#closing = undefined;
    const steps = [
      () => this.#exchange?.end(failure),
      () => this.#memory?.close(),
      () => this.#failFlushing(failure),
      () => this.#handover?.fail(failure),
      // As far as anybody knows, nothing has arrived.
      () => {
        for (const resolve of closing) resolve({ unacknowledged: Infinity });
      },
      () => this.#tellState('closed'),
      () => this.#mailbox.end(failure),
      () => this.#notify('error', failure),
      () => this.#tellEnded(failure),
    ];
    for (const step of steps) {
      const failed = attempt(step);
      if (failed !== undefined) this.#logFault(failed.error);
    }
  }

  #cutOff(reason: string): void {
    const { wire } = this.#transmitter;
    attempt(() => this.#transmitter.detach());
    const failed = attempt(() => wire?.close(CloseCode.INTERNAL, reason));
    if (failed !== undefined) attempt(() => wire?.terminate?.());
  }

  #logFault(error: unknown): void {
    let id: string | undefined;
    attempt(() => {
      id = this.core.id;
    });
    logCrash(this.#logger, id, error);
  }

  #apply(): void {
    if (this.#isDropped) return;
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
    this.#countMemory();
    if (this.#flushing !== undefined && this.#isFlushed()) this.#resolveFlushing();
  }

  /** Tells what windows and queues hold. While there is too little memory, the peer gets no more credit. */
  #countMemory(): void {
    const { core } = this;
    const streams = Math.max(0, core.channel.openStreams - FREE_STREAMS) * STREAM_MEMORY;
    const held = core.heldBytes + (this.#mailbox.size + this.relayed) * MESSAGE_MEMORY + streams;
    if (this.#memory === undefined && held < MIN_COUNTED) return;
    const { memory } = this;
    if (!memory.hold(held) || memory.isScarce === (this.#shortage !== undefined)) return;
    if (this.#shortage === undefined) this.#awaitMemory();
    else this.#creditAgain();
  }

  #awaitMemory(): void {
    this.core.channel.holdCredit(true);
    const creditAgain = () => {
      this.#creditAgain();
      this.pump();
    };
    this.#shortage = this.memory.queue(1, {
      now: this.#clock.now(),
      begin: creditAgain,
      // Nothing is given back by those who wait for each other: now and then one of them goes on.
      refuse: creditAgain,
    });
  }

  #creditAgain(): void {
    const shortage = this.#shortage;
    this.#shortage = undefined;
    shortage?.release();
    this.core.channel.holdCredit(false);
  }

  // --- Session

  get id(): string {
    return this.core.id ?? '';
  }
  get state(): SessionState {
    if (this.#isDropped) return 'closed';
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
    return this.#stats.snapshot(this.core.channel.sentBodies, {
      queuedBytes: this.core.queuedBytes,
      blockedOnCredit: this.core.isBlockedOnCredit,
      blockedOnRate: this.core.isPaced,
      openStreams: this.core.channel.openStreams,
      roundTripMs: this.core.roundTripMs,
      lastSelection: this.#exchange?.lastSelection,
      context: this.core.channel.contextUse,
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
    if (this.#hasEnded) return Promise.resolve({ unacknowledged: this.#unacknowledged });
    return new Promise((resolve) => {
      this.#closing ??= [];
      this.#closing.push(resolve);
      guard(this, () => this.core.close(reason, message, this.#clock.now()));
      this.pump();
    });
  }

  /** Ends the session at once with the error's close code. */
  abort(error: ProtocolError): void {
    this.#isAborted = true;
    guard(this, () => this.core.abort(error, this.#clock.now()));
    this.pump();
  }

  /** Whether `error` was thrown because something that this session has received cannot be decoded. */
  blames(error: unknown): error is ProtocolError {
    return isFaultIn(this.#exchange?.coder, error);
  }

  /** Client: sends new credentials before the old ones end. */
  authenticate(token: string): void {
    guard(this, () => this.core.authenticate(token, this.#clock.now()));
    this.pump();
  }

  /** Server: how long the credentials of the connection are good, in Unix milliseconds. */
  grant(expiresAt: number | null): void {
    guard(this, () => this.core.grant(expiresAt, this.#clock.now()));
    this.pump();
  }

  /** Server: tells the client that it drains. */
  sendGoAway(payload: GoAwayPayload): void {
    guard(this, () => this.core.sendGoAway(payload, this.#clock.now()));
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
   * @throws {ProtocolError} what the core refuses; `session_closed` after a fault, which ends this session
   * and not the one on whose behalf it is.
   */
  perform<Result>(command: (core: SessionCore) => Result): Result {
    let result: Result;
    try {
      if (this.#isDropped) throw sessionClosed();
      result = command(this.core);
    } catch (error) {
      if (isProtocolError(error)) throw error;
      this.crash(error);
      throw sessionClosed();
    }
    this.pump();
    return result;
  }

  /** As {@link perform}, for what has no answer: never throws, and a refusal ends this session too. */
  tell(command: (core: SessionCore) => void): void {
    guard(this, () => this.perform(command));
  }

  /** @throws {ProtocolError} `session_closed`. */
  get coder(): BodyCoder {
    return this.#ready.coder;
  }

  /** Answers a request that has arrived by a handler of the caller's. Never rejects. */
  async answer(streamId: number, body: ReceivedBody, handler: RequestHandler): Promise<void> {
    try {
      await this.#ready.answer(streamId, body, handler);
    } catch (error) {
      this.crash(error);
    }
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
      memory: () => this.memory,
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
    return core.queuedBytes === 0 && !core.hasOutput && core.channel.framesUnconfirmed === 0;
  }

  // --- effects of the core

  #handleEvent(event: SessionEvent): void {
    switch (event.type) {
      case 'hello':
        this.#options.onHello?.(event);
        return;
      case 'state':
        if (event.state !== 'closed') this.#isClosing = event.state === 'closing';
        this.#memory?.handleSuspended(event.state === 'suspended' ? this.#clock.now() : Infinity);
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
        // Until the session is ready, the handover is that of the session before it.
        if (this.#isReady) this.#handover ??= new Handover(event);
        else this.#announced = event;
        return;
      case 'superseded':
        this.#superseding = event.accept;
        return;
      case 'disconnect':
        this.#disconnect ??= { code: event.closeCode, reason: event.reason };
        return;
      case 'ended':
        return this.#end(event.error);
      default:
        this.#ready.handle(event);
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
    if (this.core.channel.consume(0, message.charge)) this.pump();
  }

  /** Loads what the agreement needs; the core holds what arrives meanwhile. */
  #prepare(): void {
    const { core, negotiated } = this;
    // A session may be taken up while its codecs are loaded.
    if (this.#loading === core) return;
    const hasContext = core.channel.contextUse !== undefined;
    // A server has loaded everything before it listens.
    if (this.#options.role === 'server' && isLoaded(negotiated, hasContext)) {
      this.#start();
      return;
    }
    this.#loading = core;
    this.#options.onAccepted?.();
    core.holdFrames();
    // Another session may have taken the place of this one, which is over.
    const isOver = () => this.core !== core || core.state === 'closed';
    const loaded = load(negotiated, hasContext).then(
      () => {
        if (!isOver()) this.#start();
      },
      (error: unknown) => {
        if (isOver()) return;
        this.abort(toProtocolError(error, 'internal', 'loading the codecs of the session failed'));
      },
    );
    guardLater(this, loaded);
  }

  #start(): void {
    if (this.#hasCrashed) return;
    this.#isReady = true;
    this.#loading = undefined;
    const handover = this.#handover;
    this.#handover = this.#announced && new Handover(this.#announced);
    this.#announced = undefined;
    this.#options.onReady?.();
    handover?.complete();
    this.#tellState(this.core.state);
    this.core.releaseFrames(this.#clock.now());
    this.pump();
    this.#transmitter.pauseWhileFull();
  }

  /** Leaves a server that drains as soon as nothing is under way any more. */
  #leaveWhenDone(handover: Handover): void {
    if (handover.isClosing || this.core.state !== 'established' || this.core.channel.openStreams > 0) return;
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
    // The core has caught it itself, on a frame.
    if (given?.code === 'internal' && given.side === 'local' && !this.#isAborted && !this.#hasCrashed)
      this.#logFault(given.cause ?? given);
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
    this.#memory?.close();
    this.#memory = undefined;
    this.#shortage = undefined;
    this.#failFlushing(error);
    const unacknowledged = this.core.channel.framesUnconfirmed + this.core.undelivered().notSent.length;
    this.#unacknowledged = unacknowledged;
    for (const resolve of this.#closing ?? []) resolve({ unacknowledged });
    this.#closing = undefined;
    // A reader goes on with the next session where nothing is missing in between.
    if (isLeft && renewed !== undefined) {
      this.#mailbox.continue();
      return this.#renew(renewed);
    }
    if (renewed === undefined) this.#tellState('closed');
    this.#endMailbox(error);
    if (error !== undefined) this.#notify('error', error);
    if (error?.code === 'session_lost') {
      this.#notify('reset', { reason: error.message, ...this.core.undelivered() });
    }
    if (renewed === undefined) {
      const unfinished = this.#handover;
      this.#handover = undefined;
      unfinished?.fail(error ?? sessionClosed());
      this.#tellEnded(error);
      return;
    }
    this.#mailbox.reopen();
    this.#renew(renewed);
  }

  #tellEnded(error: ProtocolError | undefined): void {
    if (this.#hasToldEnd) return;
    this.#hasToldEnd = true;
    this.#options.onEnded?.(error);
  }

  /** Messages that a scan still looks at were acknowledged: their reader has them before the end. */
  #endMailbox(error: ProtocolError | undefined): void {
    const mailbox = this.#mailbox;
    const end = () => mailbox.end(error);
    const looked = this.#scanner?.pending;
    if (looked === undefined) end();
    else guardLater(this, looked.then(end, end));
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
    this.#announced = undefined;
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
