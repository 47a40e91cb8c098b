import { NO_TOKEN } from './token-table.js';

/**
 * Keeps a rank for every position and finds the leftmost of the lowest. It is a complete binary tree in an
 * array: the leaves are the ranks, and each node is the lower of its two children. Reading the lowest rank
 * takes one step; changing a rank, or finding a position, takes one step per level.
 */
export class RankTree {
  /** Node `k` is the parent of `2k` and `2k + 1`; the leaves begin at `#leaves`. */
  #nodes = new Int32Array(2);
  #leaves = 1;

  /** Makes room for `length` positions, all without a rank. */
  reset(length: number): void {
    const leaves = length <= 1 ? 1 : 1 << (32 - Math.clz32(length - 1));
    if (this.#nodes.length < 2 * leaves) this.#nodes = new Int32Array(2 * leaves);
    this.#leaves = leaves;
    this.#nodes.fill(NO_TOKEN, 0, 2 * leaves);
  }

  /** Sets an initial rank; call `build` after the last one. */
  put(position: number, rank: number): void {
    this.#nodes[this.#leaves + position] = rank;
  }

  build(): void {
    const nodes = this.#nodes;
    for (let node = this.#leaves - 1; node > 0; node--) {
      nodes[node] = Math.min(nodes[2 * node] as number, nodes[2 * node + 1] as number);
    }
  }

  set(position: number, rank: number): void {
    const nodes = this.#nodes;
    let node = this.#leaves + position;
    nodes[node] = rank;
    for (node >>= 1; node > 0; node >>= 1) {
      const lower = Math.min(nodes[2 * node] as number, nodes[2 * node + 1] as number);
      if (nodes[node] === lower) return;
      nodes[node] = lower;
    }
  }

  /** The lowest rank, or NO_TOKEN. */
  get lowest(): number {
    return this.#nodes[1] as number;
  }

  /** The leftmost position of the lowest rank. */
  leftmost(): number {
    const nodes = this.#nodes;
    const lowest = nodes[1];
    let node = 1;
    while (node < this.#leaves) {
      node *= 2;
      if (nodes[node] !== lowest) node++;
    }
    return node - this.#leaves;
  }
}
