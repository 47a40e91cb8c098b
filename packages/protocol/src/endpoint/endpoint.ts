import { platform } from '#platform';
import { CloseCode } from '../close-codes.js';
import { type LoadableCodec, loadCodecs } from '../codec/load.js';
import type { M2MSecurity } from '../codec/m2m-security.js';
import { Subprotocol } from '../constants.js';
import { maxMessageSize } from '../data-path.js';
import { drainingError } from '../departure.js';
import { ProtocolError, toProtocolError } from '../errors.js';
import { LifecycleState } from '../lifecycle.js';
import type { Limits } from '../limits.js';
import { DELIVERY, DIRECTORY, isAgentId } from '../link/addressing.js';
import type { ReceivedBody } from '../link/assembly.js';
import { type CodedBody, plainBody } from '../link/link.js';
import { CloseReason, type GoAwayPayload, RejectCode, type ResumeOffer } from '../messages.js';
import type { Clock } from '../platform/clock.js';
import type { Negotiated, SessionCore, SessionEvent, SessionState } from '../session-core.js';
import { getEncoding, loadEncoding } from '../tokenizer/load.js';
import { type Agents, askForAgents } from './agents.js';
import type { ResolvedBatchOptions } from './batch.js';
import { type BodyCoder, type BodyCoderOptions, createBodyCoder } from './body-coder.js';
import { decodeUndeliverable } from './delivery.js';
import { Handover } from './handover.js';
import { Inbox } from './inbox.js';
import { loggable } from './loggable.js';
import { createMessage, type Message, type ReceivedMessage } from './message.js';
import { encodeMetadata, type Metadata } from './metadata.js';
import { type Body, encodeBody } from './part.js';
import { type EventRoute, type Logger, SILENT_LOGGER, type Wire } from './ports.js';
import type { Reply, ReplyStream } from './reply.js';
import { Requester } from './requester.js';
import { answer, type RequestHandler } from './responder.js';
import { type Scan, Scanner } from './scan.js';
import type {
  CloseResult,
  RequestOptions,
  SendOptions,
  SendTensorOptions,
  Session,
  SessionEvents,
} from './session.js';
import { type SessionStats, StatsRecorder } from './stats.js';
import { type TensorInput, TensorMessage } from './tensor.js';
import { TensorPassage } from './tensor-passage.js';
import { TensorReceiver, type TransferMode } from './tensor-receiver.js';
import { TensorSender } from './tensor-sender.js';

export interface EndpointOptions {
  readonly core: SessionCore;
  /**
   * Client: a fresh core, for when the session is lost. With it the endpoint outlives its session and
   * goes on under a new ID; without it a lost session ends it.
   */
  readonly renew?: (() => SessionCore) | undefined;
  readonly clock: Clock;
  readonly limits: Limits;
  readonly role: 'client' | 'server';
  readonly onRequest?: RequestHandler | undefined;
  /** How the parts of replies are joined. @default not at all */
  readonly batch?: ResolvedBatchOptions | undefined;
  readonly security?: M2MSecurity | undefined;
  /** Server: where what is not for its own user goes. */
  readonly route?: EventRoute | undefined;
  /** @default 'assemble' */
  readonly transfers?: TransferMode | undefined;
  readonly logger?: Logger | undefined;
  /** Looks at what arrives before anybody else does. */
  readonly scan?: Scan | undefined;
  /** What requests carry as `traceparent`, where their metadata has none (W3C Trace Context). */
  readonly traceparent?: (() => string | undefined) | undefined;
  /** Server: answers a HELLO with the core's `accept` or `reject`. */
  readonly onHello?: ((event: Extract<SessionEvent, { type: 'hello' }>) => void) | undefined;
  /** Server: the client has sent new credentials; answer with `grant` or `abort`. */
  readonly onAuth?: ((token: string) => void) | undefined;
  /** Client: the credentials of the connection are good for this long. */
  readonly onGranted?: ((expiresInMs: number) => void) | undefined;
  /** The session was accepted and everything that it needs is loaded. */
  readonly onReady?: (() => void) | undefined;
  /**
   * The connection is gone and the endpoint wants another one.
   *
   * @param retryAfterMs how long the server asked to wait before it, 0 where it did not.
   */
  readonly onWireLost?: ((retryAfterMs: number) => void) | undefined;
  /** The session is over; called once. */
  readonly onEnded?: ((error: ProtocolError | undefined) => void) | undefined;
}

/** Bytes handed to the socket ahead of time; more would let small messages wait behind large ones. */
const SOCKET_HIGH_WATER = 256 * 1024;
/** Bytes that may wait on a stream before its sender waits. */
const STREAM_HIGH_WATER = 256 * 1024;
/** Timeouts nearer than this do not wait for the coarse clock, which strikes at least as often. */
const SHORT_TIMEOUT_MS = 1_100;
/** How often a socket without a drain event is asked whether it has room again. */
const DRAIN_POLL_MS = 4;

const RESOLVED = Promise.resolve();
const ignore = () => {};

/** A handler that has not returned. */
interface RunningHandler {
  readonly controller: AbortController;
  /** Only its requester stops it. */
  runsToCompletion: boolean;
}

/** Drives a session core over a wire and gives its user promises and iterators. */
export class Endpoint implements Session {
  principal: string | undefined;
  agentId: string | undefined;
  core: SessionCore;
  readonly #options: EndpointOptions;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #stats = new StatsRecorder();
  #inbox: Inbox<ReceivedMessage | TensorMessage>;
  readonly #scanner: Scanner | undefined;
  /** What of the last lost session was not read: it was acknowledged, so it comes before anything else. */
  #formerInbox: Inbox<ReceivedMessage | TensorMessage> | undefined;
  #handlers: Map<number, RunningHandler> | undefined;
  #listeners: Map<keyof SessionEvents, Set<(event: never) => void>> | undefined;
  #flushing: { resolve: () => void; reject: (error: Error) => void }[] | undefined;
  #closing: ((result: CloseResult) => void)[] | undefined;
  #wire: Wire | undefined;
  /** Established, with everything loaded that the agreement needs. */
  #isReady = false;
  /** Both are made when they are first used: most sessions of a server wait, and many never ask. */
  #madeCoder: BodyCoder | undefined;
  #madeRequester: Requester | undefined;
  #madeReceiver: TensorReceiver | undefined;
  /** Server: tensors to others that are looked at before they go on. */
  #passage: TensorPassage | undefined;
  /** Events that arrived before the vocabulary was loaded; nothing overtakes them. */
  #early: SessionEvent[] | undefined;
  /** Resolves when the large message that is being coded, and all behind it, were handed over. */
  #coding: Promise<void> | undefined;
  /** Senders that wait for room, by stream. */
  #writable: Map<number, { readonly below: number; readonly resolve: () => void }[]> | undefined;
  #isPolling = false;
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
  /** Client: the server drains, and this session is left for the next one. */
  #handover: Handover | undefined;
  /** How long the server asked to wait before the next connection. */
  #retryAfterMs = 0;
  /** Messages that wait to be read and belong to the session before. */
  #inherited = 0;
  #isReading = true;

  constructor(options: EndpointOptions) {
    this.#options = options;
    this.core = options.core;
    this.#clock = options.clock;
    this.#logger = options.logger ?? SILENT_LOGGER;
    this.#inbox = this.#createInbox();
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
    return this.#wire !== undefined;
  }

  // --- what a driver reports

  /** @param token credentials of this connection. */
  handleConnected(wire: Wire, token?: string): void {
    this.#wire = wire;
    this.core.handleConnected(this.#clock.now(), token);
    this.pump();
  }

  /**
   * Server: the session is taken up on `wire`. The connection that carried it so far is cut off before
   * anything of its count is stated.
   */
  handleResumed(wire: Wire, offer: ResumeOffer): void {
    const now = this.#clock.now();
    const former = this.#wire;
    this.#wire = undefined;
    this.core.handleDisconnected(CloseCode.ABNORMAL, 'taken over', now);
    former?.close(CloseCode.TAKEN_OVER, 'a newer connection carries the session');
    this.#wire = wire;
    this.core.resume(offer, now);
    this.pump();
  }

  handleMessage(data: Uint8Array | string, wire: Wire | undefined = this.#wire): void {
    if (wire !== this.#wire) return;
    this.#stats.received(data.length);
    const now = this.#clock.now();
    this.core.handleMessage(data, now);
    this.pump();
    if (this.core.isFull) this.#pauseReading();
    // An acknowledgement is due sooner than the coarse clock strikes.
    if (!this.#isSoon) this.#tickSoon(now);
  }

  /** @param wire the connection that is gone; one that was replaced before says nothing new. */
  handleDisconnected(code: number, reason: string, wire: Wire | undefined = this.#wire): void {
    if (wire !== this.#wire) return;
    this.#wire = undefined;
    this.#isReading = true;
    this.core.handleDisconnected(code, reason, this.#clock.now());
    this.pump();
    this.#wantWire();
  }

  /** The socket has room again. */
  handleWritable(): void {
    this.pump();
  }

  /** One step of the coarse clock. */
  handleTick(): void {
    const now = this.#clock.now();
    this.#isSoon = false;
    if (!this.#isReading) this.core.handleUnread(now);
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
    this.#transmit();
    while (this.core.hasEvents) {
      for (let event = this.core.pollEvent(); event !== undefined; event = this.core.pollEvent()) {
        this.#handleEvent(event);
      }
      this.#transmit();
    }
    if (this.#disconnect !== undefined) {
      const { code, reason } = this.#disconnect;
      this.#disconnect = undefined;
      this.#wire?.close(code, reason);
      const { lifecycle } = this.core;
      const isLeft =
        lifecycle === LifecycleState.SUSPENDED ||
        lifecycle === LifecycleState.CLOSING ||
        lifecycle === LifecycleState.INITIAL;
      if (isLeft) {
        // A peer that does not answer will not take part in a closing handshake either, and a session
        // that is over has no use for what it would say.
        this.#wire = undefined;
        this.#wantWire();
      }
    }
    if (this.#handover !== undefined) this.#leaveWhenDone(this.#handover);
    if (this.#writable !== undefined) this.#wakeSenders();
    if (this.#flushing !== undefined && this.#isFlushed()) this.#resolveFlushing();
  }

  // --- Session

  get id(): string {
    return this.core.id ?? '';
  }
  get state(): SessionState {
    return this.core.state;
  }
  get negotiated(): Negotiated {
    if (this.core.negotiated !== undefined) return this.core.negotiated;
    throw new ProtocolError('session_closed', 'nothing is negotiated yet');
  }

  send(body: Body, options: SendOptions = {}): Promise<void> {
    if (this.#handover?.isClosing) return this.#handover.untilNext().then(() => this.send(body, options));
    try {
      options.signal?.throwIfAborted();
      const coder = this.#coder;
      const addressed = { ...options, agent: this.#recipient(options.to) };
      if (this.#scanner !== undefined && this.#statesSecurity)
        return this.#commitLater(async () => this.#withStatus(await encodeBody(body, coder, addressed)));
      // A message that takes long to code is coded in slices; later ones keep their place behind it.
      if (this.#coding === undefined) {
        const coded = encodeBody(body, coder, addressed);
        if (!(coded instanceof Promise)) return this.#commit(coded);
        return this.#commitLater(() => coded);
      }
      return this.#commitLater(() => encodeBody(body, coder, addressed));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async request(body: Body, options: RequestOptions = {}): Promise<Message> {
    return await this.#ask(body, options).whole();
  }

  stream(body: Body, options: RequestOptions = {}): ReplyStream {
    return this.#ask(body, options);
  }

  async sendTensor(tensor: TensorInput, options: SendTensorOptions = {}): Promise<void> {
    options.signal?.throwIfAborted();
    if (this.#handover?.isClosing) throw drainingError(this.#handover);
    const { role } = this.#options;
    const agent = this.#recipient(options.to);
    const sender = new TensorSender({
      core: this.core,
      requester: this.#requester,
      pump: () => this.pump(),
      written: (streamId) => this.#room(streamId, 1),
      onSent: (length) => this.#stats.sentTensor(length),
      sendText: (text) => this.send(text),
      agents: {
        source: role === 'client' ? (this.agentId ?? '') : '',
        target: role === 'server' ? (this.agentId ?? '') : '',
      },
    });
    await sender.send(tensor, agent, options);
  }

  async agents(): Promise<Agents> {
    return await askForAgents((query) => this.#ask(query, {}, DIRECTORY));
  }

  [Symbol.asyncIterator](): AsyncIterator<Message> {
    if (this.#formerInbox?.size === 0) this.#formerInbox = undefined;
    return (this.#formerInbox ?? this.#inbox)[Symbol.asyncIterator]();
  }

  async flush(): Promise<void> {
    await this.#coding;
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
    this.#listeners ??= new Map();
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  stats(): SessionStats {
    return this.#stats.snapshot({
      queuedBytes: this.core.queuedBytes,
      blockedOnCredit: this.core.isBlockedOnCredit,
      blockedOnRate: this.core.isPaced,
      openStreams: this.core.openStreams,
      roundTripMs: this.core.roundTripMs,
      lastSelection: this.#madeCoder?.lastSelection,
      context: this.core.contextUse,
    });
  }

  async close(): Promise<CloseResult> {
    await this.#coding;
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

  #commit(coded: CodedBody): Promise<void> {
    this.core.send(coded);
    this.#stats.sentBody(coded);
    this.#transmit();
    return this.#room(0);
  }

  /** Takes its place behind everything that is being coded. One message's error is no error of the next. */
  #commitLater(encode: () => CodedBody | Promise<CodedBody>): Promise<void> {
    const sent = (this.#coding ?? RESOLVED).then(encode).then((coded) => this.#commit(coded));
    const settled = sent.then(ignore, ignore);
    this.#coding = settled;
    void settled.then(() => {
      if (this.#coding === settled) this.#coding = undefined;
    });
    return sent;
  }

  /** DATA envelopes are the only ones that have a place for what a scan found. */
  get #statesSecurity(): boolean {
    return this.core.subprotocol === Subprotocol.JSON && this.negotiated.securityScanning;
  }

  async #withStatus(coded: CodedBody): Promise<CodedBody> {
    const message = createMessage({ ...coded, charge: 0 }, this.#coder);
    await this.#scanner?.judge(message, 'sent');
    return { ...coded, securityStatus: message.securityStatus };
  }

  #ask(body: Body, options: RequestOptions, agent = this.#recipient(options.to)): Reply {
    options.signal?.throwIfAborted();
    if (this.#handover?.isClosing) throw drainingError(this.#handover);
    this.#assertReady();
    const metadata = encodeMetadata(this.#traced(options.metadata), this.#options.limits.maxMetadataSize);
    return this.#requester.ask(encodeBody(body, this.#coder, { ...options, metadata, agent }), options);
  }

  #traced(metadata: Metadata | undefined): Metadata | undefined {
    const traceparent = metadata?.['traceparent'] === undefined ? this.#options.traceparent?.() : undefined;
    return traceparent === undefined ? metadata : { ...metadata, traceparent };
  }

  /** @throws {ProtocolError} `unsupported` at a server, `invalid_argument` for what is no agent's ID. */
  #recipient(to: string | undefined): string | undefined {
    if (to === undefined) return undefined;
    if (this.#options.role === 'server') {
      throw new ProtocolError('unsupported', "a server's session speaks to its own client, not to others");
    }
    if (isAgentId(to)) return to;
    throw new ProtocolError(
      'invalid_argument',
      'to: an agent is named by 1 to 128 of letters, digits, - and _',
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
    return this.#coder;
  }

  /** Answers a request that has arrived by a handler of the caller's. */
  async answer(streamId: number, body: ReceivedBody, handler: RequestHandler): Promise<void> {
    await this.#answer(streamId, createMessage(body, this.#coder), handler);
  }

  /** Messages and requests to others are looked at like those to this end. Returns whether it is one. */
  #passToRoute(event: SessionEvent): boolean {
    const { route } = this.#options;
    if (route === undefined) return false;
    if (event.type === 'piece') return this.#passTensor(event, route);
    if (event.type === 'cancel') this.#passage?.forget(event.streamId);
    const isOpening = event.type === 'message' || event.type === 'request';
    if (this.#scanner === undefined || !isOpening || event.body.agent === undefined) return route.take(event);
    const message = createMessage(event.body, this.#coder);
    const pass = () => void route.take(event);
    if (event.type === 'message') this.#scanner.takeMessage(message, pass);
    else this.#scanner.takeRequest(message, pass);
    return true;
  }

  #passTensor(event: Extract<SessionEvent, { type: 'piece' }>, route: EventRoute): boolean {
    const scanner = this.#scanner;
    if (scanner === undefined) return route.take(event);
    this.#passage ??= new TensorPassage({
      scan: (message, pass) => scanner.takeRequest(message, pass),
      pass: (held) => void route.take(held),
      refuse: (streamId, error) => this.perform(undefined, (core) => core.refuse(streamId, error)),
    });
    return this.#passage.take(event) || route.take(event);
  }

  async #answer(
    streamId: number,
    message: ReceivedMessage,
    handler: RequestHandler | undefined = this.#options.onRequest,
  ): Promise<void> {
    const running: RunningHandler = { controller: new AbortController(), runsToCompletion: false };
    this.#handlers ??= new Map();
    this.#handlers.set(streamId, running);
    const { core } = this;
    const coder = this.#coder;
    // The handler takes it now.
    if (core.consume(streamId, message.charge)) this.pump();
    const { limits } = this.#options;
    try {
      await answer(
        message,
        running.controller.signal,
        {
          respond: (coded) => this.#reply(coded, () => core.respond(streamId, coded)),
          chunk: (coded) => this.#reply(coded, () => core.chunk(streamId, coded)),
          end: () => this.#reply(undefined, () => core.end(streamId)),
          fail: (error) => this.#reply(undefined, () => core.fail(streamId, error)),
          isWanted: () => core.isWanted(streamId),
          runToCompletion: () => {
            running.runsToCompletion = true;
          },
          ready: () => this.#room(streamId),
        },
        {
          handler,
          session: this,
          coder,
          logger: this.#logger,
          maxMetadataSize: limits.maxMetadataSize,
          clock: this.#clock,
          batch: this.#options.batch,
        },
      );
    } catch (error) {
      // Nothing that one request does may end the process.
      const fields = { event: 'request.unanswered', session: this.id, err: loggable(error) };
      this.#logger.error(fields, 'a request could not be answered');
      core.fail(streamId, undefined);
      this.pump();
    } finally {
      // A session that was begun anew counts its streams from the beginning.
      if (this.#handlers?.get(streamId) === running) this.#handlers.delete(streamId);
    }
  }

  #reply(coded: CodedBody | undefined, command: () => void): void {
    command();
    if (coded !== undefined) this.#stats.sentBody(coded);
    this.pump();
  }

  get #receiver(): TensorReceiver {
    if (this.#madeReceiver !== undefined) return this.#madeReceiver;
    // What is read late belongs to the session that it came by.
    const { core } = this;
    const { transfers = 'assemble', limits } = this.#options;
    this.#madeReceiver = new TensorReceiver({
      mode: transfers,
      limits,
      admit: (message, deliver) => {
        if (this.#scanner === undefined) deliver();
        else this.#scanner.takeRequest(message, deliver);
      },
      deliver: (message) => this.#inbox.push(message),
      consume: (streamId, charge) => {
        if (core.consume(streamId, charge)) this.pump();
      },
      accept: (streamId) => {
        core.respond(streamId, plainBody(new Uint8Array(0)));
        this.pump();
      },
      refuse: (streamId, error) => {
        core.refuse(streamId, error);
        this.pump();
      },
    });
    return this.#madeReceiver;
  }

  /** @throws {ProtocolError} `session_closed`. */
  get #coder(): BodyCoder {
    this.#assertReady();
    if (this.#madeCoder === undefined) {
      const { limits, security } = this.#options;
      const { algorithms, encoding } = this.negotiated;
      this.#madeCoder = createBodyCoder({
        algorithms,
        encoding: encoding === null ? undefined : getEncoding(encoding),
        limits,
        security,
        context: this.#contextOptions(),
        yield: this.#clock.yield,
      });
    }
    return this.#madeCoder;
  }

  #contextOptions(): BodyCoderOptions['context'] {
    const { role, limits } = this.#options;
    if (this.core.contextUse === undefined) return undefined;
    return {
      maxMessageSize: maxMessageSize(role, this.negotiated, limits),
      onCoded: (body) => this.#stats.sentBody(body),
    };
  }

  /** @throws {ProtocolError} `session_closed`. */
  get #requester(): Requester {
    this.#madeRequester ??= new Requester({
      core: this.core,
      clock: this.#clock,
      coder: this.#coder,
      onSent: (body) => this.#stats.sentBody(body),
      pump: () => this.pump(),
    });
    return this.#madeRequester;
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

  /** Without credit only the connection itself can hold the peer back. */
  #pauseReading(): void {
    if (!this.#isReading || this.#wire?.pause === undefined) return;
    this.#isReading = false;
    this.#wire.pause();
  }

  #resumeReading(): void {
    this.#isReading = true;
    this.#wire?.resume?.();
  }

  #transmit(): void {
    const wire = this.#wire;
    if (wire === undefined) return;
    let isCurrent = false;
    for (let room = SOCKET_HIGH_WATER - wire.bufferedAmount; room > 0; ) {
      const frame = this.core.pollTransmit();
      if (frame === undefined) {
        if (isCurrent || !this.core.isPaced) return;
        // What is sent between two events finds the clock of the last one.
        isCurrent = true;
        this.core.handleTimeout(this.#clock.now());
        this.#clock.soon(this);
        continue;
      }
      room -= frame.length;
      this.#stats.sent(frame.length);
      wire.send(frame);
    }
    if (this.core.hasOutput) this.#pollForRoom();
  }

  /** Not every socket tells when it has drained. */
  #pollForRoom(): void {
    if (this.#isPolling) return;
    this.#isPolling = true;
    this.#clock.after(DRAIN_POLL_MS, () => {
      this.#isPolling = false;
      this.pump();
    });
  }

  #isFlushed(): boolean {
    const { core } = this;
    return core.queuedBytes === 0 && !core.hasOutput && core.framesUnconfirmed === 0;
  }

  /** Resolves when fewer than `below` bytes wait on a stream. */
  #room(streamId: number, below = STREAM_HIGH_WATER): Promise<void> {
    const { core } = this;
    if (core.queuedBytes < below || core.queuedOn(streamId) < below) return RESOLVED;
    if (this.#hasEnded) return RESOLVED;
    return new Promise((resolve) => {
      this.#writable ??= new Map();
      const waiting = this.#writable.get(streamId);
      if (waiting === undefined) this.#writable.set(streamId, [{ below, resolve }]);
      else waiting.push({ below, resolve });
    });
  }

  #wakeSenders(): void {
    const writable = this.#writable;
    if (writable === undefined) return;
    for (const [streamId, waiting] of writable) {
      const queued = this.#hasEnded ? 0 : this.core.queuedOn(streamId);
      const others = waiting.filter(({ below }) => queued >= below);
      if (others.length === waiting.length) continue;
      if (others.length === 0) writable.delete(streamId);
      else writable.set(streamId, others);
      for (const { below, resolve } of waiting) if (queued < below) resolve();
    }
    if (writable.size === 0) this.#writable = undefined;
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
          this.#abortHandlers(new ProtocolError('session_closed', 'the session closes'));
        if (event.state === 'closing' && this.#handover !== undefined) this.#handover.isClosing = true;
        // Whether this is the end for good is only known when it is known why.
        if (event.state !== 'closed' || this.#options.renew === undefined) this.#tellState(event.state);
        // A session that was taken up again has everything it needs.
        if (event.state === 'established' && !this.#isReady) this.#prepare();
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
        if (this.#options.renew !== undefined) this.#handover ??= new Handover(event);
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
        else this.#handleData(event);
    }
  }

  #handleData(event: SessionEvent): void {
    if ('body' in event) this.#stats.receivedBody(event.body);
    if (event.type === 'piece' && event.piece.offset === 0) {
      this.#stats.receivedTensor(event.piece.totalLength);
    }
    if (this.#passToRoute(event)) return;
    switch (event.type) {
      case 'message':
        if (event.body.agent === DELIVERY) return this.#handleReport(event.body);
        return this.#takeMessage(createMessage(event.body, this.#coder));
      case 'request':
        return this.#takeRequest(event.streamId, createMessage(event.body, this.#coder));
      case 'piece':
        return this.#receiver.handlePiece(event.streamId, event.piece);
      case 'part':
        return this.#requester.handlePart(event.streamId, event.body);
      case 'response':
        return this.#requester.handleResponse(event.streamId, event.body);
      case 'end':
        return this.#requester.handleEnd(event.streamId);
      case 'failure':
        return this.#requester.handleEnd(event.streamId, event.error);
      case 'cancel':
        this.#madeReceiver?.handleCancel(event.streamId);
        this.#handlers
          ?.get(event.streamId)
          ?.controller.abort(new ProtocolError('cancelled', 'the requester cancelled', { side: 'remote' }));
    }
  }

  #takeMessage(message: ReceivedMessage): void {
    if (this.#scanner === undefined) this.#inbox.push(message);
    else this.#scanner.takeMessage(message, () => this.#inbox.push(message));
  }

  #takeRequest(streamId: number, message: ReceivedMessage): void {
    if (this.#scanner === undefined) this.#startRequest(streamId, message);
    else this.#scanner.takeRequest(message, () => this.#startRequest(streamId, message));
  }

  #startRequest(streamId: number, message: ReceivedMessage): void {
    // It may have been cancelled while it was looked at.
    if (!this.core.isWanted(streamId)) this.core.end(streamId);
    else void this.#answer(streamId, message);
  }

  /** Content that goes no further ends the session, and its sender is told why. */
  #block(message: string): void {
    const refusal = { code: RejectCode.SECURITY_POLICY, message, retryable: false };
    this.core.reject(refusal, CloseCode.FORBIDDEN, this.#clock.now());
    this.pump();
  }

  #handleReport(body: ReceivedBody): void {
    try {
      const report = decodeUndeliverable(createMessage(body, this.#coder).text, this.#options.limits);
      this.#notify('undelivered', report);
    } catch (error) {
      const fields = { event: 'report.unreadable', session: this.id, err: loggable(error) };
      this.#logger.warn(fields, 'a report of delivery could not be read');
    }
    if (this.core.consume(0, body.charge)) this.pump();
  }

  /** Loads what the agreement needs; what arrives meanwhile waits. */
  #prepare(): void {
    const { algorithms, encoding } = this.negotiated;
    const hasContext = this.core.contextUse !== undefined;
    const isLoaded =
      (encoding === null || getEncoding(encoding) !== undefined) && (!hasContext || platform.isZstdLoaded());
    // A server has loaded everything before it listens.
    if (this.#options.role === 'server' && isLoaded) {
      this.#start();
      return;
    }
    this.#early = [];
    // What is coded in context is decoded on arrival, which takes what is being loaded.
    if (hasContext) this.core.holdFrames();
    const codecs: LoadableCodec[] = hasContext ? [...algorithms, 'CONTEXT'] : [...algorithms];
    Promise.all([loadCodecs(codecs), encoding === null ? undefined : loadEncoding(encoding)]).then(
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
    this.#takeEarly();
    this.core.releaseFrames(this.#clock.now());
    this.pump();
  }

  #takeEarly(): void {
    const early = this.#early ?? [];
    this.#early = undefined;
    for (const event of early) {
      if (event.type === 'ended') this.#end(event.error);
      else if (this.#isReady) this.#handleData(event);
    }
  }

  #createInbox(): Inbox<ReceivedMessage | TensorMessage> {
    const inbox: Inbox<ReceivedMessage | TensorMessage> = new Inbox({
      onTake: (message) => {
        if (message instanceof TensorMessage) message.handleTaken();
        // What is read late gives no credit to the session that has come since.
        if (inbox !== this.#inbox) return;
        if (this.#inherited > 0) {
          this.#inherited--;
          return;
        }
        if (this.core.consume(0, message.charge)) this.pump();
        if (!this.#isReading && !this.core.isFull) this.#resumeReading();
      },
    });
    return inbox;
  }

  /** Leaves a server that drains as soon as nothing is under way any more. */
  #leaveWhenDone(handover: Handover): void {
    if (handover.isClosing || this.core.state !== 'established' || this.core.openStreams > 0) return;
    if (this.#coding !== undefined || !this.#isFlushed()) return;
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
    const error = handover === undefined ? reason : handover.lossOf(reason, this.#madeRequester?.size ?? 0);
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
    this.#failWaiting(error);
    this.#wakeSenders();
    const unacknowledged = this.core.framesUnconfirmed + this.core.undelivered().notSent.length;
    for (const resolve of this.#closing ?? []) resolve({ unacknowledged });
    this.#closing = undefined;
    // A reader goes on with the next session where nothing is missing in between.
    if (isLeft && renewed !== undefined) {
      this.#inherited = this.#inbox.size;
      return this.#renew(renewed);
    }
    if (renewed === undefined) this.#tellState('closed');
    this.#inbox.end(error);
    if (error !== undefined) this.#notify('error', error);
    if (error?.code === 'session_lost') {
      this.#notify('reset', { reason: error.message, ...this.core.undelivered() });
    }
    if (renewed === undefined) {
      this.#handover?.fail(error ?? sessionClosed());
      this.#options.onEnded?.(error);
      return;
    }
    this.#inherited = 0;
    if (this.#inbox.size > 0) this.#formerInbox = this.#inbox;
    this.#inbox = this.#createInbox();
    this.#renew(renewed);
  }

  /** Whatever waits for the peer waits no longer. */
  #failWaiting(error: ProtocolError | undefined): void {
    const [requester, receiver, flushing] = [this.#madeRequester, this.#madeReceiver, this.#flushing];
    // Most sessions end with nothing under way, and an error costs more than the rest of their end.
    const isIdle = requester === undefined && receiver === undefined;
    if (isIdle && this.#handlers === undefined && flushing === undefined) return;
    const failure = error ?? sessionClosed();
    requester?.end(failure);
    receiver?.end(failure);
    this.#abortHandlers(failure);
    for (const { reject } of flushing ?? []) reject(failure);
    this.#flushing = undefined;
  }

  #resolveFlushing(): void {
    for (const { resolve } of this.#flushing ?? []) resolve();
    this.#flushing = undefined;
  }

  #abortHandlers(reason: ProtocolError): void {
    for (const { controller, runsToCompletion } of this.#handlers?.values() ?? []) {
      if (!runsToCompletion) controller.abort(reason);
    }
  }

  /** Goes on with a new session; on the connection that the server has begun one on, if it has. */
  #renew(core: SessionCore): void {
    this.#isRenewed = true;
    this.core = core;
    this.#tellState(core.state);
    if (this.#handover !== undefined) this.#handover.isClosing = true;
    this.#isReady = false;
    this.#madeCoder = undefined;
    this.#madeRequester = undefined;
    this.#madeReceiver = undefined;
    this.#handlers = undefined;
    const accept = this.#superseding;
    this.#superseding = undefined;
    if (accept === undefined || this.#wire === undefined) return;
    const now = this.#clock.now();
    core.handleConnected(now);
    // The HELLO that was answered is the one that the lost session said.
    core.pollTransmit();
    core.handleMessage(accept, now);
  }

  #notify<Name extends keyof SessionEvents>(name: Name, event: SessionEvents[Name]): void {
    for (const listener of this.#listeners?.get(name) ?? []) {
      try {
        (listener as (event: SessionEvents[Name]) => void)(event);
      } catch (error) {
        const fields = { event: 'listener.failed', session: this.core.id, err: loggable(error) };
        this.#logger.error(fields, `a listener of "${name}" threw`);
      }
    }
  }
}

function sessionClosed(): ProtocolError {
  return new ProtocolError('session_closed', 'the session was closed', { side: 'remote' });
}
