import { ByteReader } from '../base/bytes.js';
import { ProtocolError } from '../base/errors.js';
import type { Limits } from '../base/limits.js';
import { BodyCodec } from '../codec/body.js';
import type { ContextParameters } from '../codec/context/parameters.js';
import type { LinkParameters } from '../control/agreement.js';
import { Acknowledgement } from './acknowledgement.js';
import { type Addressing, AliasReader, AliasWriter } from './addressing.js';
import { type BodyToSend, bodyOf } from './body-to-send.js';
import { type ContextUse, LinkContext } from './context-coding.js';
import { ReceiveCredit, type ReceiveCreditOptions, SendCredit } from './credit.js';
import { encodeFailure, encodeVerdict } from './failure.js';
import {
  decodeLinkFrame,
  encodeSignalFrame,
  isCounted,
  type LinkFrame,
  LinkKind,
  type OutgoingBody,
} from './frame.js';
import type { Outbox } from './outbox.js';
import type { RateLimiter } from './rates.js';
import { Assembler } from './reassembly.js';
import { type LinkEvent, Receiver } from './receiver.js';
import { StreamCloser, type StreamParts } from './stream-closer.js';
import { StreamedBody } from './streamed-body.js';
import { type LastStreams, type Side, StreamTable } from './streams.js';

export type { BodyToSend } from './body-to-send.js';
export type { LinkEvent } from './receiver.js';

/** A tensor to be sent. {@link Link.feed} brings the bytes after the first ones. */
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

export interface LinkOptions {
  readonly side: Side;
  /** Limits for what is received. */
  readonly limits: Limits;
  readonly own: LinkParameters;
  readonly peer: LinkParameters;
  readonly outbox: Outbox;
  /** Rates that the peer has to keep; without it the peer may send as much as it has credit for. */
  readonly gate?: RateLimiter | undefined;
  /** Set if context coding was negotiated. */
  readonly context?: ContextParameters | undefined;
  /** The names that messages and requests may be addressed to. @default none */
  readonly addressing: Addressing | undefined;
  /** The last streams of the link that this one replaces. @default none */
  readonly last?: LastStreams | undefined;
}

/** Everything that holds state of a link. */
export interface LinkParts extends StreamParts {
  readonly acknowledgement: Acknowledgement;
  readonly aliases: AliasReader | undefined;
}

/** Least memory for unconfirmed frames: four times the bytes after which a peer acknowledges. */
const MIN_RETAINED = 256 * 1024;

/**
 * The link: messages, requests and streams of one session over link frames. It knows no sockets, codecs or
 * handlers: frames go in and events come out, commands go in and frames come out of the outbox.
 *
 * Both ends count the counted frames of each direction, and acknowledge by that count. A receiver grants
 * credit as its application consumes.
 */
export class Link {
  readonly #outbox: Outbox;
  readonly #streams: StreamTable;
  readonly #closer: StreamCloser;
  readonly #receiver: Receiver;
  readonly #sendCredit: SendCredit;
  readonly #receiveCredit: ReceiveCredit;
  readonly #acknowledgement: Acknowledgement;
  readonly #gate: RateLimiter | undefined;
  readonly #context: LinkContext | undefined;
  readonly #assembler: Assembler;
  #framesConfirmed = 0;
  #isCreditHeld = false;

  constructor(options: LinkOptions) {
    const { side, limits, own, peer, outbox, gate, context: parameters, addressing, last } = options;
    const streams = new StreamTable(side, peer.maxStreams, own.maxStreams, last);
    const sendCredit = new SendCredit(initialCredit(peer));
    const receiveCredit = new ReceiveCredit(creditBounds(own, limits), outbox);
    const context = parameters && new LinkContext(parameters, limits.maxMessageSize);
    const aliases = addressing && new AliasReader(addressing);
    const assembler = new Assembler(limits, aliases);
    const parts = { streams, outbox, assembler, sendCredit, receiveCredit, context };
    const closer = new StreamCloser(parts);
    this.#outbox = outbox;
    this.#streams = streams;
    this.#closer = closer;
    this.#receiver = new Receiver({ ...parts, limits, gate, aliases, closer });
    this.#sendCredit = sendCredit;
    this.#receiveCredit = receiveCredit;
    this.#acknowledgement = new Acknowledgement(outbox);
    this.#gate = gate;
    this.#context = context;
    this.#assembler = assembler;
    if (gate?.isClosed) receiveCredit.hold();
    outbox.attach({
      credit: sendCredit,
      context,
      aliases: addressing && new AliasWriter(),
      listener: closer,
      maxRetained: Math.max(MIN_RETAINED, 2 * limits.sessionWindow),
    });
  }

  /** Open streams of both ends. */
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

  /** The messages kept for context coding in either direction. */
  get contextUse(): { readonly sent: ContextUse; readonly received: ContextUse } | undefined {
    return this.#context && { sent: this.#context.sent, received: this.#context.received };
  }

  /** Bytes of memory of packed messages that are kept for context coding. */
  get packedBytes(): number {
    return this.#context?.packedBytes ?? 0;
  }

  /** Charges of bodies that were received and not consumed. */
  get unreadBytes(): number {
    return this.#receiveCredit.unread;
  }

  /** What holds its state beside the counts of frames, for a link that replaces it and for snapshots. */
  get parts(): LinkParts {
    return {
      streams: this.#streams,
      outbox: this.#outbox,
      assembler: this.#assembler,
      sendCredit: this.#sendCredit,
      receiveCredit: this.#receiveCredit,
      acknowledgement: this.#acknowledgement,
      context: this.#context,
      aliases: this.#receiver.aliases,
    };
  }

  // --- input

  /** @throws {ProtocolError} on any violation; the session ends then. */
  handleFrame(bytes: Uint8Array, now: number): LinkEvent | undefined {
    const frame = decodeLinkFrame(bytes);
    let event: LinkEvent | undefined;
    if (isCounted(frame.kind)) {
      event = this.#receiver.handle(frame, now);
      this.#acknowledgement.handleReceived(bytes.length, now);
    } else if (frame.kind === LinkKind.ACK) this.#handleAck(frame);
    else this.#handleCredit(frame);
    if (this.#gate?.isClosed) this.#receiveCredit.hold();
    return event;
  }

  /** The count takes the place of the stream ID. */
  #handleAck({ streamId: count, rest }: LinkFrame): void {
    if (rest.length !== 0) throw new ProtocolError('trailing_bytes', 'an ack frame holds one count');
    this.confirm(count);
  }

  #handleCredit({ streamId, rest }: LinkFrame): void {
    const reader = new ByteReader(rest);
    const limit = reader.varint('the credit limit');
    reader.expectEnd('a credit frame');
    if (streamId !== 0 && !this.#streams.wasOpened(streamId)) {
      throw new ProtocolError('bad_frame', `credit for stream ${streamId}, which was never opened`);
    }
    // Credit may arrive after the end of its stream, and would then be kept forever.
    const isLive = streamId === 0 || this.#streams.get(streamId) !== undefined || this.#outbox.has(streamId);
    if (isLive && this.#sendCredit.raise(streamId, limit)) this.#outbox.unblock(streamId);
  }

  /** The application has read a body on `streamId` with this charge. Returns whether credit was granted. */
  consume(streamId: number, charge: number): boolean {
    return this.#receiveCredit.consume(streamId, charge);
  }

  /** The peer gets no credit: {@link isCreditHeld} was set, or its rates do not allow that. */
  get isCreditHeld(): boolean {
    return this.#isCreditHeld || this.#gate?.isClosed === true;
  }

  /** While `true`, the peer gets no credit, even if its rates would allow that. */
  set isCreditHeld(isHeld: boolean) {
    this.#isCreditHeld = isHeld;
    if (isHeld) this.#receiveCredit.hold();
    else if (this.#gate?.isClosed !== true) this.#receiveCredit.resume();
  }

  /** Sends a due acknowledgement, and credit that was held back because of the peer's rates. */
  handleTimeout(now: number): void {
    this.#acknowledgement.handleTimeout(now);
    if (this.#gate?.handleTimeout(now) && !this.#isCreditHeld) this.#receiveCredit.resume();
  }

  /** Clock reading at which {@link handleTimeout} has something to do; `Infinity` if it has nothing. */
  nextTimeout(): number {
    return Math.min(this.#acknowledgement.due, this.#gate?.opensAt ?? Infinity);
  }

  // --- acknowledgement

  /** Acknowledges at most `count` frames from now on. */
  acknowledgeUpTo(count: number, now: number): void {
    this.#acknowledgement.raise(count, now);
  }

  /** Acknowledges all received frames at once. */
  acknowledge(): void {
    this.#acknowledgement.send();
  }

  /**
   * The peer has received `count` counted frames.
   *
   * @throws {ProtocolError} `bad_frame` if that is more than were written.
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
   * The peer's count in the HELLO or ACCEPT that resumes the session.
   *
   * @param received counted frames that the peer has received.
   * @throws {ProtocolError} `bad_frame` if that is more than were written, or fewer than it has acknowledged:
   * those frames are forgotten and cannot be written again.
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
   * Continues on a new connection: writes again the frames that the peer has not received, and sends all
   * credit and the acknowledgement again. Credit only concerns streams on which the peer has sent something,
   * so it names none whose request is yet to be written again.
   *
   * @param received counted frames that the peer has received.
   * @throws {ProtocolError} as {@link confirmResumed}.
   */
  resume(received: number): void {
    this.confirmResumed(received);
    this.#outbox.replayFrom(received);
    this.#receiveCredit.resend();
    this.#acknowledgement.send();
  }

  /** CLOSE was sent: from now on the link queues no counted frame on its own account. */
  stopSending(): void {
    this.#closer.isStopped = true;
  }

  // --- commands

  /** Sends a one-way message. */
  send(coded: BodyToSend): void {
    this.#outbox.pushBody(bodyOf(LinkKind.MESSAGE, 0, coded));
  }

  /** Opens a stream and returns its ID. @throws {ProtocolError} `too_many_streams`. */
  request(coded: BodyToSend): number {
    const { id } = this.#streams.open(coded.relayed);
    this.#outbox.pushBody(bodyOf(LinkKind.REQUEST, id, coded));
    return id;
  }

  /** Writes the request of a stream again that was opened on the link before this one. */
  repeat(streamId: number, coded: BodyToSend): void {
    this.#outbox.pushBody(bodyOf(LinkKind.REQUEST, streamId, coded));
  }

  /** Tells the peer again that a request is cancelled. */
  repeatCancel(streamId: number): void {
    this.#outbox.pushSignal(encodeSignalFrame(LinkKind.CANCEL, streamId));
  }

  /** Opens a stream with a tensor and returns its ID. @throws {ProtocolError} `too_many_streams`. */
  transfer({ totalLength, first, onFirstWritten, address, onWritten }: OutgoingTransfer): number {
    const { id: streamId } = this.#streams.open();
    const { REQUEST: kind } = LinkKind;
    const body = new StreamedBody({ kind, streamId, codec: BodyCodec.AVP, totalLength, address, onWritten });
    body.feed(first, onFirstWritten);
    this.#outbox.pushBody(body);
    return streamId;
  }

  /** The next bytes of a transfer, at least one; ignored if the transfer is over. */
  feed(streamId: number, bytes: Uint8Array, onWritten?: () => void): void {
    this.#outbox.feed(streamId, bytes, onWritten);
  }

  /** Answers a request with a single reply. A cancelled stream is ended instead. */
  respond(streamId: number, coded: BodyToSend): void {
    this.#closer.respond(bodyOf(LinkKind.RESPONSE, streamId, coded));
  }

  /** Sends one part of a reply; ignored on a cancelled stream. */
  chunk(streamId: number, coded: BodyToSend): void {
    if (this.#streams.answerable(streamId)?.cancelled !== false) return;
    this.#outbox.pushBody(bodyOf(LinkKind.CHUNK, streamId, coded));
  }

  /** Ends a reply in parts. */
  end(streamId: number): void {
    this.#closer.end(streamId);
  }

  /** Answers a request with the error that its handler threw. */
  fail(streamId: number, error: unknown): void {
    this.#closer.fail(streamId, encodeFailure(error));
  }

  /** Answers a request with an error that was encoded before. */
  failWith(streamId: number, failure: Uint8Array): void {
    this.#closer.fail(streamId, failure);
  }

  /** Refuses a tensor and sends the reason. The rest of it is dropped as it arrives. */
  refuse(streamId: number, error: ProtocolError): void {
    this.#closer.fail(streamId, encodeVerdict(error));
  }

  /** Cancels a request. Returns `true` if the stream is over at once, as the peer never heard of it. */
  cancel(streamId: number): boolean {
    return this.#closer.cancel(streamId);
  }

  /** Whether the peer still wants what would be sent on `streamId`. */
  isWanted(streamId: number): boolean {
    return this.#streams.get(streamId)?.cancelled === false;
  }
}

const initialCredit = ({ messageWindow, streamWindow }: LinkParameters) => ({
  messages: messageWindow,
  stream: streamWindow,
});

/** Half of the session window is for shares. Stream 0 gets more than one, at the expense of the other half. */
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
