import { highBit } from './bits.js';

/** The farthest that a match reaches back, in bytes: as far as zstd does at its usual level. */
export const WINDOW_LOG = 21;
const WINDOW = 1 << WINDOW_LOG;
/** Bytes that are hashed, and the fewest of a match at a new offset. */
const HASHED = 4;
/** The fewest bytes of a match at one of the last three offsets. */
const MIN_REPEATED = 3;
/** A match of this many bytes is taken without looking for a longer one. */
const LONG = 256;
/** Marks a position that is in no chain. */
const SKIPPED = -1;
/** Bits that a sequence costs besides those of its offset, and that a literal costs. */
const SEQUENCE_COST = 8;
const LITERAL_COST = 6;

/**
 * Finds matches in `bytes` by chains of the earlier positions with the same hash. Positions enter the chains in
 * order, so that the newest can leave again.
 */
export class Matcher {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  /** By hash: 1 + the newest position, or 0. */
  readonly #heads: Int32Array;
  /** By position, modulo the window: 1 + the position before it in its chain, 0, or {@link SKIPPED}. */
  readonly #earlier: Int32Array;
  readonly #shift: number;
  /** Positions before it are in the chains. */
  #next = 0;

  /** The match that `find` found. Its value is at least 0, or there is none. */
  length = 0;
  offset = 0;
  value = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const log = highBit(Math.max(bytes.length - 1, 0)) + 1;
    const bits = Math.min(Math.max(log, 8), 17);
    this.#heads = new Int32Array(1 << bits);
    this.#shift = 32 - bits;
    this.#earlier = new Int32Array(1 << Math.min(log, WINDOW_LOG));
  }

  /** Puts all positions before `end` into the chains; the four bytes from each on must be there. */
  advance(end: number): void {
    const heads = this.#heads;
    const earlier = this.#earlier;
    const mask = earlier.length - 1;
    const view = this.#view;
    const shift = this.#shift;
    let at = this.#next;
    for (; at < end; at++) {
      const hash = Math.imul(view.getInt32(at, true), 0x9e3779b1) >>> shift;
      earlier[at & mask] = heads[hash]!;
      heads[hash] = at + 1;
    }
    this.#next = at;
  }

  /** Leaves the positions before `end` out of the chains: their content is elsewhere as well. */
  skip(end: number): void {
    const first = this.#next & (this.#earlier.length - 1);
    this.#earlier.fill(SKIPPED, first, first + end - this.#next);
    this.#next = end;
  }

  /** Takes positions out of the chains, down to `end`. */
  retreat(end: number): void {
    const heads = this.#heads;
    const earlier = this.#earlier;
    if (end === 0) {
      heads.fill(0);
      this.#next = 0;
    }
    const mask = earlier.length - 1;
    const view = this.#view;
    const shift = this.#shift;
    for (let at = this.#next - 1; at >= end; at--) {
      const before = earlier[at & mask]!;
      if (before !== SKIPPED) heads[Math.imul(view.getInt32(at, true), 0x9e3779b1) >>> shift] = before;
    }
    this.#next = Math.min(this.#next, end);
  }

  /** Bytes from `at` on, all before `end`, that are the same from `from` on. */
  common(from: number, at: number, end: number): number {
    return commonLength(this.#view, from, this.#view, at, end - at);
  }

  /**
   * Finds the match at `at` that saves most.
   *
   * @param at at least four bytes before `end`.
   * @param end where matches end.
   * @param depth the most positions to compare.
   * @param offsets the last three.
   */
  find(at: number, end: number, depth: number, offsets: ArrayLike<number>): void {
    const view = this.#view;
    const bytes = this.#bytes;
    const first = view.getInt32(at, true);
    this.value = -1;
    this.length = 0;
    for (let i = 0; i < 3; i++) {
      const from = at - offsets[i]!;
      if (from < 0 || ((view.getInt32(from, true) ^ first) & 0xffffff) !== 0) continue;
      this.#consider(
        MIN_REPEATED + this.common(from + MIN_REPEATED, at + MIN_REPEATED, end),
        at - from,
        i + 2,
      );
    }

    this.advance(at);
    const earlier = this.#earlier;
    const mask = earlier.length - 1;
    const lowest = Math.max(0, at - WINDOW + 1);
    let from = this.#heads[Math.imul(first, 0x9e3779b1) >>> this.#shift]! - 1;
    for (let left = depth; from >= lowest && left > 0; left--) {
      const best = this.length;
      if (at + best >= end || best >= LONG) return;
      if (bytes[from + best] === bytes[at + best] && view.getInt32(from, true) === first) {
        const length = HASHED + this.common(from + HASHED, at + HASHED, end);
        if (length > best) this.#consider(length, at - from, highBit(at - from) + SEQUENCE_COST);
      }
      from = earlier[from & mask]! - 1;
    }
  }

  #consider(length: number, offset: number, cost: number): void {
    const value = length * LITERAL_COST - cost;
    if (value <= this.value) return;
    this.length = length;
    this.offset = offset;
    this.value = value;
  }
}

/** Bytes that may be the same from which they are compared in blocks. */
const FAR = 1024;

/** Whether 16 bytes are the same. */
function sameBlock(a: DataView, i: number, b: DataView, j: number): boolean {
  return (
    ((a.getInt32(i, true) ^ b.getInt32(j, true)) |
      (a.getInt32(i + 4, true) ^ b.getInt32(j + 4, true)) |
      (a.getInt32(i + 8, true) ^ b.getInt32(j + 8, true)) |
      (a.getInt32(i + 12, true) ^ b.getInt32(j + 12, true))) ===
    0
  );
}

/** The number of bytes, at most `most`, that are the same from `i` of `a` and from `j` of `b` on. */
export function commonLength(a: DataView, i: number, b: DataView, j: number, most: number): number {
  let length = 0;
  // Most differences are near, but dictionaries share tens of thousands of bytes.
  if (most >= FAR && a.getInt32(i, true) === b.getInt32(j, true)) {
    while (length + 16 <= most && sameBlock(a, i + length, b, j + length)) length += 16;
  }
  for (; length + 4 <= most; length += 4) {
    const difference = a.getInt32(i + length, true) ^ b.getInt32(j + length, true);
    // The lowest bit that differs is in the first byte that does.
    if (difference !== 0) return length + (highBit(difference & -difference) >> 3);
  }
  while (length < most && a.getUint8(i + length) === b.getUint8(j + length)) length++;
  return length;
}
