import { BitReader, beginningOf, bitsAt, highBit } from './bits.js';
import { MAX_CODE_LENGTH, MAX_WEIGHTS_LOG } from './codes.js';
import { createTable, readShares } from './fse.js';

/** A table to decode literals with: by the next `log` bits, the length of a code × 256 and its literal. */
export interface HuffmanTable {
  readonly log: number;
  readonly cells: Uint16Array;
}

const MAX_WEIGHTS = 255;

/** Reads the description of a table (section 4.2.1). Returns the offset after it as well. */
export function readHuffman(
  view: DataView,
  at: number,
  end: number,
): { readonly table: HuffmanTable; readonly end: number } {
  if (at >= end) throw new Error('a Huffman table is cut off');
  const head = view.getUint8(at++);
  const size = head < 128 ? head : (head - 126) >> 1;
  if (at + size > end) throw new Error('a Huffman table is cut off');
  const weights = new Uint8Array(MAX_WEIGHTS + 1);
  const count =
    head < 128 ? readWeights(view, at, at + size, weights) : readPlainWeights(view, at, head - 127, weights);
  return { table: createHuffman(weights, count), end: at + size };
}

function readPlainWeights(view: DataView, at: number, count: number, weights: Uint8Array): number {
  for (let i = 0; i < count; i++) weights[i] = (view.getUint8(at + (i >> 1)) >> (i & 1 ? 0 : 4)) & 15;
  return count;
}

/** Two states take turns (section 4.2.1.2). */
function readWeights(view: DataView, at: number, end: number, weights: Uint8Array): number {
  const shares = readShares(view, at, end, MAX_WEIGHTS_LOG, MAX_CODE_LENGTH);
  const { log, cells } = createTable(shares);
  const bits = new BitReader(view, shares.end, end);
  let own = bits.take(log);
  let other = bits.take(log);
  if (bits.left < 0) throw new Error('weights are cut off');
  for (let count = 0; count < MAX_WEIGHTS; ) {
    const cell = cells[own]!;
    weights[count++] = cell;
    own = other;
    other = (cell >> 16) + bits.take((cell >> 8) & 255);
    if (bits.left < 0) {
      if (count === MAX_WEIGHTS) break;
      weights[count++] = cells[own]!;
      return count;
    }
  }
  throw new Error('a Huffman table has too many weights');
}

/** @param weights of the literals from 0 on; the weight of the last one follows from the others. */
function createHuffman(weights: Uint8Array, count: number): HuffmanTable {
  let total = 0;
  for (let i = 0; i < count; i++) total += (1 << weights[i]!) >> 1;
  const log = highBit(total) + 1;
  const rest = (1 << log) - total;
  if (total === 0 || log > MAX_CODE_LENGTH || (rest & (rest - 1)) !== 0) {
    throw new Error('the weights of a Huffman table do not add up');
  }
  weights[count] = highBit(rest) + 1;
  if (!weights.includes(1)) throw new Error('a Huffman table has no longest code');
  const cells = new Uint16Array(1 << log);
  let at = 0;
  for (let weight = 1; weight <= log; weight++) {
    for (let literal = 0; literal <= count; literal++) {
      if (weights[literal] !== weight) continue;
      const next = at + (1 << (weight - 1));
      cells.fill(((log + 1 - weight) << 8) | literal, at, next);
      at = next;
    }
  }
  return { log, cells };
}

/** Decodes one bitstream, bytes `start` to `end`, into bytes `at` to `last` of `out`. */
export function readHuffmanStream(
  view: DataView,
  start: number,
  end: number,
  { log, cells }: HuffmanTable,
  out: Uint8Array,
  at: number,
  last: number,
): void {
  const mask = cells.length - 1;
  let bit = beginningOf(view, start, end);
  // Two literals at a time: 22 bits at most.
  for (; at + 1 < last; at += 2) {
    const low = bit - 2 * log;
    const bits = view.getInt32(low >> 3, true) >>> (low & 7);
    const one = cells[(bits >> log) & mask]!;
    const other = cells[(bits >> (log - (one >> 8))) & mask]!;
    out[at] = one;
    out[at + 1] = other;
    bit -= (one >> 8) + (other >> 8);
  }
  if (at < last) {
    const one = cells[bitsAt(view, bit - log, log)]!;
    out[at] = one;
    bit -= one >> 8;
  }
  if (bit !== start * 8) throw new Error('a bitstream of literals has another length');
}
