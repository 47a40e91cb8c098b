import { ProtocolError } from '../base/errors.js';
import type { Limits } from '../base/limits.js';
import { BodyCodec, type ReceivedBody } from '../codec/body.js';
import { type BodyToSend, bodyOf } from './body-to-send.js';
import { decodeFailure, encodeFailure, encodeVerdict } from './failure.js';
import { encodeSignalFrame, type LinkFrame, LinkKind, type OutgoingBody } from './frame.js';
import type { RateLimiter } from './rates.js';
import { assertNoTensor, type LinkEvent } from './receiver.js';
import { StreamCloser, type StreamParts } from './stream-closer.js';
import { StreamedBody } from './streamed-body.js';
import type { OpenStream } from './streams.js';

/** A tensor to be sent. `Outbox.feed` brings the bytes after the first ones. */
export interface OutgoingTransfer extends Pick<OutgoingBody, 'address' | 'onWritten'> {
  /** Bytes of the tensor. */
  readonly payloadSize: number;
  /** Bytes of the whole body. */
  readonly totalLength: number;
  /** The beginning of the body, at least one byte. */
  readonly first: Uint8Array;
  /** Called when the beginning is written. */
  readonly onFirstWritten?: (() => void) | undefined;
}

export interface LinkStreamsParts extends StreamParts {
  readonly limits: Limits;
  readonly gate: RateLimiter | undefined;
  /** Charges a frame of a body. Returns the body once it is complete. */
  readonly take: (frame: LinkFrame) => ReceivedBody | undefined;
}

/**
 * The half of a link that requests, their answers and tensors need: it reads frames of streams, and has the commands that
 * open, answer and end streams. A link makes it with the first of either; a page loads its code then.
 */
export class LinkStreams extends StreamCloser {
  readonly #parts: LinkStreamsParts;

  constructor(parts: LinkStreamsParts) {
    super(parts);
    this.#parts = parts;
  }

  // --- input

  /**
   * @param frame of a stream.
   * @throws {ProtocolError} on any violation; the session ends then.
   */
  handle(frame: LinkFrame, now: number): LinkEvent | undefined {
    switch (frame.kind) {
      case LinkKind.REQUEST:
        return this.#handleRequest(frame, now);
      case LinkKind.END:
        return this.#handleEnd(frame);
      case LinkKind.ERROR:
        return this.#handleError(frame);
      case LinkKind.CANCEL:
        return this.#handleCancel(frame);
      default:
        return this.#handleReply(frame);
    }
  }

  #handleRequest(frame: LinkFrame, now: number): LinkEvent | undefined {
    const { streams, assembler, receiveCredit, gate, take } = this.#parts;
    const { streamId } = frame;
    let stream: OpenStream | undefined;
    if (assembler.isPending(streamId)) {
      stream = streams.get(streamId);
    } else {
      stream = streams.accept(streamId);
      stream.refusal = gate?.handleRequest(now);
      stream.isTransfer = frame.codec === BodyCodec.AVP;
    }
    if (stream?.isTransfer) return this.#handlePiece(frame, stream);
    const body = take(frame);
    if (body === undefined) return undefined;
    if (stream?.refusal === undefined) return { type: 'request', streamId, body };
    receiveCredit.consume(streamId, body.charge);
    this.failWith(streamId, encodeFailure(stream.refusal));
    return undefined;
  }

  /** Charges a frame of a tensor, which is handed on. A refused tensor is answered on its first frame. */
  #handlePiece(frame: LinkFrame, stream: OpenStream): LinkEvent | undefined {
    const { streams, assembler, receiveCredit } = this.#parts;
    const { streamId } = frame;
    const piece = assembler.addPiece(frame);
    receiveCredit.receive(streamId, piece.charge, 0);
    if (stream.refusal !== undefined && !stream.answered)
      this.failWith(streamId, encodeFailure(stream.refusal));
    const isOpen = streams.get(streamId) !== undefined;
    if (isOpen && !stream.answered) return { type: 'piece', streamId, piece };
    // Refused; the sender does not know yet.
    receiveCredit.consume(streamId, piece.charge);
    if (isOpen && !assembler.isPending(streamId)) this.finish(streamId);
    return undefined;
  }

  /** A response or a chunk. */
  #handleReply(frame: LinkFrame): LinkEvent | undefined {
    const { streams, receiveCredit, take } = this.#parts;
    const { kind, streamId } = frame;
    assertNoTensor(frame);
    const stream = streams.asked(streamId);
    if (stream === undefined) return undefined;
    const body = take(frame);
    if (body === undefined) return undefined;
    const isResponse = kind === LinkKind.RESPONSE;
    if (isResponse) this.finish(streamId);
    if (stream.cancelled) {
      receiveCredit.consume(streamId, body.charge);
      return isResponse ? { type: 'end', streamId } : undefined;
    }
    return { type: isResponse ? 'response' : 'part', streamId, body };
  }

  #handleEnd({ streamId, rest }: LinkFrame): LinkEvent | undefined {
    const { streams, assembler, context } = this.#parts;
    const stream = streams.asked(streamId);
    if (stream === undefined) return undefined;
    // A cancelled stream may end anywhere.
    if (assembler.isPending(streamId) && !stream.cancelled) {
      throw new ProtocolError('bad_frame', 'a stream ended inside a body');
    }
    if (context !== undefined) context.receiveEnd(streamId, rest);
    else if (rest.length > 0) throw new ProtocolError('trailing_bytes', 'an end frame has no body');
    this.finish(streamId);
    return { type: 'end', streamId };
  }

  #handleError({ streamId, rest }: LinkFrame): LinkEvent | undefined {
    const { streams, limits, context } = this.#parts;
    if (streams.asked(streamId) === undefined) return undefined;
    const error = decodeFailure(rest, limits.maxJsonDepth);
    context?.receiveError(streamId);
    this.finish(streamId);
    return { type: 'failure', streamId, error };
  }

  #handleCancel({ streamId, rest }: LinkFrame): LinkEvent | undefined {
    const { streams } = this.#parts;
    if (rest.length !== 0) throw new ProtocolError('trailing_bytes', 'a cancel frame has no body');
    if (streams.isLocal(streamId) || !streams.wasOpened(streamId)) {
      throw new ProtocolError('bad_frame', `stream ${streamId} is not the peer's to cancel`);
    }
    return this.handleCancel(streamId) ? { type: 'cancel', streamId } : undefined;
  }

  // --- commands

  /** Opens a stream and returns its ID. @throws {ProtocolError} `too_many_streams`. */
  request(coded: BodyToSend): number {
    const { streams, outbox } = this.#parts;
    const { id } = streams.open(coded.relayed);
    outbox.pushBody(bodyOf(LinkKind.REQUEST, id, coded));
    return id;
  }

  /** Writes the request of a stream again that was opened on the link before this one. */
  repeat(streamId: number, coded: BodyToSend): void {
    this.#parts.outbox.pushBody(bodyOf(LinkKind.REQUEST, streamId, coded));
  }

  /** Tells the peer again that a request is cancelled. */
  repeatCancel(streamId: number): void {
    this.#parts.outbox.pushSignal(encodeSignalFrame(LinkKind.CANCEL, streamId));
  }

  /** Opens a stream with a tensor and returns its ID. @throws {ProtocolError} `too_many_streams`. */
  transfer({ totalLength, first, onFirstWritten, address, onWritten }: OutgoingTransfer): number {
    const { streams, outbox } = this.#parts;
    const { id: streamId } = streams.open();
    const { REQUEST: kind } = LinkKind;
    const body = new StreamedBody({ kind, streamId, codec: BodyCodec.AVP, totalLength, address, onWritten });
    body.feed(first, onFirstWritten);
    outbox.pushBody(body);
    return streamId;
  }

  /** Answers a request with a single body. A cancelled stream is ended instead. */
  respond(streamId: number, coded: BodyToSend): void {
    this.respondWith(bodyOf(LinkKind.RESPONSE, streamId, coded));
  }

  /** Sends one part of an answer; ignored on a cancelled stream. */
  chunk(streamId: number, coded: BodyToSend): void {
    const { streams, outbox } = this.#parts;
    if (streams.answerable(streamId)?.cancelled !== false) return;
    outbox.pushBody(bodyOf(LinkKind.CHUNK, streamId, coded));
  }

  /** Answers a request with the error that its handler threw. */
  fail(streamId: number, error: unknown): void {
    this.failWith(streamId, encodeFailure(error));
  }

  /** Refuses a tensor and sends the reason. The rest of it is dropped as it arrives. */
  refuse(streamId: number, error: ProtocolError): void {
    this.failWith(streamId, encodeVerdict(error));
  }
}
