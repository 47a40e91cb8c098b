/**
 * The places where a piece is split before it is merged.
 *
 * A merge can join the characters on both sides of a boundary only into a token that holds them side by side.
 * If no token of the vocabulary does, the parts left and right of the boundary can be encoded independently,
 * with exactly the same result. Text in scripts without spaces thus becomes short segments, most of them seen
 * before, and a long piece needs no long merge.
 *
 * - `adjacent` has a bit for every two bytes: an ASCII character and the next, or, if a token begins or ends
 *   inside a character, the bytes on both sides of a boundary in that token.
 * - `neighbours` has a bit for a hash of two whole characters, one of them not ASCII. If two pairs share a
 *   bit, a boundary is missed, which costs time but changes no result.
 */

const NEIGHBOUR_BITS = 19;

export class Boundaries {
  readonly #adjacent = new Int32Array(0x10000 >> 5);
  readonly #neighbours = new Int32Array((1 << NEIGHBOUR_BITS) >> 5);

  /** Adds the tokens from `first` up to `size`. */
  add(bytes: Uint8Array, offsets: Uint32Array, first: number, size: number): void {
    for (let id = first; id < size; id++) {
      this.#addToken(bytes, offsets[id] as number, offsets[id + 1] as number);
    }
  }

  #addToken(bytes: Uint8Array, start: number, end: number): void {
    let before = bytes[start] as number;
    for (let at = start + 1; at < end; at++) {
      const byte = bytes[at] as number;
      if ((before | byte) < 0x80) set(this.#adjacent, (before << 8) | byte);
      else if (!isContinuation(byte)) this.#addBoundary(bytes, start, at, end);
      before = byte;
    }
  }

  /** Adds the boundary at `at`, which has a character outside ASCII on at least one side. */
  #addBoundary(bytes: Uint8Array, start: number, at: number, end: number): void {
    let from = at - 1;
    while (from > start && isContinuation(bytes[from] as number)) from--;
    const to = at + widthOf(bytes[at] as number);
    const isWhole = from + widthOf(bytes[from] as number) === at && to <= end;
    if (isWhole) set(this.#neighbours, neighbourBit(character(bytes, from, at), character(bytes, at, to)));
    else set(this.#adjacent, ((bytes[at - 1] as number) << 8) | (bytes[at] as number));
  }

  /** The first boundary after `start` that no token crosses, or `end`. */
  next(bytes: Uint8Array, start: number, end: number): number {
    const adjacent = this.#adjacent;
    const neighbours = this.#neighbours;
    let at = start;
    let left = 0;
    while (at < end) {
      const lead = bytes[at] as number;
      const next = at + widthOf(lead);
      const right = character(bytes, at, next);
      if (
        at > start &&
        !has(adjacent, ((bytes[at - 1] as number) << 8) | lead) &&
        ((left | right) >>> 0 < 0x80 || !has(neighbours, neighbourBit(left, right)))
      ) {
        return at;
      }
      left = right;
      at = next;
    }
    return end;
  }
}

/** The number of bytes of the character that begins with `lead`; 0 if no character does. */
function widthOf(lead: number): number {
  return lead < 0x80 ? 1 : lead < 0xc0 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

function isContinuation(byte: number): boolean {
  return (byte & 0xc0) === 0x80;
}

/** The bytes of one character, packed into a number. */
function character(bytes: Uint8Array, at: number, end: number): number {
  let packed = 0;
  for (let i = at; i < end; i++) packed = (packed << 8) | (bytes[i] as number);
  return packed;
}

function neighbourBit(left: number, right: number): number {
  const hash = Math.imul(Math.imul(left, 0x85ebca6b) ^ right, 0xc2b2ae35);
  return (hash ^ (hash >>> 15)) >>> (32 - NEIGHBOUR_BITS);
}

function has(bits: Int32Array, bit: number): boolean {
  return ((bits[bit >>> 5] as number) & (1 << (bit & 31))) !== 0;
}

function set(bits: Int32Array, bit: number): void {
  bits[bit >>> 5] = (bits[bit >>> 5] as number) | (1 << (bit & 31));
}
