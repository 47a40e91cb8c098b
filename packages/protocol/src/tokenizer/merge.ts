import { HASH_BASE, NO_TOKEN, type TokenTable } from './token-table.js';

/**
 * Byte-pair encoding of bytes that are no token as a whole: again and again, the two neighbours whose
 * joined bytes have the lowest rank become one, the leftmost of equals first, until nothing joins.
 *
 * The rank of neighbours is looked up by their bytes, as in tiktoken, so every rank is honoured and
 * nothing is assumed about how the vocabulary was trained (backtracking encoders assume it, and are
 * wrong for Llama 3). The hash of any part follows from the hashes of the prefixes of the whole.
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
const SPAN = 2 ** 26;

export class Merger {
  /** The IDs of the last merge. */
  ids: Int32Array = new Int32Array(FEW + 1);
  /** Where the tokens of the last merge begin, counted from its first byte; one more for its end. */
  starts: Int32Array = new Int32Array(FEW + 2);
  /** Bytes merged so far: what tests count instead of time. */
  work = 0;

  readonly #table: TokenTable;
  readonly #limit: number;
  readonly #byteIds: Int32Array;
  /** Powers of HASH_BASE up to the longest token. */
  readonly #powers: Int32Array;
  #prefixes = new Int32Array(FEW + 1);
  #ranks = new Int32Array(FEW + 1);
  #next = new Int32Array(0);
  #previous = new Int32Array(0);
  #heap = new Float64Array(0);
  #heapSize = 0;

  /** @param byteIds the ID of every single byte. */
  constructor(table: TokenTable, limit: number, byteIds: Int32Array) {
    this.#table = table;
    this.#limit = limit;
    this.#byteIds = byteIds;
    this.#powers = new Int32Array(256);
    this.#powers[0] = 1;
    for (let i = 1; i < this.#powers.length; i++) {
      this.#powers[i] = Math.imul(this.#powers[i - 1] as number, HASH_BASE);
    }
  }

  /**
   * Encodes `bytes[start .. end)` and returns the number of tokens, which are then in `ids` and
   * `starts` until the next call.
   */
  merge(bytes: Uint8Array, start: number, end: number): number {
    const length = end - start;
    this.work += length;
    if (length > FEW) return this.#mergeMany(bytes, start, length);
    return this.#mergeFew(bytes, start, length);
  }

  /** Lets go of what an unusually long merge needed. */
  release(): void {
    if (this.#next.length > KEPT) this.#grow(FEW);
  }

  #mergeFew(bytes: Uint8Array, start: number, length: number): number {
    const ids = this.ids;
    const starts = this.starts;
    const ranks = this.#ranks;
    this.#begin(bytes, start, length);
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
      if (at < last) ranks[at] = this.#rank(bytes, start, starts[at] as number, starts[at + 2] as number);
      if (at > 0) {
        ranks[at - 1] = this.#rank(bytes, start, starts[at - 1] as number, starts[at + 1] as number);
      }
    }
  }

  #mergeMany(bytes: Uint8Array, start: number, length: number): number {
    if (this.#next.length < length + 1) this.#grow(length);
    this.#begin(bytes, start, length);
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
        this.#rankAgain(bytes, start, at, next[after] as number);
      }
      const before = previous[at] as number;
      if (before >= 0) this.#rankAgain(bytes, start, before, after);
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

  /** Every byte a token, with the ranks of neighbours and the hashes of prefixes. */
  #begin(bytes: Uint8Array, start: number, length: number): void {
    const { pairs } = this.#table;
    const limit = this.#limit;
    const ids = this.ids;
    const ranks = this.#ranks;
    const prefixes = this.#prefixes;
    const byteIds = this.#byteIds;
    let hash = 0;
    let before = 0;
    prefixes[0] = 0;
    for (let i = 0; i < length; i++) {
      const byte = bytes[start + i] as number;
      ids[i] = byteIds[byte] as number;
      hash = Math.imul(hash, HASH_BASE) + byte + 1;
      prefixes[i + 1] = hash;
      if (i > 0) {
        const rank = pairs[(before << 8) | byte] as number;
        ranks[i - 1] = rank < limit ? rank : NO_TOKEN;
      }
      before = byte;
    }
    ranks[length - 1] = NO_TOKEN;
  }

  /** The rank of the bytes from `from` up to `to`, counted from `start`. */
  #rank(bytes: Uint8Array, start: number, from: number, to: number): number {
    const table = this.#table;
    const length = to - from;
    if (length > table.maxLength) return NO_TOKEN;
    const prefixes = this.#prefixes;
    const hash =
      (prefixes[to] as number) - Math.imul(prefixes[from] as number, this.#powers[length] as number);
    return table.find(bytes, start + from, start + to, hash, this.#limit);
  }

  #rankAgain(bytes: Uint8Array, start: number, from: number, to: number): void {
    const rank = this.#rank(bytes, start, from, to);
    this.#ranks[from] = rank;
    if (rank !== NO_TOKEN) this.#push(rank * SPAN + from);
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
    this.#prefixes = new Int32Array(length + 1);
    this.#ranks = new Int32Array(length + 1);
    this.#next = new Int32Array(length + 1);
    this.#previous = new Int32Array(length + 1);
    this.#heap = new Float64Array(length + 1);
  }
}
