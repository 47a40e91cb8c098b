import { codecs } from '#codecs';
import { ProtocolError } from '../base/errors.js';
import { BodyCodec, type ReceivedBody } from '../codec/body.js';
import type { ContextDecoder } from '../codec/context/decoder.js';
import type { ContextEncoder } from '../codec/context/encoder.js';
import type { ContextParameters } from '../codec/context/parameters.js';
import {
  type BodyFields,
  encodeSignalFrame,
  LinkFlag,
  type LinkFrame,
  LinkKind,
  type OutgoingBody,
} from './frame.js';

/**
 * Context coding on the link: informs the coder of each direction about what was written and received, in the
 * order in which both ends count frames. Each coder is created when it is first needed.
 */
export class LinkContext {
  readonly parameters: ContextParameters;
  readonly #maxMessageSize: number;
  /** Its state: the coder of each direction, created when it is first needed. */
  encoder: ContextEncoder | undefined;
  decoder: ContextDecoder | undefined;

  /** @param maxMessageSize bytes of a received message, decoded. */
  constructor(parameters: ContextParameters, maxMessageSize: number) {
    this.parameters = parameters;
    this.#maxMessageSize = maxMessageSize;
  }

  get sent(): ContextUse {
    return useOf(this.encoder);
  }

  get received(): ContextUse {
    return useOf(this.decoder);
  }

  /** Bytes of memory of packed messages, in both directions. */
  get packedBytes(): number {
    return (this.encoder?.state.packedBytes ?? 0) + (this.decoder?.state.packedBytes ?? 0);
  }

  // --- sending

  /** Codes a deferred body whose first frame is about to be written. */
  encode(body: OutgoingBody): OutgoingBody {
    const { deferred, kind, streamId } = body;
    if (deferred === undefined) return body;
    this.encoder ??= new (codecs.context.get().ContextEncoder)(this.parameters);
    const { offer, ...coded } = deferred.encode(this.encoder, streamId, kind, kind === LinkKind.CHUNK);
    if (offer !== undefined) this.encoder.begin(streamId, offer);
    return { ...body, ...coded, deferred: undefined };
  }

  /** The last frame of a body is written. */
  handleWritten({ codec, streamId }: BodyFields): void {
    if (codec === BodyCodec.CONTEXT) this.encoder?.complete(streamId);
  }

  /** A request is cancelled; some of its frames may have been written. */
  handleDropped(streamId: number): void {
    this.encoder?.abandon(streamId);
  }

  /** The frame that ends a stream is written: its end, which gets the CRC of the parts before it, or its error. */
  endWith(streamId: number, frame: Uint8Array): Uint8Array {
    const checksum = this.encoder?.end(streamId);
    const isEnd = ((frame[0] ?? 0) & 0x0f) === LinkKind.END;
    return isEnd ? encodeSignalFrame(LinkKind.END, streamId, checksum) : frame;
  }

  // --- receiving

  /**
   * The first frame of a body in context has arrived.
   *
   * @param bytes the body's bytes in that frame.
   * @throws {ProtocolError} `bad_frame`, `truncated`, `bad_varint`.
   */
  receiveFirst({ streamId, flags }: LinkFrame, bytes: Uint8Array): void {
    if (flags & LinkFlag.SECRET)
      throw new ProtocolError('bad_frame', 'a secret body must not be coded in context');
    this.decoder ??= new (codecs.context.get().ContextDecoder)(this.parameters, this.#maxMessageSize);
    this.decoder.begin(streamId, bytes);
  }

  /** Decodes a complete body in context. @throws {ProtocolError} on any violation; the session ends then. */
  receive(body: ReceivedBody, streamId: number, isPart: boolean): ReceivedBody {
    const content = (this.decoder as ContextDecoder).complete(streamId, body.bytes, isPart);
    const charge = body.charge + expansionOf(content.length, body.bytes.length);
    return { ...body, content, originalLength: content.length, charge };
  }

  /** @throws {ProtocolError} `bad_checksum`, `truncated`, `trailing_bytes`. */
  receiveEnd(streamId: number, rest: Uint8Array): void {
    if (this.decoder !== undefined) this.decoder.end(streamId, rest);
    else if (rest.length > 0) throw new ProtocolError('trailing_bytes', 'an end frame has no body');
  }

  receiveError(streamId: number): void {
    this.decoder?.fail(streamId);
  }

  /** The peer cancels a request; some of its frames may have arrived. */
  receiveCancel(streamId: number): void {
    this.decoder?.abandon(streamId);
  }
}

/** The messages kept as bases in one direction. */
export interface ContextUse {
  readonly messages: number;
  readonly bytes: number;
}

function useOf(coder: ContextEncoder | ContextDecoder | undefined): ContextUse {
  return { messages: coder?.state.bases.length ?? 0, bytes: coder?.state.bytes ?? 0 };
}

/**
 * Bytes of a message beyond its coded bytes. The receiver decodes a body in context when it arrives, since
 * later ones build on it, so it is charged in full.
 */
export function expansionOf(originalLength: number, codedLength: number): number {
  return Math.max(0, originalLength - codedLength);
}
