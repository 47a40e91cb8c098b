import { must } from './deviation.js';
import { type BodyHead, Codec, Flag, type Frame, MAX_PIECE, MAX_TENSOR_PIECE } from './frames.js';

/** A body of the peer, whose frames arrive one by one. */
export class Assembly {
  readonly expanded: number | undefined;
  readonly metadata: Uint8Array | undefined;
  /** The name of the agent that it is addressed with. */
  readonly agent: string | undefined;
  readonly secret: boolean;
  frames = 0;
  readonly #codec: number;
  readonly #kind: number;
  readonly #total: number | undefined;
  readonly #pieces: Uint8Array[] = [];
  #length = 0;

  constructor(first: Frame, head: BodyHead) {
    this.expanded = head.expanded;
    this.metadata = head.metadata;
    this.agent = head.name;
    this.secret = (first.flags & Flag.SECRET) !== 0;
    this.#codec = first.codec;
    this.#kind = first.kind;
    this.#total = head.total;
    this.#take(head.content, first);
  }

  /** @throws {Deviation} if the frame does not continue this body. */
  add(next: Frame): void {
    must(next.kind === this.#kind, 'another kind inside a body', next.bytes);
    must(next.codec === this.#codec, 'another codec inside a body', next.bytes);
    must((next.flags & (Flag.META | Flag.ADDRESSED)) === 0, 'META or ADDRESSED on a later frame', next.bytes);
    must(next.rest.length > 0, 'a continuation without bytes', next.bytes);
    this.#take(next.rest, next);
  }

  isComplete({ flags, bytes }: Frame): boolean {
    if (flags & Flag.MORE) return false;
    must(
      this.#total === undefined || this.#total === this.#length,
      `a body states ${this.#total} bytes and has ${this.#length}`,
      bytes,
    );
    return true;
  }

  get bytes(): Uint8Array {
    return Buffer.concat(this.#pieces);
  }

  #take(piece: Uint8Array, { bytes }: Frame): void {
    const most = this.#codec === Codec.AVP ? MAX_TENSOR_PIECE : MAX_PIECE;
    must(piece.length <= most, `more than ${most} bytes of a body in one frame`, bytes);
    this.#pieces.push(piece);
    this.#length += piece.length;
    this.frames++;
    must(
      this.#length <= (this.#total ?? Infinity),
      `a body has more bytes than the ${this.#total} that it states`,
      bytes,
    );
  }
}
