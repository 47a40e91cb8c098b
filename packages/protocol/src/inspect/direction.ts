import { ProtocolError } from '../base/errors.js';
import type { Limits } from '../base/limits.js';
import { BodyCodec } from '../codec/body.js';
import { ContextDecoder } from '../codec/context/decoder.js';
import type { ContextParameters } from '../codec/context/parameters.js';
import { decodeBodyHead, isBodyKind, isCounted, LinkFlag, type LinkFrame, LinkKind } from '../link/frame.js';
import { Assembler } from '../link/reassembly.js';
import type { Continuation } from './explanation.js';
import { catchFault } from './report.js';

/** Facts about a link frame that it does not state itself and only the session knows. */
export interface FrameContext {
  /** The body that the frame continues, unless it begins one. */
  readonly continues: Continuation | undefined;
  /** The message, if this frame completes a body in context. */
  readonly decoded: Uint8Array | undefined;
  /** Set if the frame was seen before. */
  readonly isReplayed: true | undefined;
}

/** More unfinished bodies than any limit allows are not followed. */
const MAX_BODIES = 4096;

/**
 * Follows the link frames of one direction of a session. Frames are numbered as both ends number them, so
 * that frames replayed on a new connection are recognised.
 */
export class DirectionFollower {
  readonly #limits: Limits;
  readonly #context: ContextFollower | undefined;
  /** Unfinished bodies by stream, as of the newest frame. */
  readonly #open = new Map<number, Continuation>();
  /** Bodies that unconfirmed frames continue, by the frame's number. */
  readonly #continued = new Map<number, Continuation>();
  /** Number of the next frame. */
  #next = 0;
  /** Number of the first frame that was not seen yet. */
  #newest = 0;

  /** @param parameters set if context was negotiated. */
  constructor(limits: Limits, parameters?: ContextParameters) {
    this.#limits = limits;
    this.#context = parameters && new ContextFollower(parameters, limits);
  }

  /** Takes the next frame. Frames that are not counted have no number and change nothing here. */
  next(frame: LinkFrame): FrameContext {
    const number = this.#next;
    const isReplayed = number < this.#newest;
    const continues = isBodyKind(frame.kind)
      ? isReplayed
        ? this.#continued.get(number)
        : this.#open.get(frame.streamId)
      : undefined;
    const decoded = isReplayed ? this.#context?.recall(frame, number) : this.#context?.follow(frame, number);
    if (isCounted(frame.kind)) {
      if (!isReplayed) this.#add(frame, continues);
      this.#next++;
    }
    return { continues, decoded, isReplayed: (isReplayed && isCounted(frame.kind)) || undefined };
  }

  /** The first `count` frames have arrived and will not be replayed. */
  confirm(count: number): void {
    for (const number of this.#continued.keys()) {
      if (number >= count) break;
      this.#continued.delete(number);
    }
    this.#context?.confirm(count);
  }

  /**
   * The session resumes: the next frame is number `count`.
   *
   * @returns how many frames that were seen follow again.
   */
  rewind(count: number): number {
    this.#next = Math.min(count, this.#newest);
    return this.#newest - this.#next;
  }

  #add(frame: LinkFrame, continues: Continuation | undefined): void {
    const { streamId, rest } = frame;
    if (continues !== undefined && this.#continued.size < MAX_BODIES) {
      this.#continued.set(this.#newest, continues);
    }
    this.#newest++;
    // An alias has a number of its own in place of a stream ID.
    if (frame.kind === LinkKind.ALIAS) return;
    if (!isBodyKind(frame.kind) || (frame.flags & LinkFlag.MORE) === 0) {
      // A reply that ends, fails or is cancelled leaves no unfinished body.
      this.#open.delete(streamId);
    } else if (continues !== undefined) {
      this.#open.set(streamId, { total: continues.total, received: continues.received + rest.length });
    } else if (this.#open.size < MAX_BODIES) {
      // A damaged head ends the session, so there is nothing left to follow.
      catchFault(() => {
        const { totalLength, bytes } = decodeBodyHead(frame, this.#limits.maxMetadataSize);
        this.#open.set(streamId, { total: totalLength, received: bytes.length });
      });
    }
  }
}

/** Bytes of messages kept in case their frames are replayed; the oldest are dropped first. */
const MAX_KEPT = 4 * 1024 * 1024;

/** Keeps the same earlier messages as the two ends do, so that bodies coded against them can be shown. */
class ContextFollower {
  readonly #limits: Limits;
  readonly #assembler: Assembler;
  /** Dropped once a frame did not fit: nothing after it can be decoded. */
  #decoder: ContextDecoder | undefined;
  /** Messages that an unconfirmed frame completed, by the frame's number. */
  readonly #kept = new Map<number, Uint8Array>();
  #keptBytes = 0;

  constructor(parameters: ContextParameters, limits: Limits) {
    this.#limits = limits;
    this.#assembler = new Assembler(limits);
    this.#decoder = new ContextDecoder(parameters, limits.maxMessageSize);
  }

  /**
   * Takes a frame that is seen for the first time.
   *
   * @returns the message, if the frame completes a body in context.
   */
  follow(frame: LinkFrame, number: number): Uint8Array | undefined {
    if (this.#decoder === undefined) return undefined;
    try {
      if (!isBodyKind(frame.kind)) return this.#followSignal(frame, this.#decoder);
      const message = this.#followBody(frame, this.#decoder);
      if (message !== undefined) this.#keep(number, message);
      return message;
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.#decoder = undefined;
      return undefined;
    }
  }

  /** The message of a replayed frame, which has already changed the context. */
  recall(frame: LinkFrame, number: number): Uint8Array | undefined {
    return isBodyKind(frame.kind) ? this.#kept.get(number) : undefined;
  }

  confirm(count: number): void {
    for (const number of this.#kept.keys()) {
      if (number >= count) break;
      this.#forget(number);
    }
  }

  #keep(number: number, message: Uint8Array): void {
    this.#kept.set(number, message);
    this.#keptBytes += message.length;
    for (const oldest of this.#kept.keys()) {
      if (this.#keptBytes <= MAX_KEPT) break;
      this.#forget(oldest);
    }
  }

  #forget(number: number): void {
    this.#keptBytes -= this.#kept.get(number)?.length ?? 0;
    this.#kept.delete(number);
  }

  #followBody(frame: LinkFrame, decoder: ContextDecoder): Uint8Array | undefined {
    if (frame.codec !== BodyCodec.CONTEXT) return undefined;
    const { streamId } = frame;
    if (!this.#assembler.isPending(streamId)) {
      decoder.begin(streamId, decodeBodyHead(frame, this.#limits.maxMetadataSize).bytes);
    }
    const whole = this.#assembler.add(frame);
    return whole && decoder.complete(streamId, whole.bytes, frame.kind === LinkKind.CHUNK);
  }

  #followSignal({ kind, streamId, rest }: LinkFrame, decoder: ContextDecoder): undefined {
    if (kind === LinkKind.END) decoder.end(streamId, rest);
    else if (kind === LinkKind.ERROR) decoder.fail(streamId);
    else if (kind === LinkKind.CANCEL) decoder.abandon(streamId);
    else return;
    this.#assembler.drop(streamId);
  }
}
