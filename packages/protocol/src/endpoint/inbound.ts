import { parts } from '#parts';
import { DELIVERY } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import type { Reservation } from '../base/memory.js';
import type { BodyRole, ReceivedBody } from '../codec/body.js';
import type { SessionEvent } from '../session/types.js';
import { guard, guardLater } from './guard.js';
import { type EndpointHost, sessionClosed } from './host.js';
import { Intake, type IntakeEvent } from './messages/intake.js';
import { ReceivedMessage } from './messages/message.js';
import { isRedelivered } from './messages/metadata.js';
import { readReport, reportUnread } from './messages/reports.js';
import type { Outbound } from './outbound.js';
import type { EventRoute } from './ports.js';
import type { CallOptions, OwnHandler, Responder } from './requests/responder.js';
import type { TensorReceiver } from './tensors/receiver.js';

/** The role of the body of an event. @default a part */
const ROLES: { readonly [Type in SessionEvent['type']]?: BodyRole } = {
  message: 'messages',
  request: 'requests',
};

/**
 * The messages, requests, tensors and replies that this end receives in one session: reserves memory for
 * them, has them scanned, and hands them to the route, the handlers, the mailbox or the waiting reply.
 * Members are created on first use.
 */
export class Inbound {
  readonly #host: EndpointHost;
  readonly #outbound: Outbound;
  readonly #eventRoute: EventRoute | undefined;
  #intake: Intake | undefined;
  #responder: Responder | undefined;
  #tensors: TensorReceiver | undefined;
  #hasDroppedMessage = false;
  #hasRefusedBody = false;

  constructor(host: EndpointHost, outbound: Outbound) {
    this.#host = host;
    this.#outbound = outbound;
    this.#eventRoute = host.options.route;
  }

  handle(event: SessionEvent): void {
    const { recorder, options } = this.#host;
    if ('body' in event) recorder.receivedBody(event.body, ROLES[event.type]);
    switch (event.type) {
      case 'message':
        if (event.body.address === DELIVERY && this.#eventRoute === undefined)
          return this.#handleReport(event.body);
        return this.#takeIn(event);
      case 'failure':
        // Nothing is taken from a link that is gone.
        if (isInterruption(event.error)) this.#intake?.drop(event.streamId);
        return this.#takeIn(event);
      case 'request':
      case 'part':
      case 'response':
      case 'end':
        return this.#takeIn(event);
      case 'throttled':
        return this.#host.notify('throttled', event.throttled);
      case 'piece':
        if (event.piece.offset === 0) recorder.receivedTensor(event.piece.totalLength);
        if (this.#route(event, undefined)) return;
        if (options.takesMessages === false) return this.#refuseTensor(event.streamId, event.piece.charge);
        return this.#getTensors().handlePiece(event.streamId, event.piece);
      case 'cancel':
        if (this.#intake?.has(event.streamId) !== true && this.#route(event, undefined)) return;
        this.#tensors?.handleCancel(event.streamId, event.reason);
        this.#cancel(event.streamId, event.reason);
    }
  }

  /** Answers a received request with the given handler. @param again how often it was called before. */
  async answer(
    streamId: number,
    body: ReceivedBody,
    handler: OwnHandler,
    { attempt, yielded }: Omit<CallOptions, 'isOwn'>,
  ): Promise<void> {
    const message = new ReceivedMessage(body, this.#outbound.coder);
    await this.#getResponder().run(streamId, message, handler, { isOwn: true, attempt, yielded });
  }

  /** No body waits for memory. */
  get isIdle(): boolean {
    return this.#intake?.isEmpty !== false;
  }

  /** The handlers; `undefined` before the first request. */
  get responder(): Responder | undefined {
    return this.#responder;
  }

  /** Stops the handlers except those that run to completion. */
  abortHandlers(reason: ProtocolError): void {
    this.#responder?.abort(reason);
  }

  /** The session is over. */
  end(error: ProtocolError | undefined): void {
    if (this.#tensors === undefined && this.#responder === undefined) return;
    const failure = error ?? sessionClosed(this.#host.core);
    this.#tensors?.end(failure);
    this.#responder?.abort(failure);
  }

  /** Delivers an event, when there is memory for its body. */
  #takeIn(event: IntakeEvent): void {
    if (this.#intake === undefined) {
      const host = this.#host;
      const { clock } = host.options;
      const route = this.#eventRoute;
      this.#intake = new Intake({
        memory: () => host.memory,
        now: () => clock.now(),
        memoryOf: (waiting) =>
          (route !== undefined && isForOthers(waiting, route) ? route.memoryOf(waiting) : undefined) ??
          this.#outbound.coder.memoryOf(waiting.body),
        deliver: (waiting, reservation) => this.#deliver(waiting, reservation),
        refuse: (waiting, error) => this.#refuseBody(waiting, error),
      });
    }
    this.#intake.take(event);
  }

  #deliver(event: IntakeEvent, reservation: Reservation | undefined): void {
    if (this.#route(event, reservation)) return;
    const { mailbox, options, scanner } = this.#host;
    switch (event.type) {
      case 'message': {
        if (options.takesMessages === false) {
          this.#passOver(event);
          return this.#dropMessage(event.body, reservation);
        }
        const { number } = event;
        const message = this.#messageOf(event.body, reservation);
        if (number !== undefined) {
          message.number = number;
          if (this.#host.hasHandled?.(number)) return this.#skip(message, event);
          message.isRedelivered = event.redelivered;
        } else if (event.body.address !== undefined) message.isRedelivered = isRedelivered(message);
        if (scanner === undefined) mailbox.push(message);
        else scanner.takeMessage(message, () => mailbox.push(message));
        return;
      }
      case 'request': {
        const message = this.#messageOf(event.body, reservation);
        if (scanner === undefined) this.#startRequest(event, message);
        else scanner.takeRequest(message, () => this.#startRequest(event, message));
        return;
      }
      case 'part':
        this.#host.loading.hurry();
        return this.#outbound.requester.handlePart(event.streamId, event.body, reservation);
      case 'response':
        this.#host.loading.hurry();
        return this.#outbound.requester.handleResponse(event.streamId, event.body, reservation);
      case 'end':
        this.#host.loading.hurry();
        return this.#outbound.requester.handleEnd(event.streamId);
      case 'failure':
        return this.#outbound.requester.handleEnd(event.streamId, event.error);
    }
  }

  /**
   * Server: offers an event that concerns another session to the route. Returns whether the route took it.
   */
  #route(event: SessionEvent, reservation: Reservation | undefined): boolean {
    const route = this.#eventRoute;
    return route !== undefined && isForOthers(event, route) && route.take(event, reservation);
  }

  /** Counts a message of a recorded session that the application does not get as handled. */
  #passOver(event: IntakeEvent): void {
    if (event.type === 'message' && event.number !== undefined) this.#host.handleDone?.(event.number);
  }

  /** The application has said that it has handled the message before. */
  #skip(message: ReceivedMessage, event: IntakeEvent): void {
    this.#host.handleTaken(message.charge, message);
    this.#passOver(event);
    message.release();
  }

  #messageOf(body: ReceivedBody, reservation: Reservation | undefined): ReceivedMessage {
    return new ReceivedMessage(body, this.#outbound.coder, undefined, undefined, reservation, this.#host);
  }

  #startRequest(event: RequestEvent, message: ReceivedMessage): void {
    const host = this.#host;
    const { streamId } = event;
    if (!parts.answers.isLoaded) {
      const answer = () => guard(host, () => this.#startRequest(event, message));
      const refuse = (error: unknown) => {
        message.release();
        host.core.channel.fail(streamId, error);
        host.pump();
      };
      return guardLater(host, parts.answers.load().then(answer, refuse));
    }
    // The client may have cancelled it during the scan.
    if (host.core.channel.isWanted(streamId)) {
      guardLater(host, this.#getResponder().run(streamId, message, host.options.onRequest, event));
      return;
    }
    message.release();
    host.core.channel.end(streamId);
  }

  #getResponder(): Responder {
    this.#responder ??= parts.answers.get().createResponder(this.#host, this.#outbound);
    return this.#responder;
  }

  #getTensors(): TensorReceiver {
    this.#tensors ??= parts.tensors
      .get()
      .createTensorReceiver(this.#host, (streamId, error) => this.#refuse(streamId, error));
    return this.#tensors;
  }

  #cancel(streamId: number, reason: ProtocolError | undefined): void {
    const charge = this.#intake?.drop(streamId);
    if (charge === undefined) return this.#responder?.cancel(streamId, reason);
    // The request still waits for memory, so there is no handler to stop.
    const { channel } = this.#host.core;
    channel.consume(streamId, charge);
    channel.end(streamId);
  }

  /**
   * Drops a message because this end has no reader for messages. ACCEPT announces that, but older peers do
   * not know the field: they get a report if they understand reports. Only the first drop is logged.
   */
  #dropMessage({ charge }: ReceivedBody, reservation: Reservation | undefined): void {
    const { core, logger } = this.#host;
    reservation?.release();
    this.#host.handleTaken(charge);
    if (!this.#hasDroppedMessage) {
      const fields = { event: 'message.unread', session: core.id };
      logger.warn(fields, 'dropped a one-way message: the server has no onSession to read it');
    }
    this.#hasDroppedMessage = true;
    reportUnread(this.#host, this.#outbound.coder);
    this.#host.pump();
  }

  /** Reports messages that the server could not deliver. */
  #handleReport(body: ReceivedBody): void {
    const message = this.#messageOf(body, undefined);
    readReport(this.#host, () => message.text);
    if (this.#host.core.channel.consume(0, body.charge)) this.#host.pump();
  }

  #refuseTensor(streamId: number, charge: number): void {
    this.#host.core.channel.consume(streamId, charge);
    const message = 'the server does not read tensors: it has no onSession';
    const error = new ProtocolError('unsupported', message);
    this.#host.handleTransfer?.('received', error);
    this.#refuse(streamId, error);
  }

  /** There is no memory for a body: a request is refused, and a reply fails at this end. */
  #refuseBody(event: IntakeEvent, error: ProtocolError): void {
    if (!('body' in event)) return this.#deliver(event, undefined);
    // Messages wait instead; they are never refused.
    if (event.type === 'message') return;
    const { core, logger } = this.#host;
    const { streamId, body } = event;
    const fields = { event: 'memory.refused', session: core.id, kind: event.type };
    logger[this.#hasRefusedBody ? 'debug' : 'warn'](fields, error.message);
    this.#hasRefusedBody = true;
    core.channel.consume(streamId, body.charge);
    if (event.type === 'request') core.channel.refuse(streamId, error);
    else if (this.#eventRoute?.refuse(streamId, error) !== true)
      this.#outbound.requester.refuse(streamId, error);
    this.#host.pump();
  }

  #refuse(streamId: number, error: ProtocolError): void {
    this.#host.core.channel.refuse(streamId, error);
    this.#host.pump();
  }
}

/** Whether this end has failed a stream because the link was rebuilt. */
function isInterruption({ code, side }: ProtocolError<string>): boolean {
  return code === 'interrupted' && side === 'local';
}

type RequestEvent = Extract<SessionEvent, { type: 'request' }>;

/** Whether an event is addressed to another session, or belongs to a stream that leads to one. */
function isForOthers(event: SessionEvent, route: EventRoute): boolean {
  switch (event.type) {
    case 'message':
    case 'request':
      return event.body.address !== undefined;
    case 'piece':
      return event.piece.address !== undefined || route.isRelayed(event.streamId);
    case 'part':
    case 'response':
    case 'end':
    case 'failure':
    case 'cancel':
      return route.isRelayed(event.streamId);
    default:
      return false;
  }
}
