import { ContextDecoder } from '../context/decoder.js';
import type { ContextParameters } from '../context/parameters.js';
import { ProtocolError } from '../errors.js';
import type { Limits } from '../limits.js';
import { Assembler } from '../link/assembly.js';
import { decodeBodyHead, isBodyKind, LinkCodec, type LinkFrame, LinkKind } from '../link/header.js';

/**
 * Holds what the two ends of a session hold of the messages of one direction, so that bodies which are
 * coded against earlier ones can be shown.
 */
export class ContextFollower {
  readonly #limits: Limits;
  readonly #assembler: Assembler;
  /** Gone once a frame did not fit: nothing that follows can be decoded any more. */
  #decoder: ContextDecoder | undefined;

  constructor(parameters: ContextParameters, limits: Limits) {
    this.#limits = limits;
    this.#assembler = new Assembler(limits);
    this.#decoder = new ContextDecoder(parameters, limits.maxMessageSize);
  }

  /**
   * The next frame of the direction.
   *
   * @returns the message, where a body in context is whole with it.
   */
  follow(frame: LinkFrame): Uint8Array | undefined {
    if (this.#decoder === undefined) return undefined;
    try {
      return isBodyKind(frame.kind)
        ? this.#followBody(frame, this.#decoder)
        : this.#followSignal(frame, this.#decoder);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.#decoder = undefined;
      return undefined;
    }
  }

  #followBody(frame: LinkFrame, decoder: ContextDecoder): Uint8Array | undefined {
    if (frame.codec !== LinkCodec.CONTEXT) return undefined;
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
