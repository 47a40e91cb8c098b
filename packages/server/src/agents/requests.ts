import { type BodyPiece, ProtocolError, type ReceivedBody } from '@parlance/protocol';
import { type Reservation, TRANSFER_OVERHEAD } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../session/endpoint.js';
import { addressed } from './addressed.js';
import { targetOf } from './agent.js';
import { RelayedReplies, type ReplyEvent } from './relayed-replies.js';
import { RelayedRequest, RequestTable } from './relayed-request.js';
import type { RelayCore, RelayTarget } from './target.js';
import type { Transit } from './transit.js';

/** The first piece of a tensor. */
export type FirstPiece = Pick<BodyPiece, 'bytes' | 'totalLength' | 'charge'>;

type ReplyError = Extract<ReplyEvent, { type: 'failure' }>['error'];

/** Requests, streams and tensors from agent to agent, and the replies to them. */
export class RelayedRequests {
  readonly #transit: Transit;
  readonly #table = new RequestTable();
  readonly #replies: RelayedReplies;

  constructor(transit: Transit) {
    this.#transit = transit;
    this.#replies = new RelayedReplies(transit, this.#table);
  }

  /** Whether a stream of `session` leads to another session, in either direction. */
  isRelayed(session: RelayTarget, streamId: number): boolean {
    return (this.#table.receivedBy(session, streamId) ?? this.#table.sentBy(session, streamId)) !== undefined;
  }

  /** The session that has sent `session` a request on this stream. */
  askerOf(session: RelayTarget, streamId: number): RelayTarget | undefined {
    return this.#table.receivedBy(session, streamId)?.source;
  }

  /** @param reservation the memory that the body takes if it has to be coded again. */
  take(
    source: ServerEndpoint,
    sourceStream: number,
    to: string,
    body: ReceivedBody,
    reservation: Reservation | undefined,
  ): void {
    const admit = () => targetOf(this.#transit.admit(source, to, 'request', body));
    this.#take(source, sourceStream, to, body, reservation, admit);
  }

  /** A request whose node has admitted it. */
  takeAdmitted(
    source: RelayTarget,
    sourceStream: number,
    target: RelayTarget,
    body: ReceivedBody,
    reservation: Reservation | undefined,
  ): void {
    this.#take(source, sourceStream, target.agentId ?? '', body, reservation, () => target);
  }

  #take(
    source: RelayTarget,
    sourceStream: number,
    to: string,
    body: ReceivedBody,
    reservation: Reservation | undefined,
    admit: () => RelayTarget,
  ): void {
    // It may have been cancelled while it waited for a scan or for memory.
    if (!source.core.channel.isWanted(sourceStream)) {
      reservation?.release();
      return source.tell((core) => core.channel.end(sourceStream));
    }
    try {
      this.#pass(source, sourceStream, admit(), to, body, reservation);
    } catch (error) {
      reservation?.release();
      this.#refuse(source, sourceStream, to, error);
    }
  }

  /** @throws {ProtocolError} if the body cannot be coded or sent. */
  #pass(
    source: RelayTarget,
    sourceStream: number,
    target: RelayTarget,
    to: string,
    body: ReceivedBody,
    reservation: Reservation | undefined,
  ): void {
    const transit = this.#transit;
    const request = new RelayedRequest(source, sourceStream, target, to, 'request', reservation);
    const onWritten = (frame: number) => {
      request.handleWritten(frame);
      this.#releaseHeld(request, body.charge);
    };
    request.held = body.charge;
    const coded = addressed(
      transit.convert(body, source, target),
      transit.nameOf(source, target),
      onWritten,
      () => request.handleDropped(),
    );
    const size = coded.bytes.length + (coded.metadata?.length ?? 0);
    this.#startInTurn(request, size, (core) => core.channel.request(coded));
  }

  /**
   * Opens the stream of a request, behind those that wait for one already.
   *
   * @param size bytes of memory that it takes while it waits.
   * @throws {ProtocolError} if it cannot be sent; `too_many_streams` if too much waits.
   */
  #startInTurn(request: RelayedRequest, size: number, open: (core: RelayCore) => number): void {
    const { source, sourceStream, target, to } = request;
    // Nothing is written before the command returns, so the request is in the table by then.
    const start = () => target.perform((core) => this.#table.add(request, open(core)), source);
    const { streamQueue: queue } = target;
    if (queue === undefined || queue.isOpen) return start();
    queue.enter(request, size, () => {
      try {
        start();
        for (const piece of request.pieces.splice(0)) this.#feed(request, piece);
      } catch (error) {
        this.#table.handleAnswered(request);
        request.handleDropped();
        this.#refuse(source, sourceStream, to, error);
      }
    });
    request.leave = () => queue.leave(request);
    this.#table.addWaiting(request);
    target.pump();
  }

  /**
   * Tensors pass piece by piece: the sender gets the credit of each when it is written to the receiver. Returns
   * whether the tensor is for another session.
   */
  takePiece(source: ServerEndpoint, sourceStream: number, piece: BodyPiece): boolean {
    const { address: to } = piece;
    if (to !== undefined) {
      this.#takeTensor(source, sourceStream, to, piece);
      return true;
    }
    return this.takeNextPiece(source, sourceStream, piece);
  }

  /** A piece after the first one. Returns whether its tensor is for another session. */
  takeNextPiece(
    source: RelayTarget,
    sourceStream: number,
    { bytes, charge }: Pick<BodyPiece, 'bytes' | 'charge'>,
  ): boolean {
    const request = this.#table.sentBy(source, sourceStream);
    if (request === undefined) return false;
    request.held += charge;
    if (!request.isWaiting) {
      this.#feed(request, { bytes, charge });
      return true;
    }
    try {
      request.target.streamQueue?.grow(request, bytes.length);
      request.pieces.push({ bytes, charge });
    } catch (error) {
      this.giveUp(source, sourceStream, error);
    }
    return true;
  }

  #feed(request: RelayedRequest, { bytes, charge }: Pick<BodyPiece, 'bytes' | 'charge'>): void {
    const onWritten = () => this.#releaseHeld(request, charge);
    request.target.tell((core) => core.channel.feed(request.targetStream, bytes, onWritten));
  }

  /** Returns whether the event answers another session. */
  takeReply(target: RelayTarget, event: ReplyEvent, reservation: Reservation | undefined): boolean {
    const request = this.#table.receivedBy(target, event.streamId);
    if (request === undefined) return false;
    const { source, sourceStream } = request;
    if (event.type === 'part' || event.type === 'response') this.#replies.pass(request, event, reservation);
    if (event.type !== 'part') this.#table.handleAnswered(request);
    if (event.type === 'end') this.#replies.end(request);
    if (event.type === 'failure') {
      const error = forRequester(event.error, request);
      source.tell((core) => {
        // A tensor that its receiver refuses is refused to its sender.
        if (request.kind === 'tensor') core.channel.refuse(sourceStream, error as ProtocolError);
        else core.channel.fail(sourceStream, error);
      });
    }
    return true;
  }

  /** Ends a reply that cannot continue. Returns whether it answers another session. */
  fail(target: RelayTarget, targetStream: number, error: ProtocolError): boolean {
    const request = this.#table.receivedBy(target, targetStream);
    if (request === undefined) return false;
    const { source, sourceStream } = request;
    this.#table.handleAnswered(request);
    target.tell((core) => core.channel.cancel(targetStream));
    source.tell((core) => core.channel.fail(sourceStream, error));
    return true;
  }

  /** A request is lost with the connection to the node of `target`. @param isCertain whether it was not sent. */
  handleLost(target: RelayTarget, targetStream: number, isCertain: boolean): void {
    const request = this.#table.receivedBy(target, targetStream);
    if (request === undefined) return;
    this.#table.handleAnswered(request);
    request.handleDropped();
    const error = peerGone(request, 'cannot be reached', isCertain);
    request.source.tell((core) => core.channel.fail(request.sourceStream, error));
  }

  /** The node of `target` has refused a request. */
  reject(target: RelayTarget, targetStream: number, error: ProtocolError): void {
    const request = this.#table.receivedBy(target, targetStream);
    if (request === undefined) return;
    this.#table.handleAnswered(request);
    request.handleDropped();
    const reason = this.#transit.refuse(error, request.to);
    request.source.tell((core) => core.channel.refuse(request.sourceStream, reason));
  }

  /** Returns whether the cancelled request was for another session. */
  cancel(source: RelayTarget, sourceStream: number): boolean {
    const request = this.#table.sentBy(source, sourceStream);
    if (request === undefined) return false;
    this.#withdraw(request);
    // The cancel is answered when the target has answered it: until then the stream keeps its slot.
    if (!request.isWaiting) return true;
    this.#table.handleAnswered(request);
    source.tell((core) => core.channel.end(sourceStream));
    return true;
  }

  /** A request is not wanted any more. */
  #withdraw(request: RelayedRequest): void {
    if (request.isWaiting) request.handleDropped();
    else request.target.tell((core) => core.channel.cancel(request.targetStream));
  }

  /** Gives up a tensor that cannot continue. */
  giveUp(source: RelayTarget, sourceStream: number, error: unknown): void {
    const request = this.#table.sentBy(source, sourceStream);
    if (request === undefined) return;
    this.#table.handleAnswered(request);
    this.#withdraw(request);
    this.#refuse(source, sourceStream, request.to, error);
  }

  /** No request or reply of the session is under way, in either direction. */
  isQuiet(session: RelayTarget): boolean {
    return this.#table.isIdle(session);
  }

  /** The session moves: ends what it takes part in. @param error for its own requests. */
  settle(session: ServerEndpoint, error: ProtocolError): void {
    const { sent, received } = this.#table.of(session);
    // Credit does not come back to a session that has moved.
    for (const request of sent) this.#releaseHeld(request, request.held);
    for (const request of this.#table.unwrittenBy(session))
      this.#replies.release(request, request.unwritten, request.unreleased);
    this.handleEnded(session);
    for (const { sourceStream } of sent) session.tell((core) => core.channel.fail(sourceStream, error));
    for (const { isWaiting, targetStream } of received)
      if (!isWaiting) session.tell((core) => core.channel.cancel(targetStream));
  }

  /** So much of a request is written, or never will be. */
  #releaseHeld(request: RelayedRequest, charge: number): void {
    const part = Math.min(charge, request.held);
    if (part === 0) return;
    request.held -= part;
    this.#transit.returnCredit(request.source, request.sourceStream, part);
  }

  handleEnded(session: RelayTarget): void {
    const state = this.#table.remove(session);
    if (state === undefined) return;
    const { sent, received, answered } = state;
    for (const request of sent.values()) this.#withdraw(request);
    for (const request of received.values()) {
      const { source, sourceStream } = request;
      request.handleDropped();
      const error = peerGone(request, 'is over');
      source.tell((core) => core.channel.fail(sourceStream, error));
    }
    for (const request of [...sent.values(), ...answered])
      this.#replies.release(request, request.unwritten, request.unreleased);
  }

  /** The first piece of a tensor. */
  #takeTensor(source: ServerEndpoint, sourceStream: number, to: string, piece: BodyPiece): void {
    // It may have been cancelled while it waited for a scan or for memory.
    if (!source.core.channel.isWanted(sourceStream)) return;
    const admit = () => targetOf(this.#transit.admit(source, to, 'tensor', undefined));
    this.#tryTensor(source, sourceStream, to, piece, admit);
  }

  /** The first piece of a tensor whose node has admitted it. */
  takeAdmittedTensor(
    source: RelayTarget,
    sourceStream: number,
    target: RelayTarget,
    piece: FirstPiece,
  ): void {
    this.#tryTensor(source, sourceStream, target.agentId ?? '', piece, () => target);
  }

  #tryTensor(
    source: RelayTarget,
    sourceStream: number,
    to: string,
    piece: FirstPiece,
    admit: () => RelayTarget,
  ): void {
    try {
      this.#passTensor(source, sourceStream, admit(), to, piece);
    } catch (error) {
      this.#refuse(source, sourceStream, to, error);
    }
  }

  /** @throws {ProtocolError} if the tensor cannot be sent. */
  #passTensor(
    source: RelayTarget,
    sourceStream: number,
    target: RelayTarget,
    to: string,
    { bytes: first, totalLength, charge }: FirstPiece,
  ): void {
    const transit = this.#transit;
    const request = new RelayedRequest(source, sourceStream, target, to, 'tensor');
    request.held = charge;
    const transfer = {
      // The receiver finds out how much of the body is not the tensor.
      payloadSize: Math.max(0, totalLength - TRANSFER_OVERHEAD),
      totalLength,
      first,
      onFirstWritten: () => this.#releaseHeld(request, charge),
      address: transit.nameOf(source, target),
      onWritten: (frame: number) => request.handleWritten(frame),
    };
    this.#startInTurn(request, first.length, (core) => core.channel.transfer(transfer));
    if (!target.isRemote) transit.stats.forwarded++;
  }

  #refuse(source: RelayTarget, sourceStream: number, to: string, error: unknown): void {
    const reason = this.#transit.refuse(error, to);
    source.tell((core) => core.channel.refuse(sourceStream, reason));
  }
}

/** For its requester, an agent whose page was loaded again is gone. */
function forRequester(error: ReplyError, request: RelayedRequest): ReplyError {
  const isInterruption = error.code === 'interrupted' && error.side === 'local';
  return isInterruption ? peerGone(request, 'was interrupted: its page was loaded again') : error;
}

function peerGone(
  { to, lastFrame }: RelayedRequest,
  fate: string,
  isCertain = lastFrame === 0,
): ProtocolError {
  const known = !isCertain ? 'it may have begun to work on the request' : 'it never had the request';
  return new ProtocolError('peer_gone', `the session of agent ${to} ${fate}; ${known}`);
}
