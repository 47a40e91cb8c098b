import { ByteReader } from '../base/bytes.js';
import { ProtocolError, type RequestError } from '../base/errors.js';
import type { Limits } from '../base/limits.js';
import { BodyCodec, type CodedBody, type ReceivedBody, type SecurityStatus } from '../codec/body.js';
import type { ContextParameters } from '../codec/context/parameters.js';
import type { LinkParameters } from '../control/agreement.js';
import { Acknowledgement } from './acknowledgement.js';
import { AliasReader, AliasWriter } from './addressing.js';
import { type ContextUse, LinkContext } from './context-coding.js';
import { BODY_CHARGE, ReceiveCredit, type ReceiveCreditOptions, SendCredit } from './credit.js';
import { decodeFailure, encodeFailure, encodeVerdict } from './failure.js';
import {
  decodeLinkFrame,
  encodeSignalFrame,
  isBodyKind,
  isCounted,
  type LinkFrame,
  LinkKind,
  type OutgoingBody,
} from './frame.js';
import type { Outbox, OutboxListener } from './outbox.js';
import { type BodyPiece, PieceTracker } from './pieces.js';
import type { RateLimiter } from './rates.js';
import { Assembler, isPinning } from './reassembly.js';
import { Statements } from './statements.js';
import { SourcedBody } from './streamed-body.js';
import { type OpenStream, type Side, StreamTable } from './streams.js';

/**
 * The link: messages, requests and streams of one session over link frames. Knows nothing of
 * sockets, codecs or handlers; takes frames and returns what they mean.
 *
 * Both ends count counted frames per direction and acknowledge by that count; a receiver grants credit
 * as its application consumes.
 */

/** What a link frame meant. */
export type LinkEvent =
  | { readonly type: 'message'; readonly body: ReceivedBody }
  | { readonly type: 'request'; readonly streamId: number; readonly body: ReceivedBody }
  /** A part of a tensor, which is a request that is handed on as it arrives. */
  | { readonly type: 'piece'; readonly streamId: number; readonly piece: BodyPiece }
  | { readonly type: 'part'; readonly streamId: number; readonly body: ReceivedBody }
  | { readonly type: 'response'; readonly streamId: number; readonly body: ReceivedBody }
  | { readonly type: 'end'; readonly streamId: number }
  | { readonly type: 'failure'; readonly streamId: number; readonly error: ProtocolError | RequestError }
  | { readonly type: 'cancel'; readonly streamId: number };

/** A coded body, and what the link needs to know to send it. */
export interface BodyToSend extends CodedBody, Pick<OutgoingBody, 'agent' | 'onWritten' | 'onDropped'> {
  /**
   * Of a request: the reply goes on to another session, so what was received of it counts until it is
   * consumed, although the stream is over.
   */
  readonly relayed?: boolean | undefined;
  /** The result of a scan; sent in `m2m.v1.json` only. */
  readonly securityStatus?: SecurityStatus | undefined;
}

/** A tensor on its way out, of which {@link Link.feed} brings the rest. */
export interface OutgoingTransfer extends Pick<OutgoingBody, 'agent' | 'onWritten'> {
  /** Bytes of the tensor. */
  readonly payloadSize: number;
  /** Bytes of the whole body. */
  readonly totalLength: number;
  /** Its beginning, at least one byte. */
  readonly first: Uint8Array;
  /** The beginning is written. */
  readonly onFirstWritten?: (() => void) | undefined;
}

/** Bytes that a tensor travels with beside its own: the head of its frame, at most, and a checksum. */
export const TRANSFER_OVERHEAD = 65 * 1024;

export interface LinkOptions {
  readonly side: Side;
  /** Bounds of what is received. */
  readonly limits: Limits;
  readonly own: LinkParameters;
  readonly peer: LinkParameters;
  readonly outbox: Outbox;
  /** What the peer may send per time; without it as much as it has credit for. */
  readonly gate?: RateLimiter | undefined;
  /** What both ends keep of earlier messages, where context coding was agreed. */
  readonly context?: ContextParameters | undefined;
  /** Messages and requests may be to and from agents. */
  readonly addressing: boolean;
}

/** Bytes of written frames that may be kept at least, which a peer acknowledges four times over. */
const MIN_RETAINED = 256 * 1024;

export class Link implements OutboxListener {
  readonly #limits: Limits;
  readonly #outbox: Outbox;
  readonly #streams: StreamTable;
  readonly #aliases: AliasReader | undefined;
  readonly #assembler: Assembler;
  readonly #pieces: PieceTracker;
  readonly #sendCredit: SendCredit;
  readonly #receiveCredit: ReceiveCredit;
  readonly #acknowledgement: Acknowledgement;
  readonly #gate: RateLimiter | undefined;
  /** Requests that are not taken, until they have arrived as a whole. */
  #refused: Map<number, ProtocolError> | undefined;
  readonly #context: LinkContext | undefined;
  #framesConfirmed = 0;
  #isCreditHeld = false;
  #isSealed = false;

  constructor({ side, limits, own, peer, outbox, gate, context, addressing }: LinkOptions) {
    this.#limits = limits;
    this.#outbox = outbox;
    this.#gate = gate;
    this.#streams = new StreamTable(side, peer.maxStreams, own.maxStreams);
    this.#aliases = addressing ? new AliasReader() : undefined;
    this.#assembler = new Assembler(limits, this.#aliases);
    this.#pieces = new PieceTracker(
      limits.maxTransferSize + TRANSFER_OVERHEAD,
      limits.maxMetadataSize,
      this.#aliases,
    );
    outbox.aliases = addressing ? new AliasWriter() : undefined;
    this.#sendCredit = new SendCredit(initialCredit(peer));
    const statements = new Statements(outbox);
    this.#acknowledgement = new Acknowledgement(statements);
    this.#receiveCredit = new ReceiveCredit(creditBounds(own, limits), statements);
    this.#context = context && new LinkContext(context, limits.maxMessageSize);
    outbox.credit = this.#sendCredit;
    outbox.context = this.#context;
    outbox.listener = this;
    outbox.maxRetained = Math.max(MIN_RETAINED, 2 * limits.sessionWindow);
  }

  /** Streams that are open in either direction. */
  get openStreams(): number {
    return this.#streams.size;
  }

  /** Counted frames received since the session began. */
  get framesReceived(): number {
    return this.#acknowledgement.received;
  }

  /** Counted frames that the peer has acknowledged. */
  get framesConfirmed(): number {
    return this.#framesConfirmed;
  }

  /** Counted frames that were written and not acknowledged. */
  get framesUnconfirmed(): number {
    return this.#outbox.framesWritten - this.#framesConfirmed;
  }

  /** What is kept of either direction for context coding. */
  get contextUse(): { readonly sent: ContextUse; readonly received: ContextUse } | undefined {
    return this.#context && { sent: this.#context.sent, received: this.#context.received };
  }

  // --- what happens

  /** @throws {ProtocolError} on any violation; the session ends then. */
  handleFrame(bytes: Uint8Array, now: number): LinkEvent | undefined {
    const frame = decodeLinkFrame(bytes);
    const event = isBodyKind(frame.kind) ? this.#handleBody(frame, now) : this.#handleSignal(frame);
    if (isCounted(frame.kind)) this.#acknowledgement.handleReceived(bytes.length, now);
    if (this.#gate?.isClosed) this.#receiveCredit.hold();
    return event;
  }

  /** Charges of bodies that were received and not consumed. */
  get unreadBytes(): number {
    return this.#receiveCredit.unread;
  }

  /** Grants no credit, or as before, whatever the rates say. */
  set isCreditHeld(isHeld: boolean) {
    this.#isCreditHeld = isHeld;
    if (isHeld) this.#receiveCredit.hold();
    else if (this.#gate?.isClosed !== true) this.#receiveCredit.release();
  }

  /** Everything of a stream that waited is written. */
  handleDrained(streamId: number): void {
    if (this.#streams.get(streamId) !== undefined) return;
    this.#sendCredit.forget(streamId);
    this.#streams.release(streamId);
  }

  /** Writes an acknowledgement that is due, and credit that was held back for the rate's sake. */
  handleTimeout(now: number): void {
    this.#acknowledgement.handleTimeout(now);
    if (this.#gate?.handleTimeout(now) && !this.#isCreditHeld) this.#receiveCredit.release();
  }

  /** When either is due, `Infinity` where nothing is. */
  nextTimeout(): number {
    return Math.min(this.#acknowledgement.due, this.#gate?.opensAt ?? Infinity);
  }

  /** CLOSE is said: from here on the link itself writes nothing that is counted either. */
  stopSending(): void {
    this.#isSealed = true;
  }

  /** Acknowledges all that was received without waiting. */
  acknowledge(): void {
    this.#acknowledgement.restate();
  }

  /** The application has taken what a body on `streamId` was charged. Returns whether credit was granted. */
  consume(streamId: number, charge: number): boolean {
    return this.#receiveCredit.consume(streamId, charge);
  }

  /**
   * The peer has received `count` counted frames.
   *
   * @throws {ProtocolError} `bad_frame` where that is more than was written.
   */
  confirm(count: number): void {
    const { framesWritten } = this.#outbox;
    if (count > framesWritten) {
      throw new ProtocolError('bad_frame', `${count} frames acknowledged, ${framesWritten} were sent`);
    }
    this.#framesConfirmed = Math.max(this.#framesConfirmed, count);
    this.#outbox.confirm(this.#framesConfirmed);
  }

  /**
   * The peer's statement in the HELLO or ACCEPT that takes the session up.
   *
   * @param received counted frames that it has received.
   * @throws {ProtocolError} `bad_frame` if that is more than was written, or less than it has acknowledged:
   * those frames are forgotten, and cannot be written again.
   */
  confirmResumed(received: number): void {
    if (received < this.#framesConfirmed) {
      throw new ProtocolError(
        'bad_frame',
        `${received} frames received, ${this.#framesConfirmed} were acknowledged before`,
      );
    }
    this.confirm(received);
  }

  /**
   * Goes on over a new connection: what the peer has not received is written again, and credit and
   * acknowledgement are stated anew. Credit only concerns streams on which the peer has sent, so it names none
   * whose request is still to be written again.
   *
   * @param received counted frames that the peer has received.
   * @throws {ProtocolError} as {@link confirmResumed}.
   */
  resume(received: number): void {
    this.confirmResumed(received);
    this.#outbox.replayFrom(received);
    this.#receiveCredit.restate();
    this.#acknowledgement.restate();
  }

  // --- commands

  send(coded: BodyToSend): void {
    this.#outbox.pushBody(bodyOf(LinkKind.MESSAGE, 0, coded));
  }

  /** Opens a stream and returns its ID. @throws {ProtocolError} `too_many_streams`. */
  request(coded: BodyToSend): number {
    const { id } = this.#streams.open(coded.relayed);
    this.#outbox.pushBody(bodyOf(LinkKind.REQUEST, id, coded));
    return id;
  }

  /** Opens a stream with a tensor and returns its ID. @throws {ProtocolError} `too_many_streams`. */
  transfer({ totalLength, first, onFirstWritten, agent, onWritten }: OutgoingTransfer): number {
    const { id: streamId } = this.#streams.open();
    const { REQUEST: kind } = LinkKind;
    const body = new SourcedBody({ kind, streamId, codec: BodyCodec.AVP, totalLength, agent, onWritten });
    body.feed(first, onFirstWritten);
    this.#outbox.pushSource(body);
    return streamId;
  }

  /** The next bytes of a transfer, at least one; nothing where it is over. */
  feed(streamId: number, bytes: Uint8Array, onWritten?: () => void): void {
    this.#outbox.feed(streamId, bytes, onWritten);
  }

  /** The single reply to a request. Replies to a cancelled stream become the answer to the cancel. */
  respond(streamId: number, coded: BodyToSend): void {
    const stream = this.#answering(streamId);
    if (stream === undefined) return;
    if (stream.cancelled) this.#pushEnd(streamId);
    else this.#outbox.pushBody(bodyOf(LinkKind.RESPONSE, streamId, coded));
    this.#settle(streamId, stream);
  }

  /** One part of a reply. */
  chunk(streamId: number, coded: BodyToSend): void {
    if (this.#answering(streamId)?.cancelled !== false) return;
    this.#outbox.pushBody(bodyOf(LinkKind.CHUNK, streamId, coded));
  }

  end(streamId: number): void {
    if (this.#answering(streamId) === undefined) return;
    this.#pushEnd(streamId);
    this.#finish(streamId);
  }

  fail(streamId: number, error: unknown): void {
    this.#fail(streamId, encodeFailure(error));
  }

  /** A tensor is not taken, and its sender is told why. What still arrives of it is dropped. */
  refuse(streamId: number, error: ProtocolError): void {
    this.#fail(streamId, encodeVerdict(error));
  }

  #fail(streamId: number, failure: Uint8Array): void {
    const stream = this.#answering(streamId);
    if (stream === undefined) return;
    if (stream.cancelled) this.#pushEnd(streamId);
    else {
      const frame = encodeSignalFrame(LinkKind.ERROR, streamId, failure);
      const context = this.#context;
      const written = () => {
        context?.handleFailed(streamId);
        return frame;
      };
      this.#outbox.pushBehind(streamId, context === undefined ? frame : written);
    }
    this.#settle(streamId, stream);
  }

  /** The opener wants no more. `true` where the stream is over at once, as the peer never knew of it. */
  cancel(streamId: number): boolean {
    const stream = this.#streams.get(streamId);
    if (stream === undefined || !stream.local || stream.cancelled) return false;
    if (!this.#outbox.drop(streamId)) {
      // Nothing of it was written, so the peer never hears of it.
      this.#finish(streamId);
      return true;
    }
    stream.cancelled = true;
    this.#pushCancel(streamId);
    return false;
  }

  /** Whether the far end of `streamId` still wants what would be sent. */
  isWanted(streamId: number): boolean {
    return this.#streams.get(streamId)?.cancelled === false;
  }

  // --- frames

  #handleBody(frame: LinkFrame, now: number): LinkEvent | undefined {
    const { kind, streamId } = frame;
    if (kind === LinkKind.MESSAGE) {
      if (streamId !== 0) throw new ProtocolError('bad_frame', 'one-way messages travel on stream 0');
      assertNoTensor(frame);
      if (!this.#assembler.isPending(0)) this.#gate?.handleMessage(now);
      const whole = this.#take(frame);
      return whole && { type: 'message', body: whole };
    }
    if (kind === LinkKind.REQUEST) return this.#handleRequest(frame, now);
    assertNoTensor(frame);
    const stream = this.#asked(streamId);
    if (stream === undefined) return undefined;
    const whole = this.#take(frame);
    if (whole === undefined) return undefined;
    if (kind === LinkKind.RESPONSE) this.#finish(streamId);
    if (stream.cancelled) {
      // Discarded, which is as good as consumed.
      this.#receiveCredit.consume(streamId, whole.charge);
      return kind === LinkKind.RESPONSE ? { type: 'end', streamId } : undefined;
    }
    return { type: kind === LinkKind.RESPONSE ? 'response' : 'part', streamId, body: whole };
  }

  #handleRequest(frame: LinkFrame, now: number): LinkEvent | undefined {
    const { streamId } = frame;
    const isTransfer = this.#pieces.isPending(streamId);
    // Any but the first frame of a fragmented request finds its stream open.
    if (!isTransfer && !this.#assembler.isPending(streamId)) {
      const stream = this.#streams.accept(streamId);
      const error = this.#gate?.handleRequest(now);
      if (frame.codec === BodyCodec.AVP) {
        stream.isTransfer = true;
        return this.#takePiece(frame, error);
      }
      if (error !== undefined) {
        this.#refused ??= new Map();
        this.#refused.set(streamId, error);
      }
    }
    if (isTransfer) return this.#takePiece(frame);
    const whole = this.#take(frame);
    if (whole === undefined) return undefined;
    const error = this.#refused?.get(streamId);
    if (error === undefined) return { type: 'request', streamId, body: whole };
    this.#receiveCredit.consume(streamId, whole.charge);
    this.fail(streamId, error);
    return undefined;
  }

  #handleSignal(frame: LinkFrame): LinkEvent | undefined {
    switch (frame.kind) {
      case LinkKind.END:
        return this.#handleEnd(frame);
      case LinkKind.ERROR: {
        if (this.#asked(frame.streamId) === undefined) return undefined;
        const error = decodeFailure(frame.rest, this.#limits.maxJsonDepth);
        this.#context?.receiveError(frame.streamId);
        this.#finish(frame.streamId);
        return { type: 'failure', streamId: frame.streamId, error };
      }
      case LinkKind.CANCEL:
        return this.#handleCancel(frame);
      case LinkKind.ALIAS:
        if (this.#aliases === undefined)
          throw new ProtocolError('bad_frame', 'addressing was not negotiated');
        // The number stands where other kinds have the stream ID.
        this.#aliases.handleAlias(frame.streamId, frame.rest);
        return undefined;
      case LinkKind.ACK:
        if (frame.rest.length !== 0)
          throw new ProtocolError('trailing_bytes', 'an ack frame holds one count');
        // The count stands where other kinds have the stream ID.
        this.confirm(frame.streamId);
        return undefined;
      default:
        this.#handleCredit(frame);
        return undefined;
    }
  }

  #handleEnd({ streamId, rest }: LinkFrame): LinkEvent | undefined {
    const stream = this.#asked(streamId);
    if (stream === undefined) return undefined;
    // A cancelled stream may end anywhere.
    if (this.#assembler.isPending(streamId) && !stream.cancelled) {
      throw new ProtocolError('bad_frame', 'a stream ended inside a body');
    }
    if (this.#context !== undefined) this.#context.receiveEnd(streamId, rest);
    else if (rest.length > 0) throw new ProtocolError('trailing_bytes', 'an end frame has no body');
    this.#finish(streamId);
    return { type: 'end', streamId };
  }

  #handleCancel({ streamId, rest }: LinkFrame): LinkEvent | undefined {
    if (rest.length !== 0) throw new ProtocolError('trailing_bytes', 'a cancel frame has no body');
    if (this.#streams.isLocal(streamId) || !this.#streams.wasOpened(streamId)) {
      throw new ProtocolError('bad_frame', `stream ${streamId} is not the peer's to cancel`);
    }
    const stream = this.#streams.get(streamId);
    if (stream?.cancelled) return undefined;
    const waits = this.#outbox.has(streamId);
    if (waits) this.#outbox.drop(streamId);
    // No handler runs for a tensor, so the link answers, also while it waits to be accepted.
    if (stream?.isTransfer) {
      const wasRefused = stream.answered;
      this.#finish(streamId);
      // What was refused is answered already, unless the answer has just been dropped.
      if ((!wasRefused || waits) && !this.#isSealed) this.#pushEnd(streamId);
      return wasRefused ? undefined : { type: 'cancel', streamId };
    }
    if (stream !== undefined && !this.#assembler.isPending(streamId)) {
      stream.cancelled = true;
      return { type: 'cancel', streamId };
    }
    // No handler runs: it has not begun, as the request is not whole, or it has finished, and its
    // reply still waited. So the link answers.
    if (stream !== undefined || waits) {
      this.#context?.receiveCancel(streamId);
      this.#finish(streamId);
      if (!this.#isSealed) this.#pushEnd(streamId);
    }
    return undefined;
  }

  #handleCredit({ streamId, rest }: LinkFrame): void {
    const reader = new ByteReader(rest);
    const limit = reader.varint('the credit limit');
    reader.expectEnd('a credit frame');
    if (streamId !== 0 && !this.#streams.wasOpened(streamId)) {
      throw new ProtocolError('bad_frame', `credit for stream ${streamId}, which was never opened`);
    }
    // Late credit for a stream that is over would only be kept for ever.
    const isLive = streamId === 0 || this.#streams.get(streamId) !== undefined || this.#outbox.has(streamId);
    if (isLive && this.#sendCredit.raise(streamId, limit)) this.#outbox.unblock(streamId);
  }

  /**
   * Charges a frame of a tensor, which is handed on.
   *
   * @param error why the tensor is not taken, told with its first frame.
   */
  #takePiece(frame: LinkFrame, error?: ProtocolError): LinkEvent | undefined {
    const { streamId } = frame;
    const piece = this.#pieces.add(frame);
    this.#receiveCredit.receive(streamId, piece.charge, 0);
    if (error !== undefined) this.fail(streamId, error);
    const stream = this.#streams.get(streamId);
    if (stream?.answered === false) return { type: 'piece', streamId, piece };
    // Refused, and the sender has not heard of it yet.
    this.#receiveCredit.consume(streamId, piece.charge);
    if (stream !== undefined && !this.#pieces.isPending(streamId)) this.#finish(streamId);
    return undefined;
  }

  /** Puts a body together and charges its frames. */
  #take(frame: LinkFrame): ReceivedBody | undefined {
    const { streamId, rest } = frame;
    const isFirst = !this.#assembler.isPending(streamId);
    const charge = rest.length + (isFirst ? BODY_CHARGE : 0);
    const added = this.#assembler.add(frame);
    this.#receiveCredit.receive(streamId, charge, this.#assembler.missing(streamId));
    // Read at once, it costs nothing; unread, a message of a byte would keep 64 KiB of what came with it.
    const whole = added !== undefined && this.#receiveCredit.unread > MAX_PINNED ? unpinned(added) : added;
    return frame.codec === BodyCodec.CONTEXT ? this.#takeInContext(frame, isFirst, whole) : whole;
  }

  #takeInContext(
    frame: LinkFrame,
    isFirst: boolean,
    whole: ReceivedBody | undefined,
  ): ReceivedBody | undefined {
    const { kind, streamId } = frame;
    if (this.#context === undefined) {
      throw new ProtocolError('bad_frame', 'a body in context, which was not negotiated');
    }
    if (isFirst) {
      this.#context.receiveFirst(frame, whole?.bytes ?? this.#assembler.firstBytes(streamId) ?? NOTHING);
    }
    if (whole === undefined) return undefined;
    const decoded = this.#context.receive(whole, streamId, kind === LinkKind.CHUNK);
    this.#receiveCredit.overdraw(streamId, decoded.charge - whole.charge);
    return decoded;
  }

  /**
   * The stream that this end asked on; `undefined` where it is closed, as a frame for a stream that was
   * known may come late and is dropped.
   */
  #asked(streamId: number): OpenStream | undefined {
    if (!this.#streams.isLocal(streamId) || !this.#streams.wasOpened(streamId)) {
      throw new ProtocolError('bad_frame', `stream ${streamId} was not opened by this end`);
    }
    return this.#streams.get(streamId);
  }

  /** The stream that this end answers on, while it is open. */
  #answering(streamId: number): OpenStream | undefined {
    const stream = this.#streams.get(streamId);
    return stream === undefined || stream.local || stream.answered ? undefined : stream;
  }

  /** The answer is given. A request that is not whole yet keeps its stream until it is, or is cancelled. */
  #settle(streamId: number, stream: OpenStream): void {
    if (this.#pieces.isPending(streamId)) stream.answered = true;
    else this.#finish(streamId);
  }

  /** Follows at once on what was dropped: no body is written in between. */
  #pushCancel(streamId: number): void {
    this.#context?.handleDropped(streamId);
    this.#outbox.pushSignal(encodeSignalFrame(LinkKind.CANCEL, streamId));
  }

  #pushEnd(streamId: number): void {
    const context = this.#context;
    this.#outbox.pushBehind(
      streamId,
      context === undefined ? encodeSignalFrame(LinkKind.END, streamId) : () => context.endFrame(streamId),
    );
  }

  #finish(streamId: number): void {
    const unfinished = this.#assembler.drop(streamId);
    this.#pieces.drop(streamId);
    if (this.#streams.get(streamId)?.relayed) this.#receiveCredit.closeUnread(streamId, unfinished);
    else this.#receiveCredit.close(streamId);
    this.#refused?.delete(streamId);
    const isLocal = this.#streams.isLocal(streamId);
    // Answered before all of the request was written: nobody wants the rest.
    if (isLocal && this.#outbox.has(streamId) && this.#outbox.drop(streamId)) this.#pushCancel(streamId);
    const isWritten = !this.#outbox.has(streamId);
    if (isWritten || isLocal) this.#streams.close(streamId);
    else this.#streams.closeBehind(streamId);
    if (isWritten) this.#sendCredit.forget(streamId);
  }
}

/** @throws {ProtocolError} `bad_frame`. */
function assertNoTensor({ codec }: LinkFrame): void {
  if (codec === BodyCodec.AVP) throw new ProtocolError('bad_frame', 'tensors travel as requests');
}

const bodyOf = (kind: OutgoingBody['kind'], streamId: number, coded: BodyToSend): OutgoingBody => ({
  kind,
  streamId,
  codec: coded.codec,
  bytes: coded.bytes,
  originalLength: coded.originalLength,
  secret: coded.secret,
  metadata: coded.metadata,
  deferred: coded.deferred,
  agent: coded.agent,
  alias: undefined,
  onWritten: coded.onWritten,
  onDropped: coded.onDropped,
});

const NOTHING = new Uint8Array(0);

/** Unread charges up to which bodies may be views of the buffers that they were read into. */
const MAX_PINNED = 16 * 1024;

function unpinned(body: ReceivedBody): ReceivedBody {
  const { bytes, metadata } = body;
  if (!isPinning(bytes)) return body;
  return { ...body, bytes: new Uint8Array(bytes), metadata: metadata && new Uint8Array(metadata) };
}

const initialCredit = ({ messageWindow, streamWindow }: LinkParameters) => ({
  messages: messageWindow,
  stream: streamWindow,
});

/** Half of the session window is for shares, what stream 0 has more than one share comes from the rest. */
function creditBounds(own: LinkParameters, limits: Limits): ReceiveCreditOptions {
  const initial = initialCredit(own);
  const beyondShare = Number.isFinite(initial.messages) ? initial.messages - initial.stream : 0;
  return {
    initial,
    maxShare: limits.streamWindow,
    pool: Math.max(0, limits.sessionWindow / 2 - beyondShare),
    maxOverrun: limits.maxMessageSize,
  };
}
