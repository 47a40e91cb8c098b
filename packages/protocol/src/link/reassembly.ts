import { concatBytes } from '../base/bytes.js';
import { ProtocolError } from '../base/errors.js';
import type { Limits } from '../base/limits.js';
import type { ReceivedBody } from '../codec/body.js';
import type { AliasReader } from './addressing.js';
import { BODY_CHARGE } from './credit.js';
import { type BodyHead, decodeBodyHead, LinkFlag, type LinkFrame } from './frame.js';

interface Partial {
  readonly frame: LinkFrame;
  readonly head: BodyHead;
  readonly agent: string | undefined;
  readonly pieces: Uint8Array[];
  length: number;
  charge: number;
}

/**
 * Puts the fragments of bodies together, one body at a time per stream, and refuses a body as soon
 * as its stated or its actual size exceeds what is allowed.
 */
export class Assembler {
  readonly #limits: Limits;
  readonly #aliases: Pick<AliasReader, 'nameOf'> | undefined;
  /** By stream; most bodies come in one frame. */
  #partials: Map<number, Partial> | undefined;

  /** @param aliases where addressing was agreed. */
  constructor(limits: Limits, aliases?: Pick<AliasReader, 'nameOf'>) {
    this.#limits = limits;
    this.#aliases = aliases;
  }

  /** The whole body, or `undefined` while more of it is to come. */
  add(frame: LinkFrame): ReceivedBody | undefined {
    const more = (frame.flags & LinkFlag.MORE) !== 0;
    const partial = this.#partials?.get(frame.streamId);

    if (partial === undefined) {
      const head = decodeBodyHead(frame, this.#limits.maxMetadataSize);
      this.#check(Math.max(head.originalLength ?? 0, head.totalLength));
      const charge = frame.rest.length + BODY_CHARGE;
      // Named now: the number may mean somebody else by the time that the body is whole.
      const agent = head.alias === undefined ? undefined : this.#nameOf(head.alias);
      if (!more) return finish(frame, head, agent, head.bytes, charge);
      this.#partials ??= new Map();
      this.#partials.set(frame.streamId, {
        frame,
        head,
        agent,
        pieces: [isPinning(head.bytes) ? new Uint8Array(head.bytes) : head.bytes],
        length: head.bytes.length,
        charge,
      });
      return undefined;
    }

    const first = partial.frame;
    if (frame.kind !== first.kind || frame.codec !== first.codec || frame.flags & FIRST_ONLY) {
      throw new ProtocolError(
        'bad_frame',
        `a fragment on stream ${frame.streamId} does not continue its body`,
      );
    }
    if (frame.rest.length === 0) throw new ProtocolError('bad_frame', 'a continuation without bytes');
    const length = partial.length + frame.rest.length;
    const { totalLength } = partial.head;
    if (more ? length >= totalLength : length !== totalLength) {
      throw new ProtocolError('bad_frame', `a body that states ${totalLength} bytes does not end there`);
    }
    partial.length = length;
    partial.charge += frame.rest.length;
    addPiece(partial.pieces, frame.rest);
    if (more) return undefined;
    this.drop(frame.streamId);
    return finish(first, partial.head, partial.agent, concatBytes(partial.pieces), partial.charge);
  }

  /** Forgets an unfinished body of a stream. Returns what it was charged. */
  drop(streamId: number): number {
    const charge = this.#partials?.get(streamId)?.charge ?? 0;
    this.#partials?.delete(streamId);
    return charge;
  }

  /** Whether a body of the stream is unfinished. */
  isPending(streamId: number): boolean {
    return this.#partials?.has(streamId) ?? false;
  }

  /** What the first frame of an unfinished body has brought of it. */
  firstBytes(streamId: number): Uint8Array | undefined {
    return this.#partials?.get(streamId)?.head.bytes;
  }

  /** Bytes that an unfinished body of the stream still lacks, else 0. */
  missing(streamId: number): number {
    const partial = this.#partials?.get(streamId);
    return partial === undefined ? 0 : partial.head.totalLength - partial.length;
  }

  #nameOf(alias: number): string {
    if (this.#aliases === undefined) throw new ProtocolError('bad_frame', 'addressing was not negotiated');
    return this.#aliases.nameOf(alias);
  }

  #check(length: number): void {
    const { maxMessageSize } = this.#limits;
    if (length <= maxMessageSize) return;
    throw new ProtocolError(
      'message_too_large',
      `a message of at least ${length} bytes, at most ${maxMessageSize} are taken`,
    );
  }
}

/** What only the first frame of a body states. */
const FIRST_ONLY = LinkFlag.META | LinkFlag.ADDRESSED;

/** Pieces below this many bytes are joined. */
const SMALL_PIECE = 4096;

/**
 * Adds a piece. A view takes some 150 bytes, so that a body in fragments of one byte would take 150
 * times its size: small pieces are joined with the piece before them, each byte at most twelve times.
 */
function addPiece(pieces: Uint8Array[], piece: Uint8Array): void {
  let last = isPinning(piece) ? new Uint8Array(piece) : piece;
  let before = pieces.at(-1);
  while (before !== undefined && last.length < SMALL_PIECE && before.length <= last.length) {
    last = concatBytes([before, last]);
    pieces.pop();
    before = pieces.at(-1);
  }
  pieces.push(last);
}

/** Whether a view keeps much more memory alive than it shows. */
export function isPinning({ length, buffer }: Uint8Array): boolean {
  return length * 4 < buffer.byteLength;
}

function finish(
  frame: LinkFrame,
  head: BodyHead,
  agent: string | undefined,
  bytes: Uint8Array,
  charge: number,
): ReceivedBody {
  return {
    codec: frame.codec,
    bytes,
    originalLength: head.originalLength,
    secret: (frame.flags & LinkFlag.SECRET) !== 0,
    metadata: head.metadata,
    agent,
    charge,
  };
}
