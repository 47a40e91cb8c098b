/**
 * A binary heap of (rank, position), the lowest rank first and of equal ranks the leftmost. Both are
 * one number, exact below 2^53: 18 bits of rank above 32 of position.
 */

const SPAN = 2 ** 32;

/** The rank of an entry. */
export const rankOf = (entry: number) => Math.floor(entry / SPAN);
/** The position of an entry. */
export const positionOf = (entry: number) => entry % SPAN;

export class RankHeap {
  size = 0;
  #entries = new Float64Array(1);

  /** Empties the heap and gives it room for so many entries, beyond which it grows by itself. */
  reset(capacity: number): void {
    this.size = 0;
    this.#entries = new Float64Array(Math.max(1, capacity));
  }

  clear(): void {
    this.size = 0;
  }

  push(rank: number, position: number): void {
    if (this.size === this.#entries.length) {
      const grown = new Float64Array(this.size * 2);
      grown.set(this.#entries);
      this.#entries = grown;
    }
    const entries = this.#entries;
    const entry = rank * SPAN + position;
    let at = this.size++;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = entries[parent] as number;
      if (above <= entry) break;
      entries[at] = above;
      at = parent;
    }
    entries[at] = entry;
  }

  /** Takes out the first entry of a heap that is not empty. */
  pop(): number {
    const entries = this.#entries;
    const first = entries[0] as number;
    const size = --this.size;
    const last = entries[size] as number;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && (entries[child + 1] as number) < (entries[child] as number)) child++;
      if ((entries[child] as number) >= last) break;
      entries[at] = entries[child] as number;
      at = child;
    }
    entries[at] = last;
    return first;
  }
}
