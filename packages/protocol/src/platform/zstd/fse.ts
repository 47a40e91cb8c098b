import { type BitWriter, bitsAt, highBit } from './bits.js';

/**
 * Finite state entropy (RFC 8878, section 4.1): a table of `1 << log` cells, of which each symbol owns as many
 * as its share. A share of -1 is a single cell at the end of the table.
 */
export interface Shares {
  readonly log: number;
  /** Cells by symbol. */
  readonly shares: ArrayLike<number>;
}

/** A table to decode with. */
export interface FseTable {
  readonly log: number;
  /** By state: the lowest next state × 65,536, bits to add to it × 256, and the symbol. */
  readonly cells: Int32Array;
}

/** A table to encode with; see `FseState`. */
export interface FseCoder {
  readonly log: number;
  /** By symbol: its cells, the most bits that it writes, and where its cells begin, minus their number. */
  readonly shares: Int32Array;
  readonly most: Uint8Array;
  readonly offsets: Int32Array;
  /** The states of each symbol in order, symbol after symbol. */
  readonly states: Uint16Array;
}

/** The shares of a table that has only one symbol and needs no bits. */
export function singleSymbol(symbol: number): Shares {
  const shares = new Int16Array(symbol + 1);
  shares[symbol] = 1;
  return { log: 0, shares };
}

/** The smallest `log` that a table on the wire can have. */
export const MIN_LOG = 5;

/**
 * Reads the description of a table (section 4.1.1) that lies in bytes `at` to `end`. Returns the offset after
 * it as well.
 */
export function readShares(
  view: DataView,
  at: number,
  end: number,
  maxLog: number,
  maxSymbol: number,
): Shares & { readonly end: number } {
  let bit = at * 8;
  const log = bitsAt(view, bit, 4) + MIN_LOG;
  bit += 4;
  if (log > maxLog) throw new Error('a table is too large');
  const shares = new Int16Array(maxSymbol + 1);
  let symbol = 0;
  let left = 1 << log;
  while (left > 0) {
    if (symbol > maxSymbol) throw new Error('a table has too many symbols');
    const width = highBit(left + 1) + 1;
    const low = (1 << (width - 1)) - 1;
    const short = low * 2 - left;
    let value = bitsAt(view, bit, width);
    bit += width;
    if ((value & low) < short) {
      value &= low;
      bit--;
    } else if (value > low) value -= short;
    shares[symbol++] = value - 1;
    left -= Math.abs(value - 1);
    if (value === 1) {
      let zeros = 3;
      for (; zeros === 3 && symbol <= maxSymbol; bit += 2) {
        zeros = bitsAt(view, bit, 2);
        symbol += zeros;
      }
    }
    if (bit > end * 8) throw new Error('a table is cut off');
  }
  return { log, shares, end: (bit + 7) >> 3 };
}

/** Writes what `readShares` reads. */
export function writeShares(writer: BitWriter, { log, shares }: Shares): void {
  writer.add(log - MIN_LOG, 4);
  let left = 1 << log;
  for (let symbol = 0; left > 0; ) {
    const share = shares[symbol++] as number;
    const width = highBit(left + 1) + 1;
    const low = (1 << (width - 1)) - 1;
    const short = low * 2 - left;
    const value = share + 1;
    if (value < short) writer.add(value, width - 1);
    else writer.add(value > low ? value + short : value, width);
    left -= Math.abs(share);
    if (share === 0) {
      let zeros = 0;
      while (shares[symbol] === 0) {
        symbol++;
        zeros++;
      }
      for (; zeros >= 3; zeros -= 3) writer.add(3, 2);
      writer.add(zeros, 2);
    }
  }
}

/** The symbol of each cell. */
function spread({ log, shares }: Shares): Uint8Array {
  const size = 1 << log;
  const symbols = new Uint8Array(size);
  let high = size - 1;
  for (let symbol = 0; symbol < shares.length; symbol++) {
    if (shares[symbol] === -1) symbols[high--] = symbol;
  }
  const step = (size >> 1) + (size >> 3) + 3;
  let at = 0;
  for (let symbol = 0; symbol < shares.length; symbol++) {
    for (let i = shares[symbol] as number; i > 0; i--) {
      symbols[at] = symbol;
      do at = (at + step) & (size - 1);
      while (at > high);
    }
  }
  return symbols;
}

export function createTable(table: Shares): FseTable {
  const { log } = table;
  const next = cellsOf(table);
  const symbols = spread(table);
  const cells = new Int32Array(1 << log);
  for (let i = 0; i < cells.length; i++) {
    const symbol = symbols[i]!;
    const state = next[symbol]!++;
    const bits = log - highBit(state);
    cells[i] = (((state << bits) - cells.length) << 16) | (bits << 8) | symbol;
  }
  return { log, cells };
}

export function createCoder(table: Shares): FseCoder {
  const { log } = table;
  const shares = cellsOf(table);
  const next = shares.slice();
  const most = new Uint8Array(shares.length);
  const offsets = new Int32Array(shares.length);
  let total = 0;
  for (let symbol = 0; symbol < shares.length; symbol++) {
    const share = shares[symbol]!;
    most[symbol] = log - highBit(share);
    offsets[symbol] = total - share;
    total += share;
  }
  const symbols = spread(table);
  const states = new Uint16Array(1 << log);
  for (let state = 0; state < states.length; state++) {
    const symbol = symbols[state]!;
    states[offsets[symbol]! + next[symbol]!++] = state;
  }
  return { log, shares, most, offsets, states };
}

/** How many cells each symbol has. */
function cellsOf({ shares }: Shares): Int32Array {
  const cells = new Int32Array(shares.length);
  for (let symbol = 0; symbol < cells.length; symbol++) cells[symbol] = Math.abs(shares[symbol]!);
  return cells;
}

/** Encodes symbols, last one first. */
export class FseState {
  readonly #coder: FseCoder;
  readonly #writer: BitWriter;
  #state: number;

  /** @param last the last symbol, which needs no bits. */
  constructor(coder: FseCoder, writer: BitWriter, last: number) {
    this.#coder = coder;
    this.#writer = writer;
    // From the first state of a symbol, readers need at least one more bit to continue, so they notice the end.
    this.#state = this.#stateOf(last, coder.shares[last]!);
  }

  add(symbol: number): void {
    const { shares, most } = this.#coder;
    const state = this.#state + this.#coder.states.length;
    const bits = most[symbol]!;
    const count = state < shares[symbol]! << bits ? bits - 1 : bits;
    this.#writer.add(state, count);
    this.#state = this.#stateOf(symbol, state >> count);
  }

  /** Writes the state that decoding starts in. */
  finish(): void {
    this.#writer.add(this.#state, this.#coder.log);
  }

  #stateOf(symbol: number, index: number): number {
    return this.#coder.states[this.#coder.offsets[symbol]! + index]!;
  }
}

/** The bits that `counts` symbols take in a table, without its description; infinite if it lacks one. */
export function costOf(counts: ArrayLike<number>, { log, shares }: Shares): number {
  let bits = 0;
  for (let symbol = 0; symbol < counts.length; symbol++) {
    const count = counts[symbol]!;
    if (count > 0) bits += count * (log - Math.log2(Math.abs(shares[symbol] ?? 0)));
  }
  return bits;
}

/** Shares of a table of `1 << log` cells, as near to `counts` as cells allow. There must be two symbols. */
export function sharesOf(counts: ArrayLike<number>, total: number, log: number): Shares {
  let left = 1 << log;
  const shares = new Int16Array(counts.length);
  for (let symbol = 0; symbol < shares.length; symbol++) {
    const count = counts[symbol]!;
    if (count > 0) shares[symbol] = Math.max(1, Math.round((count / total) * (1 << log)));
    left -= shares[symbol]!;
  }
  // Cell by cell, change the symbol that gains most or loses least by it.
  for (const step = Math.sign(left); left !== 0; left -= step) {
    let best = 0;
    let most = -Infinity;
    for (let symbol = 0; symbol < shares.length; symbol++) {
      const share = shares[symbol]!;
      if (share + step < 1 || share === 0) continue;
      const gain = counts[symbol]! * Math.log2((share + step) / share);
      if (gain > most) {
        most = gain;
        best = symbol;
      }
    }
    shares[best]! += step;
  }
  return { log, shares };
}
