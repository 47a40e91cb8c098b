import { ProtocolError, type RequestError } from '../base/errors.js';
import type { Limits } from '../base/limits.js';
import { BodyCodec, type CodedBody, type ReceivedBody } from '../codec/body.js';
import type { AliasReader } from './addressing.js';
import type { LinkContext } from './context-coding.js';
import { BODY_CHARGE, type ReceiveCredit } from './credit.js';
import { decodeFailure, encodeFailure } from './failure.js';
import { type LinkFrame, LinkKind } from './frame.js';
import type { RateLimiter } from './rates.js';
import { type Assembler, type BodyPiece, unpinned } from './reassembly.js';
import type { StreamCloser, StreamParts } from './stream-closer.js';
import type { OpenStream, StreamTable } from './streams.js';

/** The meaning of one or more link frames. */
export type LinkEvent =
  | {
      readonly type: 'message';
      readonly body: ReceivedBody;
      /** On record: it is the so-many-th of its session. */
      readonly number?: number;
      /** On record: a process that died may have handled it, without putting that on record. */
      readonly redelivered?: boolean;
    }
  | {
      readonly type: 'request';
      readonly streamId: number;
      readonly body: ReceivedBody;
      /** On record: its handler is called for the so-many-th time. @default 1 */
      readonly attempt?: number;
      /** On record: the parts that handlers before it have said. @default none */
      readonly said?: readonly CodedBody[];
      /** On record: the ID under which its reply was kept. @default it was not */
      readonly kept?: string | undefined;
    }
  /** A part of a tensor: a request that is handed on as it arrives. */
  | { readonly type: 'piece'; readonly streamId: number; readonly piece: BodyPiece }
  | { readonly type: 'part'; readonly streamId: number; readonly body: ReceivedBody }
  | { readonly type: 'response'; readonly streamId: number; readonly body: ReceivedBody }
  | { readonly type: 'end'; readonly streamId: number }
  | { readonly type: 'failure'; readonly streamId: number; readonly error: ProtocolError | RequestError }
  /** @param reason why this end stops a request of the peer; `undefined` if the peer cancelled it. */
  | { readonly type: 'cancel'; readonly streamId: number; readonly reason?: ProtocolError };

export interface ReceiverOptions extends StreamParts {
  readonly limits: Limits;
  readonly gate: RateLimiter | undefined;
  readonly aliases: AliasReader | undefined;
  readonly closer: StreamCloser;
}

/** Turns the peer's counted frames into events: charges their bytes, assembles bodies, tracks streams. */
export class Receiver {
  readonly #limits: Limits;
  readonly #gate: RateLimiter | undefined;
  readonly #streams: StreamTable;
  readonly #closer: StreamCloser;
  readonly #assembler: Assembler;
  readonly #credit: ReceiveCredit;
  readonly #context: LinkContext | undefined;
  /** Set if addressing was negotiated. */
  readonly aliases: AliasReader | undefined;

  constructor(options: ReceiverOptions) {
    this.#limits = options.limits;
    this.#gate = options.gate;
    this.#streams = options.streams;
    this.#closer = options.closer;
    this.#assembler = options.assembler;
    this.#credit = options.receiveCredit;
    this.#context = options.context;
    this.aliases = options.aliases;
  }

  /**
   * @param frame of a counted kind.
   * @throws {ProtocolError} on any violation; the session ends then.
   */
  handle(frame: LinkFrame, now: number): LinkEvent | undefined {
    switch (frame.kind) {
      case LinkKind.MESSAGE:
        return this.#handleMessage(frame, now);
      case LinkKind.REQUEST:
        return this.#handleRequest(frame, now);
      case LinkKind.END:
        return this.#handleEnd(frame);
      case LinkKind.ERROR:
        return this.#handleError(frame);
      case LinkKind.CANCEL:
        return this.#handleCancel(frame);
      case LinkKind.ALIAS:
        return this.#handleAlias(frame);
      default:
        return this.#handleReply(frame);
    }
  }

  #handleMessage(frame: LinkFrame, now: number): LinkEvent | undefined {
    if (frame.streamId !== 0) throw new ProtocolError('bad_frame', 'one-way messages travel on stream 0');
    assertNoTensor(frame);
    if (!this.#assembler.isPending(0)) this.#gate?.handleMessage(now);
    const body = this.#take(frame);
    return body && { type: 'message', body };
  }

  #handleRequest(frame: LinkFrame, now: number): LinkEvent | undefined {
    const { streamId } = frame;
    let stream: OpenStream | undefined;
    if (this.#assembler.isPending(streamId)) {
      stream = this.#streams.get(streamId);
    } else {
      stream = this.#streams.accept(streamId);
      stream.refusal = this.#gate?.handleRequest(now);
      stream.isTransfer = frame.codec === BodyCodec.AVP;
    }
    if (stream?.isTransfer) return this.#handlePiece(frame, stream);
    const body = this.#take(frame);
    if (body === undefined) return undefined;
    if (stream?.refusal === undefined) return { type: 'request', streamId, body };
    this.#credit.consume(streamId, body.charge);
    this.#closer.fail(streamId, encodeFailure(stream.refusal));
    return undefined;
  }

  /** Charges a frame of a tensor, which is handed on. A refused tensor is answered on its first frame. */
  #handlePiece(frame: LinkFrame, stream: OpenStream): LinkEvent | undefined {
    const { streamId } = frame;
    const piece = this.#assembler.addPiece(frame);
    this.#credit.receive(streamId, piece.charge, 0);
    if (stream.refusal !== undefined && !stream.answered) {
      this.#closer.fail(streamId, encodeFailure(stream.refusal));
    }
    const isOpen = this.#streams.get(streamId) !== undefined;
    if (isOpen && !stream.answered) return { type: 'piece', streamId, piece };
    // Refused; the sender does not know yet.
    this.#credit.consume(streamId, piece.charge);
    if (isOpen && !this.#assembler.isPending(streamId)) this.#closer.finish(streamId);
    return undefined;
  }

  /** A response or a chunk. */
  #handleReply(frame: LinkFrame): LinkEvent | undefined {
    const { kind, streamId } = frame;
    assertNoTensor(frame);
    const stream = this.#streams.asked(streamId);
    if (stream === undefined) return undefined;
    const body = this.#take(frame);
    if (body === undefined) return undefined;
    const isResponse = kind === LinkKind.RESPONSE;
    if (isResponse) this.#closer.finish(streamId);
    if (stream.cancelled) {
      this.#credit.consume(streamId, body.charge);
      return isResponse ? { type: 'end', streamId } : undefined;
    }
    return { type: isResponse ? 'response' : 'part', streamId, body };
  }

  #handleEnd({ streamId, rest }: LinkFrame): LinkEvent | undefined {
    const stream = this.#streams.asked(streamId);
    if (stream === undefined) return undefined;
    // A cancelled stream may end anywhere.
    if (this.#assembler.isPending(streamId) && !stream.cancelled) {
      throw new ProtocolError('bad_frame', 'a stream ended inside a body');
    }
    if (this.#context !== undefined) this.#context.receiveEnd(streamId, rest);
    else if (rest.length > 0) throw new ProtocolError('trailing_bytes', 'an end frame has no body');
    this.#closer.finish(streamId);
    return { type: 'end', streamId };
  }

  #handleError({ streamId, rest }: LinkFrame): LinkEvent | undefined {
    if (this.#streams.asked(streamId) === undefined) return undefined;
    const error = decodeFailure(rest, this.#limits.maxJsonDepth);
    this.#context?.receiveError(streamId);
    this.#closer.finish(streamId);
    return { type: 'failure', streamId, error };
  }

  #handleCancel({ streamId, rest }: LinkFrame): LinkEvent | undefined {
    if (rest.length !== 0) throw new ProtocolError('trailing_bytes', 'a cancel frame has no body');
    if (this.#streams.isLocal(streamId) || !this.#streams.wasOpened(streamId)) {
      throw new ProtocolError('bad_frame', `stream ${streamId} is not the peer's to cancel`);
    }
    return this.#closer.handleCancel(streamId) ? { type: 'cancel', streamId } : undefined;
  }

  /** The number takes the place of the stream ID. */
  #handleAlias({ streamId: alias, rest }: LinkFrame): undefined {
    if (this.aliases === undefined) throw new ProtocolError('bad_frame', 'addressing was not negotiated');
    this.aliases.handleAlias(alias, rest);
  }

  /** Charges a frame. Returns the body once it is complete. */
  #take(frame: LinkFrame): ReceivedBody | undefined {
    const { streamId, rest } = frame;
    const isFirst = !this.#assembler.isPending(streamId);
    const charge = rest.length + (isFirst ? BODY_CHARGE : 0);
    const added = this.#assembler.add(frame);
    this.#credit.receive(streamId, charge, this.#assembler.missing(streamId));
    // A view costs nothing if it is read at once; unread, a message of one byte would pin a buffer of 64 KiB.
    const body = added !== undefined && this.#credit.unread > MAX_PINNED ? withoutViews(added) : added;
    return frame.codec === BodyCodec.CONTEXT ? this.#takeInContext(frame, isFirst, body) : body;
  }

  #takeInContext(
    frame: LinkFrame,
    isFirst: boolean,
    body: ReceivedBody | undefined,
  ): ReceivedBody | undefined {
    const { kind, streamId } = frame;
    if (this.#context === undefined) {
      throw new ProtocolError('bad_frame', 'a body in context, which was not negotiated');
    }
    if (isFirst) {
      this.#context.receiveFirst(frame, body?.bytes ?? this.#assembler.firstBytes(streamId) ?? NOTHING);
    }
    if (body === undefined) return undefined;
    const decoded = this.#context.receive(body, streamId, kind === LinkKind.CHUNK);
    this.#credit.overdraw(streamId, decoded.charge - body.charge);
    return decoded;
  }
}

/** @throws {ProtocolError} `bad_frame`. */
function assertNoTensor({ codec }: LinkFrame): void {
  if (codec === BodyCodec.AVP) throw new ProtocolError('bad_frame', 'tensors travel as requests');
}

const NOTHING = new Uint8Array(0);

/** Unread charges up to which bodies may be views of the buffers that they were received in. */
const MAX_PINNED = 16 * 1024;

function withoutViews(body: ReceivedBody): ReceivedBody {
  const bytes = unpinned(body.bytes);
  return bytes === body.bytes
    ? body
    : { ...body, bytes, metadata: body.metadata && new Uint8Array(body.metadata) };
}
