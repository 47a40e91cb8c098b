import { ProtocolError } from '../base/errors.js';
import type { BodyCodec } from '../codec/body.js';
import type { AliasReader } from './addressing.js';
import { BODY_CHARGE } from './credit.js';
import { decodeBodyHead, LinkFlag, type LinkFrame } from './frame.js';

/** What one frame carries of a body that is handed on as it arrives. */
export interface BodyPiece {
  /** A view of the frame. */
  readonly bytes: Uint8Array;
  /** Bytes of the body before these. */
  readonly offset: number;
  /** Bytes of the whole body, within the limits. */
  readonly totalLength: number;
  /** To whom, at a server, or from whom, at a client; stated with the first piece. */
  readonly agent: string | undefined;
  /** What the piece costs of its stream's credit until the application has taken it. */
  readonly charge: number;
}

interface Unfinished {
  readonly codec: BodyCodec;
  readonly totalLength: number;
  received: number;
}

/**
 * Follows bodies that nobody puts together: holds their frames against the length that the first of
 * them states, and keeps nothing of them.
 */
export class PieceTracker {
  readonly #maxLength: number;
  readonly #maxMetadata: number;
  readonly #aliases: Pick<AliasReader, 'nameOf'> | undefined;
  /** By stream; most tensors come in one frame. */
  #unfinished: Map<number, Unfinished> | undefined;

  /**
   * @param maxLength bytes of a body.
   * @param maxMetadata bytes of its metadata map.
   * @param aliases where addressing was agreed.
   */
  constructor(maxLength: number, maxMetadata: number, aliases?: Pick<AliasReader, 'nameOf'>) {
    this.#maxLength = maxLength;
    this.#maxMetadata = maxMetadata;
    this.#aliases = aliases;
  }

  /** @throws {ProtocolError} `transfer_too_large`, `bad_frame`, and what the head of a body throws. */
  add(frame: LinkFrame): BodyPiece {
    const { streamId, codec, flags, rest } = frame;
    const more = (flags & LinkFlag.MORE) !== 0;
    const body = this.#unfinished?.get(streamId);
    if (body === undefined) return this.#begin(frame, more);

    if (codec !== body.codec || flags & FIRST_ONLY) {
      throw new ProtocolError('bad_frame', `a fragment on stream ${streamId} does not continue its body`);
    }
    if (rest.length === 0) throw new ProtocolError('bad_frame', 'a continuation without bytes');
    const { received: offset, totalLength } = body;
    const received = offset + rest.length;
    if (more ? received >= totalLength : received !== totalLength) {
      throw new ProtocolError(
        'bad_frame',
        `a body that states ${totalLength} bytes ${more ? 'goes on' : 'ends'} at ${received}`,
      );
    }
    body.received = received;
    if (!more) this.drop(streamId);
    return { bytes: rest, offset, totalLength, agent: undefined, charge: rest.length };
  }

  /** Whether a body of the stream is unfinished. */
  isPending(streamId: number): boolean {
    return this.#unfinished?.has(streamId) ?? false;
  }

  drop(streamId: number): void {
    this.#unfinished?.delete(streamId);
  }

  #begin(frame: LinkFrame, more: boolean): BodyPiece {
    const { bytes, totalLength, alias } = decodeBodyHead(frame, this.#maxMetadata);
    if (more && bytes.length === 0) throw new ProtocolError('bad_frame', 'a transfer begins without bytes');
    if (totalLength > this.#maxLength) {
      throw new ProtocolError(
        'transfer_too_large',
        `a transfer of ${totalLength} bytes, at most ${this.#maxLength} are taken`,
      );
    }
    if (more) {
      this.#unfinished ??= new Map();
      this.#unfinished.set(frame.streamId, { codec: frame.codec, totalLength, received: bytes.length });
    }
    const agent = alias === undefined ? undefined : this.#nameOf(alias);
    return { bytes, offset: 0, totalLength, agent, charge: frame.rest.length + BODY_CHARGE };
  }

  #nameOf(alias: number): string {
    if (this.#aliases === undefined) throw new ProtocolError('bad_frame', 'addressing was not negotiated');
    return this.#aliases.nameOf(alias);
  }
}

/** What the first frame of a body says, and no other. */
const FIRST_ONLY = LinkFlag.META | LinkFlag.ADDRESSED;
