import { ProtocolError } from '../base/errors.js';
import type { Limits } from '../base/limits.js';
import { BodyCodec } from '../codec/body.js';
import { ContextDecoder } from '../codec/context/decoder.js';
import type { ContextParameters } from '../codec/context/parameters.js';
import { decodeBodyHead, isBodyKind, type LinkFrame, LinkKind } from '../link/frame.js';
import { Assembler } from '../link/reassembly.js';

/** Bytes of messages that are kept for when their frames are written again; the oldest make room. */
const MAX_WRITTEN = 4 * 1024 * 1024;

/**
 * Holds what the two ends of a session hold of the messages of one direction, so that bodies which are
 * coded against earlier ones can be shown.
 */
export class ContextFollower {
  readonly #limits: Limits;
  readonly #assembler: Assembler;
  /** Gone once a frame did not fit: nothing that follows can be decoded any more. */
  #decoder: ContextDecoder | undefined;
  /** Messages that were whole with a frame which is not confirmed, by the frame's number. */
  readonly #written = new Map<number, Uint8Array>();
  #writtenBytes = 0;

  constructor(parameters: ContextParameters, limits: Limits) {
    this.#limits = limits;
    this.#assembler = new Assembler(limits);
    this.#decoder = new ContextDecoder(parameters, limits.maxMessageSize);
  }

  /**
   * The next frame of the direction, for the first time.
   *
   * @param number of the frame, as both ends count.
   * @returns the message, where a body in context is whole with it.
   */
  follow(frame: LinkFrame, number: number): Uint8Array | undefined {
    if (this.#decoder === undefined) return undefined;
    try {
      if (!isBodyKind(frame.kind)) return this.#followSignal(frame, this.#decoder);
      const message = this.#followBody(frame, this.#decoder);
      if (message !== undefined) this.#remember(number, message);
      return message;
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.#decoder = undefined;
      return undefined;
    }
  }

  /** The same of a frame that is written again, which has had its effect. */
  recall(frame: LinkFrame, number: number): Uint8Array | undefined {
    return isBodyKind(frame.kind) ? this.#written.get(number) : undefined;
  }

  /** So many frames have arrived and are not written again. */
  confirm(count: number): void {
    for (const number of this.#written.keys()) {
      if (number >= count) break;
      this.#forget(number);
    }
  }

  #remember(number: number, message: Uint8Array): void {
    this.#written.set(number, message);
    this.#writtenBytes += message.length;
    for (const oldest of this.#written.keys()) {
      if (this.#writtenBytes <= MAX_WRITTEN) break;
      this.#forget(oldest);
    }
  }

  #forget(number: number): void {
    this.#writtenBytes -= this.#written.get(number)?.length ?? 0;
    this.#written.delete(number);
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
