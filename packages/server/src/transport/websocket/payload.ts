/**
 * The payload of a message that arrives in pieces. Memory grows with the bytes that arrived, never with the length that a
 * header states. Small pieces are copied and joined, as each may be a view of a much larger chunk that would live as long
 * as the message; others are copied once, when the message is whole.
 */

/** The first block, in bytes, unless less is missing. */
const MIN_BLOCK = 4 * 1024;
/** Pieces of this size are kept as views: Node reads at most 64 KiB at once. */
const MIN_VIEW = 4 * 1024;

export class Payload {
  /** Bytes that arrived. */
  length = 0;
  readonly #pieces: Buffer[] = [];
  /** The piece that has room left; its length is that of its memory. */
  #block: Buffer | undefined;
  #filled = 0;

  /** @param missing bytes of the message that have not arrived, `piece` included; `Infinity` if that is unknown. */
  add(piece: Buffer, missing: number): void {
    let rest = piece;
    if (this.#block !== undefined) rest = rest.subarray(this.#fill(this.#block, rest));
    if (rest.length === 0) return;
    this.#endBlock();
    if (rest.length >= MIN_VIEW) {
      this.#pieces.push(rest);
      this.length += rest.length;
      return;
    }
    // If the message ends within this block and began in it, the block is the message.
    const left = missing - (piece.length - rest.length);
    // Not from the pool of Node, of which a small part would keep up to 64 KiB.
    this.#block = Buffer.allocUnsafeSlow(Math.min(left, Math.max(MIN_BLOCK, rest.length + this.length)));
    this.#fill(this.#block, rest);
  }

  /** All of it. This may be called once. */
  take(): Buffer {
    this.#endBlock();
    const [first, ...others] = this.#pieces;
    if (first === undefined) return EMPTY;
    return others.length === 0 ? first : Buffer.concat(this.#pieces, this.length);
  }

  #fill(block: Buffer, piece: Buffer): number {
    const count = Math.min(block.length - this.#filled, piece.length);
    block.set(count === piece.length ? piece : piece.subarray(0, count), this.#filled);
    this.#filled += count;
    this.length += count;
    return count;
  }

  #endBlock(): void {
    const block = this.#block;
    if (block === undefined) return;
    this.#block = undefined;
    this.#pieces.push(this.#filled === block.length ? block : block.subarray(0, this.#filled));
    this.#filled = 0;
  }
}

const EMPTY = Buffer.alloc(0);
