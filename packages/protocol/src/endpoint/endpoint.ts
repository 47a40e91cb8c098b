import type { AvpInput } from '../avp/frame.js';
import { loadCodecs } from '../codec/load.js';
import type { M2MSecurity } from '../codec/m2m-security.js';
import type { Algorithm, EncodingName } from '../constants.js';
import { ProtocolError, toProtocolError } from '../errors.js';
import type { Limits } from '../limits.js';
import type { ReceivedBody } from '../link/assembly.js';
import { LinkCodec } from '../link/header.js';
import { type CodedBody, plainBody } from '../link/link.js';
import { CloseReason } from '../messages.js';
import type { Clock } from '../platform/clock.js';
import type { Negotiated, SessionCore, SessionEvent, SessionState } from '../session-core.js';
import { getEncoding, loadEncoding } from '../tokenizer/load.js';
import { type BodyCoder, createBodyCoder } from './body-coder.js';
import { createInbox, type Inbox } from './inbox.js';
import { createMessage, type Message } from './message.js';
import { encodeMetadata, type Metadata } from './metadata.js';
import { type Body, encodeBody } from './part.js';
import { type Logger, SILENT_LOGGER, type Wire } from './ports.js';
import { createReply, type Reply, type ReplyStream } from './reply.js';
import { answer, type RequestHandler } from './responder.js';
import { createStats, type SessionStats, type StatsRecorder } from './stats.js';

export interface SendOptions {
  /** @default 'auto': the smallest of the negotiated codecs that give the content back exactly */
  readonly algorithm?: Algorithm | 'auto' | undefined;
  /** Never a base for coding later messages. @default false */
  readonly secret?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface RequestOptions extends SendOptions {
  /** @default none */
  readonly timeoutMs?: number | undefined;
  readonly metadata?: Metadata | undefined;
}

export interface SendTensorOptions {
  readonly signal?: AbortSignal | undefined;
}

export interface CloseResult {
  /** Frames whose arrival the peer has not confirmed; 0 after an orderly close. */
  readonly unacknowledged: number;
}

/** What `reset` tells after a session was lost. */
export interface SessionReset {
  readonly reason: string;
}

export interface SessionEvents {
  state: SessionState;
  reset: SessionReset;
  error: ProtocolError;
}

/** A session as its user sees it, at both ends. */
export interface Session extends AsyncIterable<Message>, AsyncDisposable {
  readonly id: string;
  readonly state: SessionState;
  readonly negotiated: Negotiated;
  /** Server: who authenticated. */
  readonly principal: string | undefined;
  readonly agentId: string | undefined;

  /**
   * Sends a one-way message. Resolves when it is accepted for delivery, which waits while too much is
   * under way already.
   *
   * @throws {ProtocolError} `session_closed`, `message_too_large`, `unrepresentable`, `unsupported`.
   */
  send(body: Body, options?: SendOptions): Promise<void>;
  /**
   * Asks and waits for the whole reply; text parts arrive joined.
   *
   * @throws {ProtocolError | RequestError} what the far end failed with, `timeout`, `session_lost`,
   * `unsupported` without the link extension; the signal's reason after an abort.
   */
  request(body: Body, options?: RequestOptions): Promise<Message>;
  /** Asks and hands out the reply part by part. Sent at once; leaving the loop cancels. */
  stream(body: Body, options?: RequestOptions): ReplyStream;
  /** Sends a tensor; resolves when the peer has verified the whole. */
  sendTensor(tensor: AvpInput, options?: SendTensorOptions): Promise<void>;
  on<Name extends keyof SessionEvents>(
    name: Name,
    listener: (event: SessionEvents[Name]) => void,
  ): () => void;
  stats(): SessionStats;
  close(): Promise<CloseResult>;
}

export interface EndpointOptions {
  readonly core: SessionCore;
  readonly clock: Clock;
  readonly limits: Limits;
  readonly role: 'client' | 'server';
  readonly onRequest?: RequestHandler | undefined;
  readonly security?: M2MSecurity | undefined;
  readonly logger?: Logger | undefined;
  /** Server: answers a HELLO with the core's `accept` or `reject`. */
  readonly onHello?: ((event: Extract<SessionEvent, { type: 'hello' }>) => void) | undefined;
  /** The session was accepted and everything that it needs is loaded. */
  readonly onReady?: (() => void) | undefined;
  /** The session is over; called once. */
  readonly onEnded?: ((error: ProtocolError | undefined) => void) | undefined;
}

/** Bytes handed to the socket ahead of time; more would let small messages wait behind large ones. */
const SOCKET_HIGH_WATER = 256 * 1024;
/** Bytes that may wait inside the session before `send` waits. */
const QUEUE_HIGH_WATER = 1024 * 1024;
/** How often a socket without a drain event is asked whether it has room again. */
const DRAIN_POLL_MS = 4;

const RESOLVED = Promise.resolve();

/** Drives a session core over a wire and gives its user promises and iterators. */
export class Endpoint implements Session {
  principal: string | undefined;
  agentId: string | undefined;
  readonly core: SessionCore;
  readonly #options: EndpointOptions;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #stats: StatsRecorder = createStats();
  readonly #inbox: Inbox<Message>;
  readonly #replies = new Map<number, Reply>();
  readonly #handlers = new Map<number, AbortController>();
  readonly #listeners = new Map<keyof SessionEvents, Set<(event: never) => void>>();
  readonly #closing = new Set<(result: CloseResult) => void>();
  #wire: Wire | undefined;
  #coder: BodyCoder | undefined;
  /** Events that arrived before the vocabulary was loaded; nothing overtakes them. */
  #early: SessionEvent[] | undefined;
  #writable: (() => void)[] = [];
  #isPolling = false;
  #disconnect: { readonly code: number; readonly reason: string } | undefined;
  #endedWith: { readonly error: ProtocolError | undefined } | undefined;

  constructor(options: EndpointOptions) {
    this.#options = options;
    this.core = options.core;
    this.#clock = options.clock;
    this.#logger = options.logger ?? SILENT_LOGGER;
    this.#inbox = createInbox();
  }

  // --- what a driver reports

  handleConnected(wire: Wire): void {
    this.#wire = wire;
    this.core.handleConnected(this.#clock.now());
    this.pump();
  }

  handleMessage(data: Uint8Array | string): void {
    this.#stats.received(data.length);
    this.core.handleMessage(data, this.#clock.now());
    this.pump();
  }

  handleDisconnected(code: number, reason: string): void {
    this.#wire = undefined;
    this.core.handleDisconnected(code, reason, this.#clock.now());
    this.pump();
  }

  /** The socket has room again. */
  handleWritable(): void {
    this.pump();
  }

  /** One step of the coarse clock. */
  handleTick(): void {
    const now = this.#clock.now();
    if (now < this.core.nextTimeout()) return;
    this.core.handleTimeout(now);
    this.pump();
  }

  /** Applies everything that the core has to say. */
  pump(): void {
    let busy = true;
    while (busy) {
      busy = this.#transmit();
      for (let event = this.core.pollEvent(); event !== undefined; event = this.core.pollEvent()) {
        busy = true;
        this.#handleEvent(event);
      }
    }
    if (this.#disconnect !== undefined) {
      const { code, reason } = this.#disconnect;
      this.#disconnect = undefined;
      this.#wire?.close(code, reason);
    }
    if (this.#writable.length > 0 && this.#hasRoom()) {
      const waiting = this.#writable;
      this.#writable = [];
      for (const resolve of waiting) resolve();
    }
  }

  // --- Session

  get id(): string {
    return this.core.id ?? '';
  }
  get state(): SessionState {
    return this.core.state;
  }
  get negotiated(): Negotiated {
    if (this.core.negotiated === undefined)
      throw new ProtocolError('session_closed', 'nothing is negotiated yet');
    return this.core.negotiated;
  }

  send(body: Body, options: SendOptions = {}): Promise<void> {
    try {
      options.signal?.throwIfAborted();
      const coded = encodeBody(body, this.#ready(), options);
      this.core.send(coded);
      this.#stats.sentBody(coded);
    } catch (error) {
      return Promise.reject(error);
    }
    this.pump();
    return this.#hasRoom() ? RESOLVED : this.#room();
  }

  async request(body: Body, options: RequestOptions = {}): Promise<Message> {
    return await this.#open(body, options, (reply) => reply.whole());
  }

  stream(body: Body, options: RequestOptions = {}): ReplyStream {
    return this.#open(body, options, (reply) => reply);
  }

  async sendTensor(tensor: AvpInput, options: SendTensorOptions = {}): Promise<void> {
    options.signal?.throwIfAborted();
    const reply = this.#ask(this.#ready().encodeTensor(tensor), options);
    await reply.whole();
  }

  [Symbol.asyncIterator](): AsyncIterator<Message> {
    return this.#inbox[Symbol.asyncIterator]();
  }

  on<Name extends keyof SessionEvents>(
    name: Name,
    listener: (event: SessionEvents[Name]) => void,
  ): () => void {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  stats(): SessionStats {
    return this.#stats.snapshot({
      queuedBytes: this.core.queuedBytes,
      openStreams: this.core.openStreams,
      roundTripMs: this.core.roundTripMs,
      lastSelection: this.#coder?.lastSelection,
    });
  }

  close(): Promise<CloseResult> {
    const reason = this.#options.role === 'client' ? CloseReason.CLIENT_SHUTDOWN : CloseReason.NORMAL;
    return this.shutdown(reason, '');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Closes with a reason of its own, such as the server's shutdown. */
  shutdown(reason: CloseReason, message: string): Promise<CloseResult> {
    if (this.#endedWith !== undefined) return Promise.resolve({ unacknowledged: 0 });
    return new Promise((resolve) => {
      this.#closing.add(resolve);
      this.core.close(reason, message, this.#clock.now());
      this.pump();
    });
  }

  /** Ends the session at once with the error's close code. */
  abort(error: ProtocolError): void {
    this.core.abort(error, this.#clock.now());
    this.pump();
  }

  // --- requests

  #open<T>(body: Body, options: RequestOptions, use: (reply: Reply) => T): T {
    options.signal?.throwIfAborted();
    const metadata = encodeMetadata(options.metadata, this.#options.limits.maxMetadataSize);
    const coded = encodeBody(body, this.#ready(), { ...options, metadata });
    return use(this.#ask(coded, options));
  }

  /** Everything up to the frame in the queue is synchronous, so the order of calls is the order sent. */
  #ask(coded: CodedBody, { signal, timeoutMs }: RequestOptions): Reply {
    const id = this.core.request(coded);
    this.#stats.sentBody(coded);
    const reply = createReply(id, this.#ready(), () => {
      this.core.cancel(id);
      this.pump();
    });
    this.#replies.set(id, reply);
    const release: (() => void)[] = [];
    if (timeoutMs !== undefined) {
      const expire = () => reply.abort(new ProtocolError('timeout', `no reply within ${timeoutMs} ms`));
      release.push(this.#clock.after(timeoutMs, expire));
    }
    if (signal !== undefined) {
      const onAbort = () => reply.abort(signal.reason);
      signal.addEventListener('abort', onAbort, { once: true });
      release.push(() => signal.removeEventListener('abort', onAbort));
    }
    if (release.length > 0) {
      this.#releases.set(id, () => {
        for (const free of release) free();
      });
    }
    this.pump();
    return reply;
  }
  readonly #releases = new Map<number, () => void>();

  #finishReply(streamId: number): Reply | undefined {
    const reply = this.#replies.get(streamId);
    this.#replies.delete(streamId);
    this.#releases.get(streamId)?.();
    this.#releases.delete(streamId);
    return reply;
  }

  async #answer(streamId: number, body: ReceivedBody): Promise<void> {
    const controller = new AbortController();
    this.#handlers.set(streamId, controller);
    const write = (command: (coded: CodedBody) => void) => (coded: CodedBody) => {
      command(coded);
      this.#stats.sentBody(coded);
      this.pump();
    };
    const { limits, onRequest } = this.#options;
    const coder = this.#ready();
    try {
      await answer(
        createMessage(body, coder),
        controller.signal,
        {
          respond: write((coded) => this.core.respond(streamId, coded)),
          chunk: write((coded) => this.core.chunk(streamId, coded)),
          end: () => {
            this.core.end(streamId);
            this.pump();
          },
          fail: (error) => {
            this.core.fail(streamId, error);
            this.pump();
          },
          isWanted: () => this.core.isWanted(streamId),
          ready: () => (this.#hasRoom() ? RESOLVED : this.#room()),
        },
        {
          handler: onRequest,
          session: this,
          coder,
          logger: this.#logger,
          maxMetadataSize: limits.maxMetadataSize,
        },
      );
    } finally {
      this.#handlers.delete(streamId);
    }
  }

  /** A tensor that was sent as a request is verified, handed to the reader and confirmed. */
  #takeTransfer(streamId: number, body: ReceivedBody): void {
    const message = createMessage(body, this.#ready());
    try {
      void message.tensor;
    } catch (error) {
      this.core.fail(streamId, toProtocolError(error, 'internal', 'the tensor could not be verified'));
      return;
    }
    this.#inbox.push(message);
    this.core.respond(streamId, plainBody(new Uint8Array(0)));
  }

  // --- effects of the core

  #transmit(): boolean {
    let busy = false;
    while (this.#wire !== undefined && this.#wire.bufferedAmount < SOCKET_HIGH_WATER) {
      const frame = this.core.pollTransmit();
      if (frame === undefined) return busy;
      busy = true;
      this.#stats.sent(frame.length);
      this.#wire.send(frame);
    }
    if (this.#wire !== undefined && this.core.queuedBytes > 0) this.#pollForRoom();
    return busy;
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

  #hasRoom(): boolean {
    return this.core.queuedBytes < QUEUE_HIGH_WATER;
  }

  #room(): Promise<void> {
    return new Promise((resolve) => this.#writable.push(resolve));
  }

  #ready(): BodyCoder {
    if (this.#coder !== undefined) return this.#coder;
    throw new ProtocolError('session_closed', `the session is ${this.state}; nothing can be sent`);
  }

  #handleEvent(event: SessionEvent): void {
    switch (event.type) {
      case 'hello':
        this.#options.onHello?.(event);
        return;
      case 'state':
        this.#notify('state', event.state);
        if (event.state === 'established') this.#prepare();
        return;
      case 'warning':
        this.#logger.warn({ session: this.core.id }, event.message);
        return;
      case 'disconnect':
        this.#disconnect ??= { code: event.closeCode, reason: event.reason };
        return;
      default:
        if (this.#early !== undefined) this.#early.push(event);
        else this.#handleLate(event);
    }
  }

  /** Events that need the session's codecs. */
  #handleLate(event: SessionEvent): void {
    switch (event.type) {
      case 'message':
        this.#stats.receivedBody(event.body);
        this.#inbox.push(createMessage(event.body, this.#ready()));
        return;
      case 'request':
        this.#stats.receivedBody(event.body);
        if (event.body.codec === LinkCodec.AVP) this.#takeTransfer(event.streamId, event.body);
        else void this.#answer(event.streamId, event.body);
        return;
      case 'part':
        this.#stats.receivedBody(event.body);
        this.#guard(event.streamId, (reply) => reply.handlePart(event.body));
        return;
      case 'response':
        this.#stats.receivedBody(event.body);
        this.#guard(event.streamId, (reply) => reply.handleResponse(event.body));
        this.#finishReply(event.streamId);
        return;
      case 'end':
        this.#finishReply(event.streamId)?.handleEnd();
        return;
      case 'failure':
        this.#finishReply(event.streamId)?.handleEnd(event.error);
        return;
      case 'cancel':
        this.#handlers
          .get(event.streamId)
          ?.abort(new ProtocolError('cancelled', 'the requester cancelled', { side: 'remote' }));
        return;
      case 'ended':
        this.#end(event.error);
    }
  }

  /** A part that cannot be decoded fails its own reply and nothing else. */
  #guard(streamId: number, take: (reply: Reply) => void): void {
    const reply = this.#replies.get(streamId);
    if (reply === undefined) return;
    try {
      take(reply);
    } catch (error) {
      reply.abort(error);
    }
  }

  /** Loads what the agreement needs; what arrives meanwhile waits. */
  #prepare(): void {
    const { algorithms, encoding } = this.negotiated;
    const loaded = encoding === null ? undefined : getEncoding(encoding);
    if (this.#options.role === 'server' && (encoding === null || loaded !== undefined)) {
      this.#start(loaded);
      return;
    }
    this.#early = [];
    void this.#load(algorithms, encoding).then(
      () => this.#start(encoding === null ? undefined : getEncoding(encoding)),
      (error: unknown) =>
        this.abort(toProtocolError(error, 'internal', 'loading the codecs of the session failed')),
    );
  }

  async #load(algorithms: readonly Algorithm[], encoding: EncodingName | null): Promise<void> {
    await Promise.all([loadCodecs(algorithms), encoding === null ? undefined : loadEncoding(encoding)]);
  }

  #start(encoding: ReturnType<typeof getEncoding>): void {
    const { limits, security, onReady } = this.#options;
    this.#coder = createBodyCoder({ algorithms: this.negotiated.algorithms, encoding, limits, security });
    const early = this.#early ?? [];
    this.#early = undefined;
    onReady?.();
    for (const event of early) this.#handleLate(event);
    this.pump();
  }

  #end(error: ProtocolError | undefined): void {
    if (this.#endedWith !== undefined) return;
    this.#endedWith = { error };
    const failure =
      error ?? new ProtocolError('session_closed', 'the session was closed', { side: 'remote' });
    for (const streamId of [...this.#replies.keys()]) this.#finishReply(streamId)?.handleEnd(failure);
    for (const controller of this.#handlers.values()) controller.abort(failure);
    this.#inbox.end(error);
    for (const resolve of this.#writable) resolve();
    this.#writable = [];
    for (const resolve of this.#closing)
      resolve({ unacknowledged: error === undefined ? 0 : this.core.framesUnconfirmed });
    this.#closing.clear();
    if (error !== undefined) this.#notify('error', error);
    if (error?.code === 'session_lost') this.#notify('reset', { reason: error.message });
    this.#options.onEnded?.(error);
  }

  #notify<Name extends keyof SessionEvents>(name: Name, event: SessionEvents[Name]): void {
    for (const listener of this.#listeners.get(name) ?? []) {
      try {
        (listener as (event: SessionEvents[Name]) => void)(event);
      } catch (error) {
        this.#logger.error({ err: error, session: this.core.id }, `a listener of "${name}" threw`);
      }
    }
  }
}
