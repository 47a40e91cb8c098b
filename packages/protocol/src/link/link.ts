import { ByteReader } from '../base/bytes.js';
import { ProtocolError } from '../base/errors.js';
import type { Limits } from '../base/limits.js';
import type { Loadable } from '../base/loadable.js';
import type { ContextParameters } from '../codec/context/parameters.js';
import type { LinkParameters } from '../control/agreement.js';
import { Acknowledgement } from './acknowledgement.js';
import { type Addressing, AliasReader, AliasWriter } from './addressing.js';
import { type BodyToSend, bodyOf } from './body-to-send.js';
import { type ContextUse, LinkContext } from './context-coding.js';
import { ReceiveCredit, type ReceiveCreditOptions, SendCredit } from './credit.js';
import { decodeLinkFrame, isCounted, isOfStream, type LinkFrame, LinkKind } from './frame.js';
import type { LinkStreams } from './link-streams.js';
import type { Outbox } from './outbox.js';
import type { OutboxListener } from './outbox-parts.js';
import type { RateLimiter } from './rates.js';
import { Assembler } from './reassembly.js';
import { type LinkEvent, Receiver } from './receiver.js';
import type { StreamParts } from './stream-closer.js';
import { type LastStreams, type Side, StreamTable } from './streams.js';

export type { BodyToSend } from './body-to-send.js';
export type { OutgoingTransfer } from './link-streams.js';
export type { LinkEvent } from './receiver.js';

/** The code of the half of a link that only streams need. */
export interface StreamsModule {
  readonly LinkStreams: typeof LinkStreams;
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
  /** The code of requests, answers and tensors. */
  readonly streams: Pick<Loadable<StreamsModule>, 'get'>;
  /** The last streams of the link that this one replaces. @default none */
  readonly last?: LastStreams | undefined;
}

/** Everything that holds state of a link. */
export interface LinkParts extends StreamParts {
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
export class Link implements OutboxListener {
  readonly #outbox: Outbox;
  readonly #streams: StreamTable;
  readonly #receiver: Receiver;
  readonly #sendCredit: SendCredit;
  readonly #receiveCredit: ReceiveCredit;
  readonly acknowledgement: Acknowledgement;
  readonly #limits: Limits;
  readonly #gate: RateLimiter | undefined;
  readonly #context: LinkContext | undefined;
  readonly #assembler: Assembler;
  readonly #code: LinkOptions['streams'];
  /** Made with the first request, in either direction. */
  #half: LinkStreams | undefined;
  #framesConfirmed = 0;
  #isCreditHeld = false;
  #isStopped = false;

  constructor(options: LinkOptions) {
    const { side, limits, own, peer, outbox, gate, context: parameters, addressing, last } = options;
    const streams = new StreamTable(side, peer.maxStreams, own.maxStreams, last);
    const sendCredit = new SendCredit(initialCredit(peer));
    const receiveCredit = new ReceiveCredit(creditBounds(own, limits), outbox);
    const context = parameters && new LinkContext(parameters, limits.maxMessageSize);
    const aliases = addressing && new AliasReader(addressing);
    const assembler = new Assembler(limits, aliases);
    const acknowledgement = new Acknowledgement(outbox);
    this.#outbox = outbox;
    this.#streams = streams;
    this.#limits = limits;
    this.#code = options.streams;
    this.#receiver = new Receiver({ assembler, receiveCredit, context, gate, aliases });
    this.#sendCredit = sendCredit;
    this.#receiveCredit = receiveCredit;
    this.acknowledgement = acknowledgement;
    this.#gate = gate;
    this.#context = context;
    this.#assembler = assembler;
    if (gate?.isClosed) receiveCredit.hold();
    outbox.attach({
      credit: sendCredit,
      context,
      aliases: addressing && new AliasWriter(),
      listener: this,
      acknowledgement,
      maxRetained: Math.max(MIN_RETAINED, 2 * limits.sessionWindow),
    });
  }

  /** Open streams of both ends. */
  get openStreams(): number {
    return this.#streams.size;
  }

  /** See `Channel`. */
  get freeStreams(): number {
    return this.#streams.free;
  }
  get maxStreams(): number {
    return this.#streams.maxLocal;
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

  /** The parts that hold its state beside the counts of frames, for a link that replaces it and for snapshots. */
  get parts(): LinkParts {
    return {
      streams: this.#streams,
      outbox: this.#outbox,
      assembler: this.#assembler,
      sendCredit: this.#sendCredit,
      receiveCredit: this.#receiveCredit,
      context: this.#context,
      aliases: this.#receiver.aliases,
    };
  }

  /** Its requests, answers and tensors. @throws {ProtocolError} `codec_not_loaded` */
  get streams(): LinkStreams {
    if (this.#half === undefined) {
      const receiver = this.#receiver;
      const { LinkStreams } = this.#code.get();
      const take = (frame: LinkFrame) => receiver.take(frame);
      this.#half = new LinkStreams({ ...this.parts, limits: this.#limits, gate: this.#gate, take });
      this.#half.isStopped = this.#isStopped;
    }
    return this.#half;
  }

  /** Everything queued on a stream is written, perhaps by the link that this one continues from. */
  handleDrained(streamId: number): void {
    this.streams.handleDrained(streamId);
  }

  // --- input

  /** @throws {ProtocolError} on any violation; the session ends then. */
  handleFrame(bytes: Uint8Array, now: number): LinkEvent | undefined {
    const frame = decodeLinkFrame(bytes);
    let event: LinkEvent | undefined;
    if (isCounted(frame.kind)) {
      event = (isOfStream(frame.kind) ? this.streams : this.#receiver).handle(frame, now);
      this.acknowledgement.handleReceived(bytes.length, now);
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
    this.acknowledgement.handleTimeout(now);
    if (this.#gate?.handleTimeout(now) && !this.#isCreditHeld) this.#receiveCredit.resume();
  }

  /** Clock reading at which {@link handleTimeout} has something to do; `Infinity` if it has nothing. */
  nextTimeout(): number {
    return Math.min(this.acknowledgement.due, this.#gate?.opensAt ?? Infinity);
  }

  // --- acknowledgement

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
    this.acknowledgement.send();
  }

  /**
   * CLOSE follows: from now on the link queues no counted frame on its own account. Received frames are acknowledged first,
   * as the peer of an end that goes away right after its CLOSE cannot tell otherwise whether its frames were received.
   */
  stopSending(): void {
    if (this.acknowledgement.due < Infinity) this.acknowledgement.send();
    this.#isStopped = true;
    if (this.#half !== undefined) this.#half.isStopped = true;
  }

  // --- commands

  /** Sends a one-way message. */
  send(coded: BodyToSend): void {
    this.#outbox.pushBody(bodyOf(LinkKind.MESSAGE, 0, coded));
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
