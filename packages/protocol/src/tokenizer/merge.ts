import { RankTree } from './rank-tree.js';
import type { KeySource } from './short-key.js';
import { NO_TOKEN, type TokenTable } from './token-table.js';

/**
 * Byte-pair encoding of bytes that are no token as a whole: again and again, the two neighbours whose
 * joined bytes have the lowest rank become one, the leftmost of equals first, until nothing joins.
 *
 * The rank of neighbours is looked up by their bytes, as in tiktoken, so every rank is honoured and
 * nothing is assumed about how the vocabulary was trained (backtracking encoders assume it, and are
 * wrong for Llama 3).
 *
 * The lowest rank among a few bytes is found by looking at all of them; among more, in a tree of
 * minima, so that any piece takes O(n log n).
 */

/** Up to this many bytes are looked at one by one. */
const FEW = 48;
/** Arrays are kept between calls up to this many bytes. */
const KEPT = 1 << 15;

export class Merger {
  /** The IDs of the last merge. */
  ids = new Int32Array(0);
  /** Where the tokens of the last merge begin, counted from its first byte; one more for its end. */
  starts = new Int32Array(0);
  /** Bytes merged so far: what tests count instead of time. */
  work = 0;

  readonly #table: TokenTable;
  readonly #limit: number;
  /** The ID of every single byte; these are the first of every vocabulary. */
  readonly #byteIds = new Int32Array(256);
  // By the position where a token begins: its ID is `ids`, and this is the rank of joining it with the
  // next, or NO_TOKEN, also where no token begins any more.
  #ranks = new Int32Array(0);
  #next = new Int32Array(0);
  #previous = new Int32Array(0);
  readonly #tree = new RankTree();

  /** @param limit the first ID that the vocabulary does not have. */
  constructor(table: TokenTable, limit: number) {
    this.#table = table;
    this.#limit = limit;
    for (let id = 0; id < 256; id++) {
      this.#byteIds[table.bytes[table.offsets[id] as number] as number] = id;
    }
    this.#grow(FEW);
  }

  /**
   * Encodes the bytes from `start` up to `end` and returns the number of tokens, which are then in
   * `ids` and `starts` until the next call.
   */
  merge(source: KeySource, start: number, end: number): number {
    const length = end - start;
    this.work += length;
    if (length >= this.#next.length) this.#grow(length);
    this.#begin(source.bytes, start, length);
    if (length <= FEW) this.#joinByScanning(source, start, length);
    else this.#joinByTree(source, start, length);
    return this.#collect(length);
  }

  /** Lets go of what an unusually long merge needed. */
  release(): void {
    if (this.#next.length > KEPT) this.#grow(FEW);
  }

  #joinByScanning(source: KeySource, start: number, length: number): void {
    const ranks = this.#ranks;
    for (;;) {
      let best = NO_TOKEN;
      let at = 0;
      for (let i = 0; i < length; i++) {
        const rank = ranks[i] as number;
        if (rank < best) {
          best = rank;
          at = i;
        }
      }
      if (best === NO_TOKEN) return;
      this.#join(source, start, length, at);
    }
  }

  #joinByTree(source: KeySource, start: number, length: number): void {
    const ranks = this.#ranks;
    const tree = this.#tree;
    tree.reset(length);
    for (let at = 0; at < length; at++) tree.put(at, ranks[at] as number);
    tree.build();
    while (tree.lowest !== NO_TOKEN) {
      const at = tree.leftmost();
      tree.set(this.#next[at] as number, NO_TOKEN);
      this.#join(source, start, length, at);
      tree.set(at, ranks[at] as number);
      const before = this.#previous[at] as number;
      if (before >= 0) tree.set(before, ranks[before] as number);
    }
  }

  /** Joins the token at `at` with the next, and ranks it with its new neighbours. */
  #join(source: KeySource, start: number, length: number, at: number): void {
    const ranks = this.#ranks;
    const next = this.#next;
    const joined = next[at] as number;
    const after = next[joined] as number;
    this.ids[at] = ranks[at] as number;
    ranks[joined] = NO_TOKEN;
    next[at] = after;
    if (after < length) {
      this.#previous[after] = at;
      ranks[at] = this.#table.find(source, start + at, start + (next[after] as number), this.#limit);
    } else {
      ranks[at] = NO_TOKEN;
    }
    if (at > 0) {
      const before = this.#previous[at] as number;
      ranks[before] = this.#table.find(source, start + before, start + after, this.#limit);
    }
  }

  /** Moves the tokens that are left to the front. */
  #collect(length: number): number {
    const { ids, starts } = this;
    let count = 0;
    for (let at = 0; at < length; at = this.#next[at] as number) {
      ids[count] = ids[at] as number;
      starts[count++] = at;
    }
    starts[count] = length;
    return count;
  }

  /** Every byte a token, with the ranks of neighbours. */
  #begin(bytes: Uint8Array, start: number, length: number): void {
    const { pairs } = this.#table;
    const limit = this.#limit;
    const ids = this.ids;
    const ranks = this.#ranks;
    const byteIds = this.#byteIds;
    const next = this.#next;
    const previous = this.#previous;
    let before = 0;
    for (let i = 0; i < length; i++) {
      const byte = bytes[start + i] as number;
      ids[i] = byteIds[byte] as number;
      next[i] = i + 1;
      previous[i] = i - 1;
      if (i > 0) {
        const rank = pairs[(before << 8) | byte] as number;
        ranks[i - 1] = rank < limit ? rank : NO_TOKEN;
      }
      before = byte;
    }
    ranks[length - 1] = NO_TOKEN;
  }

  #grow(needed: number): void {
    const length = 1 << (32 - Math.clz32(needed));
    this.ids = new Int32Array(length + 1);
    this.starts = new Int32Array(length + 2);
    this.#ranks = new Int32Array(length + 1);
    this.#next = new Int32Array(length + 1);
    this.#previous = new Int32Array(length + 1);
    this.#tree.reset(length);
  }
}
