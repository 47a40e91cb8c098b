import { PairCache } from './pair-cache.js';
import { MAX_POSITIONS, RankQueue } from './rank-queue.js';
import { RankTree } from './rank-tree.js';
import { type KeySource, MAX_SHORT } from './short-key.js';
import { NO_TOKEN, type TokenTable } from './token-table.js';

/**
 * Byte-pair encoding of bytes that are not a token as a whole. It repeatedly joins the two neighbours whose
 * joined bytes have the lowest rank, the leftmost of equals first, until nothing can be joined.
 *
 * The rank of two neighbours is looked up by their bytes, as in tiktoken. That honours every rank and assumes
 * nothing about how the vocabulary was trained; backtracking encoders do, and are wrong for Llama 3.
 *
 * Among few bytes, a scan finds the lowest rank; among more, a tree of minima does, so that any piece takes
 * O(n log n). The joins of long neighbours are cached, as their bytes would have to be hashed again for every merge.
 */

/** Up to this many bytes are scanned. */
const FEW = 32;
/** Arrays for up to this many bytes are kept between calls. */
const KEPT = 1 << 15;

export class Merger {
  /** The IDs of the last merge. */
  ids = new Int32Array(0);
  /** Where the tokens of the last merge begin, counted from its first byte, followed by its end. */
  starts = new Int32Array(0);
  /** Bytes merged so far; tests count them instead of measuring time. */
  work = 0;

  readonly #table: TokenTable;
  readonly #limit: number;
  /** The ID of every single byte; these are the first 256 IDs of every vocabulary. */
  readonly #byteIds = new Int32Array(256);
  // Indexed, like `ids`, by the position where a token begins. The rank of joining that token with the next;
  // NO_TOKEN if they do not join, or if no token begins there any more.
  #ranks = new Int32Array(0);
  #next = new Int32Array(0);
  #previous = new Int32Array(0);
  readonly #queue = new RankQueue();
  /** For more bytes than the queue has positions. */
  readonly #tree = new RankTree();
  readonly #longPairs = new PairCache();

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
   * Encodes the bytes from `start` up to `end` and returns the number of tokens. They are in `ids` and
   * `starts` until the next call.
   */
  merge(source: KeySource, start: number, end: number): number {
    const length = end - start;
    this.work += length;
    if (length >= this.#next.length) this.#grow(length);
    this.#begin(source.bytes, start, length);
    if (length <= FEW) this.#joinByScanning(source, start, length);
    else if (length <= MAX_POSITIONS) this.#joinByQueue(source, start, length);
    else this.#joinByTree(source, start, length);
    return this.#collect(length);
  }

  /** Frees the arrays of an unusually long merge. */
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

  #joinByQueue(source: KeySource, start: number, length: number): void {
    const ranks = this.#ranks;
    const next = this.#next;
    const previous = this.#previous;
    const queue = this.#queue;
    queue.fill(ranks, length);
    for (let at = queue.first(); at >= 0; at = queue.first()) {
      const before = Math.max(0, previous[at] as number);
      const rank = ranks[at] as number;
      let last = at;
      let joined = next[at] as number;
      this.#join(source, start, length, at);
      // In a run of one letter, the next lowest is the neighbour, again and again.
      while (this.#isNextLowest(last, rank, length)) {
        last = next[last] as number;
        joined = next[last] as number;
        this.#join(source, start, length, last);
      }
      if (last === at) queue.update(ranks, before, at, joined);
      else queue.updateAll(ranks, before, joined);
    }
  }

  /** Whether, after a join of the lowest rank at `at`, the leftmost of the lowest is the token behind it. */
  #isNextLowest(at: number, rank: number, length: number): boolean {
    const ranks = this.#ranks;
    const after = this.#next[at] as number;
    if (after >= length || ranks[after] !== rank || (ranks[at] as number) <= rank) return false;
    const before = this.#previous[at] as number;
    return before < 0 || (ranks[before] as number) > rank;
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

  /** Joins the token at `at` with the next, and looks up the ranks with its new neighbours. */
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
      ranks[at] = this.#rankOf(source, start, at, after, next[after] as number);
    } else {
      ranks[at] = NO_TOKEN;
    }
    if (at > 0) {
      const before = this.#previous[at] as number;
      ranks[before] = this.#rankOf(source, start, before, at, after);
    }
  }

  /** The rank of joining the token at `left` with the one from `right` up to `end`. */
  #rankOf(source: KeySource, start: number, left: number, right: number, end: number): number {
    const table = this.#table;
    if (end - left <= MAX_SHORT) return table.find(source, start + left, start + end, this.#limit);
    if (end - left > table.maxLength) return NO_TOKEN;
    const leftId = this.ids[left] as number;
    const rightId = this.ids[right] as number;
    const known = this.#longPairs.read(leftId, rightId);
    if (known >= 0) return known;
    const rank = table.find(source, start + left, start + end, this.#limit);
    this.#longPairs.write(leftId, rightId, rank);
    return rank;
  }

  /** Bytes of a token. */
  lengthOf(id: number): number {
    const { offsets } = this.#table;
    return (offsets[id + 1] as number) - (offsets[id] as number);
  }

  /** Moves the remaining tokens to the front. */
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

  /** Makes every byte a token, and looks up the ranks of neighbours. */
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
