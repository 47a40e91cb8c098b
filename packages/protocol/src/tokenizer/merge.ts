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
 * A few bytes are merged by scanning for the lowest rank; more of them with a heap of
 * (rank, position), in O(n log n). Entries of the heap are not removed when they go out of date, but
 * recognised: a position's current rank is the entry's, or the entry is void.
 */

/** Up to this many bytes are merged by scanning. */
const FEW = 80;
/** Arrays for the heap are kept between calls up to this many bytes. */
const KEPT = 1 << 15;
/** A heap key is rank * SPAN + position. */
const SPAN = 2 ** 32;

export class Merger {
  /** The IDs of the last merge. */
  ids: Int32Array = new Int32Array(FEW + 1);
  /** Where the tokens of the last merge begin, counted from its first byte; one more for its end. */
  starts: Int32Array = new Int32Array(FEW + 2);
  /** Bytes merged so far: what tests count instead of time. */
  work = 0;

  readonly #table: TokenTable;
  readonly #limit: number;
  /** The ID of every single byte; these are the first of every vocabulary. */
  readonly #byteIds = new Int32Array(256);
  #ranks = new Int32Array(FEW + 1);
  #next = new Int32Array(0);
  #previous = new Int32Array(0);
  #heap = new Float64Array(0);
  #heapSize = 0;

  /** @param limit the first ID that the vocabulary does not have. */
  constructor(table: TokenTable, limit: number) {
    this.#table = table;
    this.#limit = limit;
    for (let id = 0; id < 256; id++) {
      this.#byteIds[table.bytes[table.offsets[id] as number] as number] = id;
    }
  }

  /**
   * Encodes the bytes from `start` up to `end` and returns the number of tokens, which are then in `ids` and
   * `starts` until the next call.
   */
  merge(source: KeySource, start: number, end: number): number {
    const length = end - start;
    this.work += length;
    if (length > FEW) return this.#mergeMany(source, start, length);
    return this.#mergeFew(source, start, length);
  }

  /** Lets go of what an unusually long merge needed. */
  release(): void {
    if (this.#next.length > KEPT) this.#grow(FEW);
  }

  #mergeFew(source: KeySource, start: number, length: number): number {
    const ids = this.ids;
    const starts = this.starts;
    const ranks = this.#ranks;
    this.#begin(source.bytes, start, length);
    for (let i = 0; i <= length; i++) starts[i] = i;
    let last = length - 1;
    for (;;) {
      let best = NO_TOKEN;
      let at = 0;
      for (let i = 0; i < last; i++) {
        const rank = ranks[i] as number;
        if (rank < best) {
          best = rank;
          at = i;
        }
      }
      if (best === NO_TOKEN) return last + 1;
      ids[at] = best;
      for (let i = at + 1; i < last; i++) {
        ids[i] = ids[i + 1] as number;
        ranks[i] = ranks[i + 1] as number;
        starts[i] = starts[i + 1] as number;
      }
      starts[last] = length;
      last--;
      if (at < last) {
        ranks[at] = this.#rank(source, start + (starts[at] as number), start + (starts[at + 2] as number));
      }
      if (at > 0) {
        ranks[at - 1] = this.#rank(
          source,
          start + (starts[at - 1] as number),
          start + (starts[at + 1] as number),
        );
      }
    }
  }

  #mergeMany(source: KeySource, start: number, length: number): number {
    if (this.#next.length < length + 1) this.#grow(length);
    this.#begin(source.bytes, start, length);
    const ids = this.ids;
    const ranks = this.#ranks;
    const next = this.#next;
    const previous = this.#previous;
    for (let i = 0; i <= length; i++) {
      next[i] = i + 1;
      previous[i] = i - 1;
    }
    this.#heapSize = 0;
    for (let i = 0; i < length - 1; i++) {
      if (ranks[i] !== NO_TOKEN) this.#push((ranks[i] as number) * SPAN + i);
    }
    while (this.#heapSize > 0) {
      const key = this.#pop();
      const rank = Math.floor(key / SPAN);
      const at = key - rank * SPAN;
      if (ranks[at] !== rank) continue;
      const joined = next[at] as number;
      const after = next[joined] as number;
      ids[at] = rank;
      ranks[joined] = NO_TOKEN;
      next[at] = after;
      ranks[at] = NO_TOKEN;
      if (after < length) {
        previous[after] = at;
        this.#rankAgain(source, start, at, next[after] as number);
      }
      const before = previous[at] as number;
      if (before >= 0) this.#rankAgain(source, start, before, after);
    }
    const starts = this.starts;
    let count = 0;
    for (let i = 0; i < length; i = next[i] as number) {
      ids[count] = ids[i] as number;
      starts[count++] = i;
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
    let before = 0;
    for (let i = 0; i < length; i++) {
      const byte = bytes[start + i] as number;
      ids[i] = byteIds[byte] as number;
      if (i > 0) {
        const rank = pairs[(before << 8) | byte] as number;
        ranks[i - 1] = rank < limit ? rank : NO_TOKEN;
      }
      before = byte;
    }
    ranks[length - 1] = NO_TOKEN;
  }

  /** The rank of two neighbours that together are the bytes from `from` up to `to`. */
  #rank(source: KeySource, from: number, to: number): number {
    return this.#table.find(source, from, to, this.#limit);
  }

  #rankAgain(source: KeySource, start: number, at: number, end: number): void {
    const rank = this.#rank(source, start + at, start + end);
    this.#ranks[at] = rank;
    if (rank !== NO_TOKEN) this.#push(rank * SPAN + at);
  }

  #push(key: number): void {
    if (this.#heapSize === this.#heap.length) {
      const grown = new Float64Array(this.#heap.length * 2);
      grown.set(this.#heap);
      this.#heap = grown;
    }
    const heap = this.#heap;
    let at = this.#heapSize++;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const parentKey = heap[parent] as number;
      if (parentKey <= key) break;
      heap[at] = parentKey;
      at = parent;
    }
    heap[at] = key;
  }

  #pop(): number {
    const heap = this.#heap;
    const top = heap[0] as number;
    const size = --this.#heapSize;
    const key = heap[size] as number;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && (heap[child + 1] as number) < (heap[child] as number)) child++;
      if ((heap[child] as number) >= key) break;
      heap[at] = heap[child] as number;
      at = child;
    }
    heap[at] = key;
    return top;
  }

  #grow(needed: number): void {
    const length = 1 << (32 - Math.clz32(needed));
    this.ids = new Int32Array(length + 1);
    this.starts = new Int32Array(length + 2);
    this.#ranks = new Int32Array(length + 1);
    this.#next = new Int32Array(length + 1);
    this.#previous = new Int32Array(length + 1);
    this.#heap = new Float64Array(length + 1);
  }
}
