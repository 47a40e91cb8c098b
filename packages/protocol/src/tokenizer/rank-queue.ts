import { NO_TOKEN } from './token-table.js';

/**
 * Keeps a rank for each of up to MAX_POSITIONS positions and knows the leftmost of the lowest. Like `RankTree`, it is a
 * complete binary tree of minima, but a node is one integer, the rank above the position. So the root is the answer,
 * and comparing takes no branch, which a processor would guess wrong half of the time.
 */

const POSITION_BITS = 13;
export const MAX_POSITIONS = 1 << POSITION_BITS;
const POSITION_MASK = MAX_POSITIONS - 1;
const RANK_MASK = (1 << 18) - 1;
/** The lowest key without a rank, which the lowest bits of NO_TOKEN make. */
const NONE = (NO_TOKEN & RANK_MASK) << POSITION_BITS;

export class RankQueue {
  /** Node `k` is the parent of `2k` and `2k + 1`; the leaves begin at `#leaves`. */
  #nodes = new Int32Array(2);
  #leaves = 1;

  /** Replaces everything by the ranks of the positions below `length`. */
  fill(ranks: Int32Array, length: number): void {
    const leaves = length <= 1 ? 1 : 1 << (32 - Math.clz32(length - 1));
    if (this.#nodes.length < 2 * leaves) this.#nodes = new Int32Array(2 * leaves);
    this.#leaves = leaves;
    const nodes = this.#nodes;
    for (let at = 0; at < length; at++) nodes[leaves + at] = keyOf(ranks[at] as number, at);
    nodes.fill(NONE, leaves + length, 2 * leaves);
    for (let node = leaves - 1; node > 0; node--) pull(nodes, node);
  }

  /** The leftmost position of the lowest rank, or -1 if no position has a rank. */
  first(): number {
    const key = this.#nodes[1] as number;
    return key >= NONE ? -1 : key & POSITION_MASK;
  }

  /** Sets the ranks of three positions in ascending order, of which any may be the same, from `ranks`. */
  update(ranks: Int32Array, a: number, b: number, c: number): void {
    const nodes = this.#nodes;
    let left = this.#leaves + a;
    let middle = this.#leaves + b;
    let right = this.#leaves + c;
    nodes[left] = keyOf(ranks[a] as number, a);
    nodes[middle] = keyOf(ranks[b] as number, b);
    nodes[right] = keyOf(ranks[c] as number, c);
    while (left !== right) {
      left >>= 1;
      middle >>= 1;
      right >>= 1;
      pull(nodes, left);
      pull(nodes, middle);
      pull(nodes, right);
    }
    for (left >>= 1; left > 0; left >>= 1) pull(nodes, left);
  }

  /** Sets the ranks of all positions from `first` to `last` from `ranks`. */
  updateAll(ranks: Int32Array, first: number, last: number): void {
    const nodes = this.#nodes;
    for (let at = first; at <= last; at++) nodes[this.#leaves + at] = keyOf(ranks[at] as number, at);
    let left = (this.#leaves + first) >> 1;
    let right = (this.#leaves + last) >> 1;
    for (; left > 0; left >>= 1, right >>= 1) {
      for (let node = left; node <= right; node++) pull(nodes, node);
    }
  }
}

function keyOf(rank: number, position: number): number {
  return ((rank & RANK_MASK) << POSITION_BITS) | position;
}

/** Makes a node the lower of its two children. */
function pull(nodes: Int32Array, node: number): void {
  const right = nodes[2 * node + 1] as number;
  // Keys are not negative, so the difference does not overflow.
  const difference = ((nodes[2 * node] as number) - right) | 0;
  nodes[node] = right + (difference & (difference >> 31));
}
