import { Extension, Subprotocol } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { MAX_ASSEMBLED_SIZE } from '../base/limits.js';
import type { Reservation, SessionMemory } from '../base/memory.js';
import { type BodyCoder, type BodyCoderOptions, createBodyCoder } from '../codec/auto/coder.js';
import type { ReceivedBody } from '../codec/body.js';
import type { Negotiated } from '../control/agreement.js';
import { DELIVERY } from '../link/addressing.js';
import type { BodyToSend } from '../link/link.js';
import type { Clock } from '../platform/clock.js';
import { maxMessageSize } from '../session/body-rules.js';
import type { SessionCore, SessionEvent } from '../session/types.js';
import { getEncoding } from '../tokenizer/load.js';
import { encodeUndeliverable } from './agents/delivery.js';
import type { EndpointOptions } from './endpoint-options.js';
import { type Crashable, GuardedClock, guardLater } from './guard.js';
import type { Mailbox } from './mailbox.js';
import { Backpressure } from './messages/backpressure.js';
import { CodingOrder } from './messages/coding-order.js';
import { Intake, type IntakeEvent } from './messages/intake.js';
import { createMessage, type ReceivedMessage } from './messages/message.js';
import { encodeMetadata, type Metadata } from './messages/metadata.js';
import { type Body, encodeBody } from './messages/part.js';
import { Passage } from './passage.js';
import type { Logger } from './ports.js';
import { Handlers } from './requests/handlers.js';
import type { Reply } from './requests/reply.js';
import { Requester } from './requests/requester.js';
import type { RequestHandler } from './requests/responder.js';
import type { Scanner } from './scan.js';
import type { RequestOptions, SendOptions, SendTensorOptions, Session } from './session.js';
import type { StatsRecorder } from './stats.js';
import type { TensorInput } from './tensors/tensor.js';
import { Tensors } from './tensors/tensors.js';
import { isTurnOver } from './turn.js';

export interface ExchangeOptions {
  readonly core: SessionCore;
  readonly negotiated: Negotiated;
  /** The session as its user has it, across the cores that carry it one after the other. */
  readonly session: Session & Crashable;
  /** This end's or the client's own name. */
  readonly agentId: string | undefined;
  readonly endpoint: EndpointOptions;
  readonly logger: Logger;
  readonly stats: StatsRecorder;
  readonly mailbox: Mailbox;
  readonly scanner: Scanner | undefined;
  /** Commands were given to the core, which has nothing to say about them. */
  readonly transmit: () => void;
  /** Commands were given to the core. */
  readonly pump: () => void;
  /** The server reports that a message could not be delivered. */
  readonly onReport: (message: ReceivedMessage) => void;
  /** What the session holds. */
  readonly memory: () => SessionMemory;
}

/**
 * What is sent, asked and answered by one session core from the moment that everything it needs is loaded.
 * All rooms are made when they are first used: most sessions of a server wait, and many never ask.
 */
export class Exchange {
  readonly #options: ExchangeOptions;
  readonly #core: SessionCore;
  /** Timers of user code's making, too: timeouts of requests, batches of parts. */
  readonly #clock: Clock;
  /** Server: the way of what is for others. */
  readonly #passage: Passage | undefined;
  #madeIntake: Intake | undefined;
  readonly #backpressure = new Backpressure();
  readonly #coding = new CodingOrder();
  #madeCoder: BodyCoder | undefined;
  #madeRequester: Requester | undefined;
  #madeTensors: Tensors | undefined;
  #madeHandlers: Handlers | undefined;
  #hasEnded = false;
  #hasDropped = false;
  #hasRefused = false;

  constructor(options: ExchangeOptions) {
    this.#options = options;
    this.#core = options.core;
    this.#clock = new GuardedClock(options.endpoint.clock, options.session);
    const { route } = options.endpoint;
    if (route === undefined) return;
    this.#passage = new Passage({
      route,
      scanner: options.scanner,
      session: options.session,
      coder: () => this.coder,
      refuse: (streamId, error) => this.#refuse(streamId, error),
      drop: (event, reservation) => {
        if ('body' in event) this.#requester.handlePart(event.streamId, event.body, reservation);
      },
    });
  }

  /** Resolves when everything that is being coded was handed over; `undefined` where nothing is. */
  get coding(): Promise<void> | undefined {
    return this.#coding.pending;
  }

  /** Replies that are not complete. */
  get openReplies(): number {
    return this.#madeRequester?.size ?? 0;
  }

  get lastSelection(): BodyCoder['lastSelection'] {
    return this.#madeCoder?.lastSelection;
  }

  // --- what is sent

  /** See `Session.send`; `agent` is whom it is for, where that is not the other end. */
  send(body: Body, options: SendOptions, agent: string | undefined): Promise<void> {
    const { coder } = this;
    const addressed = { ...options, agent };
    if (this.#options.scanner !== undefined && this.#statesSecurity)
      return this.#commitLater(async () => this.#withStatus(await encodeBody(body, coder, addressed)));
    // A message that takes long to code is coded in slices; later ones keep their place behind it.
    if (this.#coding.pending !== undefined)
      return this.#commitLater(() => encodeBody(body, coder, addressed));
    const coded = encodeBody(body, coder, addressed);
    return coded instanceof Promise ? this.#commitLater(() => coded) : this.#commit(coded);
  }

  /** See `Session.stream`. */
  ask(body: Body, options: RequestOptions, agent: string | undefined): Reply {
    const { limits } = this.#options.endpoint;
    const metadata = encodeMetadata(this.#traced(options.metadata), limits.maxMetadataSize);
    return this.#requester.ask(encodeBody(body, this.coder, { ...options, metadata, agent }), options);
  }

  /** See `Session.sendTensor`. */
  async sendTensor(
    tensor: TensorInput,
    options: SendTensorOptions,
    agent: string | undefined,
  ): Promise<void> {
    await this.#tensors.send(tensor, agent, options);
  }

  /** Senders that waited for room go on where there is some. */
  wake(): void {
    this.#backpressure.wake(this.#core);
  }

  // --- what arrives

  handle(event: SessionEvent): void {
    const { stats, onReport } = this.#options;
    if ('body' in event) stats.receivedBody(event.body);
    if (event.type === 'piece' && event.piece.offset === 0) stats.receivedTensor(event.piece.totalLength);
    switch (event.type) {
      case 'message':
        if (event.body.agent === DELIVERY && this.#passage === undefined)
          return onReport(createMessage(event.body, this.coder));
        return this.#intake.take(event);
      case 'request':
      case 'part':
      case 'response':
      case 'end':
      case 'failure':
        return this.#intake.take(event);
      case 'piece':
        if (this.#passage?.take(event, undefined) === true) return;
        if (this.#options.endpoint.takesMessages === false)
          return this.#refuseTensor(event.streamId, event.piece.charge);
        return this.#tensors.handlePiece(event.streamId, event.piece);
      case 'cancel':
        if (this.#madeIntake?.has(event.streamId) !== true && this.#passage?.take(event, undefined) === true)
          return;
        this.#madeTensors?.handleCancel(event.streamId);
        this.#cancel(event.streamId);
    }
  }

  /** Hands on what there is memory for. */
  #deliver(event: IntakeEvent, reservation: Reservation | undefined): void {
    if (this.#passage?.take(event, reservation) === true) return;
    const { endpoint } = this.#options;
    switch (event.type) {
      case 'message': {
        if (endpoint.takesMessages === false) return this.#dropMessage(event.body, reservation);
        const message = createMessage(event.body, this.coder);
        message.reservation = reservation;
        message.memory = this.#options.memory;
        return this.#takeMessage(message);
      }
      case 'request': {
        const message = createMessage(event.body, this.coder);
        message.reservation = reservation;
        message.memory = this.#options.memory;
        return this.#takeRequest(event.streamId, message);
      }
      case 'part':
        return this.#requester.handlePart(event.streamId, event.body, reservation);
      case 'response':
        return this.#requester.handleResponse(event.streamId, event.body, reservation);
      case 'end':
        return this.#requester.handleEnd(event.streamId);
      case 'failure':
        return this.#requester.handleEnd(event.streamId, event.error);
    }
  }

  /**
   * This end reads no messages and says so in ACCEPT, which older peers do not know: the message is reported to those
   * that understand reports, and logged once.
   */
  #dropMessage({ charge }: ReceivedBody, reservation: Reservation | undefined): void {
    const { logger, session, pump, negotiated } = this.#options;
    reservation?.release();
    this.#core.channel.consume(0, charge);
    if (!this.#hasDropped) {
      const fields = { event: 'message.unread', session: session.id };
      logger.warn(fields, 'one-way messages are dropped: there is no onSession that would read them');
    }
    this.#hasDropped = true;
    if (
      negotiated.extensions[Extension.AGENTS] !== undefined &&
      this.#core.channel.queuedOn(0) < MAX_REPORTS
    ) {
      const report = encodeUndeliverable({
        to: '@server',
        outcome: 'not_sent',
        reason: 'unsupported',
        first: undefined,
        count: 1,
      });
      try {
        this.#core.channel.send({ ...this.coder.encode(report, {}), agent: DELIVERY });
      } catch {
        // No codec of the session carries a report; the log line says it.
      }
    }
    pump();
  }

  #refuseTensor(streamId: number, charge: number): void {
    this.#core.channel.consume(streamId, charge);
    this.#refuse(
      streamId,
      new ProtocolError('unsupported', 'this end reads no tensors: it has no onSession'),
    );
  }

  /** There is no memory for a body: whoever sent a request is told, and a reply fails at this end. */
  #refuseBody(event: IntakeEvent, error: ProtocolError): void {
    if (!('body' in event)) return this.#deliver(event, undefined);
    // Those are never refused.
    if (event.type === 'message') return;
    const { logger, session } = this.#options;
    const { streamId, body } = event;
    const fields = { event: 'memory.refused', session: session.id, kind: event.type };
    logger[this.#hasRefused ? 'debug' : 'warn'](fields, error.message);
    this.#hasRefused = true;
    this.#core.channel.consume(streamId, body.charge);
    if (event.type === 'request') this.#core.channel.refuse(streamId, error);
    else if (this.#passage?.refuse(streamId, error) !== true) this.#requester.refuse(streamId, error);
    this.#options.pump();
  }

  #cancel(streamId: number): void {
    const charge = this.#madeIntake?.drop(streamId);
    if (charge === undefined) return this.#madeHandlers?.cancel(streamId);
    // Its handler has not begun.
    this.#core.channel.consume(streamId, charge);
    this.#core.channel.end(streamId);
  }

  /** Answers a request that has arrived by a handler of the caller's. */
  async answer(streamId: number, body: ReceivedBody, handler: RequestHandler): Promise<void> {
    await this.#handlers.run(streamId, createMessage(body, this.coder), handler);
  }

  /** Stops the handlers, but for those that run to completion. */
  abortHandlers(reason: ProtocolError): void {
    this.#madeHandlers?.abort(reason);
  }

  /** The session is over: whatever waits for the peer waits no longer. */
  end(error: ProtocolError | undefined): void {
    this.#hasEnded = true;
    this.#backpressure.wake(undefined);
    const [requester, tensors, handlers] = [this.#madeRequester, this.#madeTensors, this.#madeHandlers];
    // Most sessions end with nothing under way, and an error costs more than the rest of their end.
    if (requester === undefined && tensors === undefined && handlers === undefined) return;
    const failure = error ?? sessionClosed();
    requester?.end(failure);
    tensors?.end(failure);
    handlers?.abort(failure);
  }

  // --- the rooms

  get coder(): BodyCoder {
    if (this.#madeCoder === undefined) {
      const { negotiated, endpoint } = this.#options;
      const { algorithms, encoding } = negotiated;
      this.#madeCoder = createBodyCoder({
        algorithms,
        encoding: encoding === null ? undefined : getEncoding(encoding),
        limits: endpoint.limits,
        security: endpoint.security,
        context: this.#contextOptions(),
        yield: endpoint.yield ?? endpoint.clock.yield,
      });
    }
    return this.#madeCoder;
  }

  #contextOptions(): BodyCoderOptions['context'] {
    const { negotiated, endpoint } = this.#options;
    if (this.#core.channel.contextUse === undefined) return undefined;
    return {
      maxMessageSize: maxMessageSize(endpoint.role, negotiated, endpoint.limits),
    };
  }

  get #intake(): Intake {
    const { memory, endpoint } = this.#options;
    this.#madeIntake ??= new Intake({
      memory,
      now: () => endpoint.clock.now(),
      memoryOf: (event) => this.#passage?.memoryOf(event) ?? this.coder.memoryOf(event.body),
      deliver: (event, reservation) => this.#deliver(event, reservation),
      refuse: (event, error) => this.#refuseBody(event, error),
    });
    return this.#madeIntake;
  }

  get #requester(): Requester {
    const { pump, session } = this.#options;
    this.#madeRequester ??= new Requester({
      core: this.#core,
      clock: this.#clock,
      coder: this.coder,
      session,
      pump,
    });
    return this.#madeRequester;
  }

  get #handlers(): Handlers {
    if (this.#madeHandlers !== undefined) return this.#madeHandlers;
    const { session, logger, pump, endpoint } = this.#options;
    this.#madeHandlers = new Handlers({
      core: this.#core,
      coder: this.coder,
      session,
      logger,
      clock: this.#clock,
      // The clock of the process: the turn is that of all sessions.
      rest: (size) =>
        isTurnOver(endpoint.clock, size) ? (endpoint.yield ?? endpoint.clock.yield)() : undefined,
      maxMetadataSize: endpoint.limits.maxMetadataSize,
      batch: endpoint.batch,
      pump,
      ready: (streamId) => this.#room(streamId),
    });
    return this.#madeHandlers;
  }

  get #tensors(): Tensors {
    if (this.#madeTensors !== undefined) return this.#madeTensors;
    const { session, agentId = '', mailbox, scanner, pump, endpoint } = this.#options;
    const isClient = endpoint.role === 'client';
    this.#madeTensors = new Tensors({
      core: this.#core,
      limits: endpoint.limits,
      memory: this.#options.memory,
      now: () => endpoint.clock.now(),
      maxAssembledSize: endpoint.maxAssembledSize ?? MAX_ASSEMBLED_SIZE,
      mode: endpoint.transfers ?? 'assemble',
      requester: () => this.#requester,
      pump,
      written: (streamId) => this.#room(streamId, 1),
      sendText: (text) => session.send(text),
      agents: { source: isClient ? agentId : '', target: isClient ? '' : agentId },
      admit(message, deliver) {
        if (scanner === undefined) deliver();
        else scanner.takeRequest(message, deliver);
      },
      deliver: (message) => mailbox.push(message),
    });
    return this.#madeTensors;
  }

  // --- steps

  #commit(coded: BodyToSend): Promise<void> {
    this.#core.channel.send(coded);
    this.#options.transmit();
    return this.#room(0);
  }

  #commitLater(encode: () => BodyToSend | Promise<BodyToSend>): Promise<void> {
    return this.#coding.push(async () => this.#commit(await encode()));
  }

  #room(streamId: number, below?: number): Promise<void> {
    return this.#hasEnded ? RESOLVED : this.#backpressure.wait(this.#core, streamId, below);
  }

  /** DATA envelopes are the only ones that have a place for what a scan found. */
  get #statesSecurity(): boolean {
    return this.#core.subprotocol === Subprotocol.JSON && this.#options.negotiated.securityScanning;
  }

  async #withStatus(coded: BodyToSend): Promise<BodyToSend> {
    const message = createMessage({ ...coded, charge: 0 }, this.coder);
    await this.#options.scanner?.judge(message, 'sent');
    return { ...coded, securityStatus: message.securityStatus };
  }

  #traced(metadata: Metadata | undefined): Metadata | undefined {
    if (metadata?.['traceparent'] !== undefined) return metadata;
    const traceparent = this.#options.endpoint.traceparent?.();
    return traceparent === undefined ? metadata : { ...metadata, traceparent };
  }

  #takeMessage(message: ReceivedMessage): void {
    const { scanner, mailbox } = this.#options;
    if (scanner === undefined) mailbox.push(message);
    else scanner.takeMessage(message, () => mailbox.push(message));
  }

  #takeRequest(streamId: number, message: ReceivedMessage): void {
    const { scanner } = this.#options;
    if (scanner === undefined) this.#startRequest(streamId, message);
    else scanner.takeRequest(message, () => this.#startRequest(streamId, message));
  }

  #startRequest(streamId: number, message: ReceivedMessage): void {
    // It may have been cancelled while it was looked at.
    const { session, endpoint } = this.#options;
    if (!this.#core.channel.isWanted(streamId)) {
      message.release();
      this.#core.channel.end(streamId);
    } else guardLater(session, this.#handlers.run(streamId, message, endpoint.onRequest));
  }

  #refuse(streamId: number, error: ProtocolError): void {
    this.#core.channel.refuse(streamId, error);
    this.#options.pump();
  }
}

/** Bytes of reports that may wait for a peer that does not read them. */
const MAX_REPORTS = 64 * 1024;

export function sessionClosed(): ProtocolError {
  return new ProtocolError('session_closed', 'the session was closed', { side: 'remote' });
}

const RESOLVED = Promise.resolve();
