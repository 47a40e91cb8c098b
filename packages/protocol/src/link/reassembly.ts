import { concatBytes } from '../base/bytes.js';
import { ProtocolError } from '../base/errors.js';
import type { Limits } from '../base/limits.js';
import type { BodyCodec, ReceivedBody } from '../codec/body.js';
import type { AliasReader } from './addressing.js';
import { BODY_CHARGE } from './credit.js';
import { type BodyHead, decodeBodyHead, LinkFlag, type LinkFrame, type LinkKind } from './frame.js';

/** The part of a body that one frame carries, if the body is handed on as it arrives. */
export interface BodyPiece {
  /** A view of the frame. */
  readonly bytes: Uint8Array;
  /** Bytes of the body before these. */
  readonly offset: number;
  /** Bytes of the whole body, within the limits. */
  readonly totalLength: number;
  /** Only in the first piece: the name of the receiver, at a server; of the sender, at a client. */
  readonly address: string | undefined;
  /** Credit of its stream that the piece uses up until the application has read it. */
  readonly charge: number;
}

/** Bytes of a tensor's body beside its payload, at most: its header and a checksum. */
export const TRANSFER_OVERHEAD = 65 * 1024;

/** A body that has not arrived completely. */
export interface Unfinished {
  readonly kind: LinkKind;
  readonly codec: BodyCodec;
  readonly secret: boolean;
  readonly originalLength: number | undefined;
  readonly metadata: Uint8Array | undefined;
  readonly address: string | undefined;
  readonly totalLength: number;
  /** `undefined` if the bytes are handed on as they arrive. */
  readonly pieces: Uint8Array[] | undefined;
  /** Bytes that have arrived. */
  length: number;
  charge: number;
}

type AssemblyLimits = Pick<Limits, 'maxMessageSize' | 'maxTransferSize' | 'maxMetadataSize'>;

/**
 * Follows bodies through their frames, one body at a time per stream, and refuses a body as soon as its
 * stated or its actual size exceeds the limits. Messages are put together, see {@link add}; tensors are
 * handed on piece by piece, see {@link addPiece}.
 */
export class Assembler {
  readonly #limits: AssemblyLimits;
  readonly #aliases: Pick<AliasReader, 'nameOf'> | undefined;
  /** Its state, by stream. Created when needed: most bodies arrive in one frame. */
  unfinished: Map<number, Unfinished> | undefined;

  /** @param aliases set if addressing was negotiated. */
  constructor(limits: AssemblyLimits, aliases?: Pick<AliasReader, 'nameOf'>) {
    this.#limits = limits;
    this.#aliases = aliases;
  }

  /**
   * Returns the whole body, or `undefined` until its last frame.
   *
   * @throws {ProtocolError} `bad_frame`, `message_too_large`, and the codes of {@link decodeBodyHead}.
   */
  add(frame: LinkFrame): ReceivedBody | undefined {
    const body = this.unfinished?.get(frame.streamId);
    if (body === undefined) return this.#begin(frame);
    this.#continue(body, frame);
    const pieces = body.pieces as Uint8Array[];
    addPiece(pieces, frame.rest);
    if (frame.flags & LinkFlag.MORE) return undefined;
    const { codec, originalLength, secret, metadata, address, charge } = body;
    return { codec, bytes: concatBytes(pieces), originalLength, secret, metadata, address, charge };
  }

  /**
   * Returns the part of a transfer that the frame carries, and keeps nothing of it.
   *
   * @throws {ProtocolError} `bad_frame`, `transfer_too_large`, and the codes of {@link decodeBodyHead}.
   */
  addPiece(frame: LinkFrame): BodyPiece {
    const { streamId, rest } = frame;
    const body = this.unfinished?.get(streamId);
    if (body === undefined) return this.#beginTransfer(frame);
    const offset = body.length;
    this.#continue(body, frame);
    const { totalLength } = body;
    return { bytes: rest, offset, totalLength, address: undefined, charge: rest.length };
  }

  /** Forgets the unfinished body of a stream. Returns its charge so far. */
  drop(streamId: number): number {
    const charge = this.unfinishedOn(streamId);
    this.unfinished?.delete(streamId);
    return charge;
  }

  /** The charge so far of the unfinished body of a stream, otherwise 0. */
  unfinishedOn(streamId: number): number {
    return this.unfinished?.get(streamId)?.charge ?? 0;
  }

  /** Whether a body of the stream is unfinished. */
  isPending(streamId: number): boolean {
    return this.unfinished?.has(streamId) ?? false;
  }

  /** The bytes of an unfinished body of which only the first frame has arrived. */
  firstBytes(streamId: number): Uint8Array | undefined {
    return this.unfinished?.get(streamId)?.pieces?.[0];
  }

  /** Bytes that an unfinished body of the stream still lacks, otherwise 0. */
  missing(streamId: number): number {
    const body = this.unfinished?.get(streamId);
    return body === undefined ? 0 : body.totalLength - body.length;
  }

  #begin(frame: LinkFrame): ReceivedBody | undefined {
    const { maxMessageSize, maxMetadataSize } = this.#limits;
    const head = decodeBodyHead(frame, maxMetadataSize);
    const { bytes, totalLength } = head;
    const length = Math.max(head.originalLength ?? 0, totalLength);
    if (length > maxMessageSize) {
      throw new ProtocolError(
        'message_too_large',
        `a message of at least ${length} bytes exceeds the limit of ${maxMessageSize}`,
      );
    }
    const address = this.#nameOf(head);
    if (frame.flags & LinkFlag.MORE) {
      this.#remember(frame, head, address, [unpinned(bytes)]);
      return undefined;
    }
    return {
      codec: frame.codec,
      bytes,
      originalLength: head.originalLength,
      secret: (frame.flags & LinkFlag.SECRET) !== 0,
      metadata: head.metadata,
      address,
      charge: frame.rest.length + BODY_CHARGE,
    };
  }

  #beginTransfer(frame: LinkFrame): BodyPiece {
    const { maxTransferSize, maxMetadataSize } = this.#limits;
    const more = (frame.flags & LinkFlag.MORE) !== 0;
    const head = decodeBodyHead(frame, maxMetadataSize);
    const { bytes, totalLength } = head;
    if (more && bytes.length === 0) {
      throw new ProtocolError('bad_frame', 'the first frame of a transfer holds no bytes');
    }
    const maxLength = maxTransferSize + TRANSFER_OVERHEAD;
    if (totalLength > maxLength) {
      throw new ProtocolError(
        'transfer_too_large',
        `a transfer of ${totalLength} bytes exceeds the limit of ${maxLength}`,
      );
    }
    const address = this.#nameOf(head);
    if (more) this.#remember(frame, head, address, undefined);
    return { bytes, offset: 0, totalLength, address, charge: frame.rest.length + BODY_CHARGE };
  }

  /** Keeps no view of the frame's buffer, unless that is little larger than the view. */
  #remember(
    { kind, streamId, codec, flags, rest }: LinkFrame,
    { originalLength, metadata, totalLength, bytes }: BodyHead,
    address: string | undefined,
    pieces: Uint8Array[] | undefined,
  ): void {
    this.unfinished ??= new Map();
    this.unfinished.set(streamId, {
      kind,
      codec,
      secret: (flags & LinkFlag.SECRET) !== 0,
      originalLength,
      metadata: metadata && unpinned(metadata),
      address,
      totalLength,
      pieces,
      length: bytes.length,
      charge: rest.length + BODY_CHARGE,
    });
  }

  /** Checks that a frame continues a body, and counts it. @throws {ProtocolError} `bad_frame`. */
  #continue(body: Unfinished, { kind, streamId, codec, flags, rest }: LinkFrame): void {
    if (kind !== body.kind || codec !== body.codec || flags & FIRST_ONLY) {
      throw new ProtocolError('bad_frame', `a fragment on stream ${streamId} does not continue its body`);
    }
    if (rest.length === 0) throw new ProtocolError('bad_frame', 'a continuation without bytes');
    const more = (flags & LinkFlag.MORE) !== 0;
    const length = body.length + rest.length;
    const { totalLength } = body;
    if (more ? length >= totalLength : length !== totalLength) {
      throw new ProtocolError(
        'bad_frame',
        `a body of ${totalLength} bytes, as its first frame states, ${more ? 'continues' : 'ends'} at ${length}`,
      );
    }
    body.length = length;
    body.charge += rest.length;
    if (!more) this.unfinished?.delete(streamId);
  }

  /** Looked up at the first frame: the alias may stand for another name before the last one. */
  #nameOf({ alias }: BodyHead): string | undefined {
    if (alias === undefined) return undefined;
    if (this.#aliases === undefined) throw new ProtocolError('bad_frame', 'addressing was not negotiated');
    return this.#aliases.nameOf(alias);
  }
}

/** Only allowed in the first frame of a body. */
const FIRST_ONLY = LinkFlag.META | LinkFlag.ADDRESSED;

/** Pieces below this many bytes are joined. */
const SMALL_PIECE = 4096;

/**
 * Adds a piece. A view takes about 150 bytes, so a body in fragments of one byte would take 150 times its
 * size. Small pieces are therefore joined with the one before; each byte is copied at most twelve times.
 */
function addPiece(pieces: Uint8Array[], piece: Uint8Array): void {
  let last = unpinned(piece);
  let before = pieces.at(-1);
  while (before !== undefined && last.length < SMALL_PIECE && before.length <= last.length) {
    last = concatBytes([before, last]);
    pieces.pop();
    before = pieces.at(-1);
  }
  pieces.push(last);
}

/** The view itself, or a copy if it keeps much more memory alive than it shows. */
export function unpinned(view: Uint8Array): Uint8Array {
  return view.length * 4 < view.buffer.byteLength ? new Uint8Array(view) : view;
}
