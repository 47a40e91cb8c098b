/**
 * Where a piece falls apart before it is merged.
 *
 * A merge can join the characters on both sides of a boundary only into a token that holds them side
 * by side. So where no token of the vocabulary does, the parts left and right of the boundary are
 * encoded independently, exactly. Text in scripts without spaces thereby becomes short segments,
 * most of which have been seen before, and a long piece needs no long merge.
 *
 * - `adjacent` has a bit for two bytes: an ASCII character and the next, or, where a token begins or
 *   ends inside a character, the bytes on both sides of a boundary in that token.
 * - `neighbours` has a bit for a hash of two whole characters, one of them not ASCII. Two pairs may
 *   share a bit: then a boundary is missed, which costs time and changes no result.
 */

const NEIGHBOUR_BITS = 19;

export class Boundaries {
  readonly #adjacent = new Int32Array(0x10000 >> 5);
  readonly #neighbours = new Int32Array((1 << NEIGHBOUR_BITS) >> 5);

  /** Takes the tokens from `first` up to `size` into account. */
  add(bytes: Uint8Array, offsets: Uint32Array, first: number, size: number): void {
    for (let id = first; id < size; id++) {
      const start = offsets[id] as number;
      const end = offsets[id + 1] as number;
      let left = 0;
      let leftEnd = start;
      for (let at = start; at < end; ) {
        const lead = bytes[at] as number;
        const next = at + (lead < 0x80 || isContinuation(lead) ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4);
        // Stray continuation bytes and cut sequences are no character: 0.
        const right = isContinuation(lead) || next > end ? 0 : character(bytes, at, next);
        if (at > start && !isContinuation(lead)) {
          const before = bytes[at - 1] as number;
          const whole = left !== 0 && right !== 0 && leftEnd === at;
          if (whole && (left | right) >>> 0 >= 0x80) set(this.#neighbours, neighbourBit(left, right));
          else set(this.#adjacent, (before << 8) | lead);
        }
        left = right;
        leftEnd = next;
        at = next;
      }
    }
  }

  /** The first boundary behind `start` that no token crosses, or `end`. */
  next(bytes: Uint8Array, start: number, end: number): number {
    const adjacent = this.#adjacent;
    const neighbours = this.#neighbours;
    let at = start;
    let left = 0;
    while (at < end) {
      const lead = bytes[at] as number;
      const next = at + (lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4);
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

function isContinuation(byte: number): boolean {
  return (byte & 0xc0) === 0x80;
}

/** The bytes of one character as a number. */
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
