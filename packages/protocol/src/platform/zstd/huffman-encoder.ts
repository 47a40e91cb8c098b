import { BitWriter } from './bits.js';
import { LiteralsType, MAX_CODE_LENGTH, MAX_WEIGHTS_LOG } from './codes.js';
import { createCoder, FseState, MIN_LOG, sharesOf, writeShares } from './fse.js';

/** Fewer literals than this never pay for a table, and more than one stream needs as many. */
const MIN_CODED = 24;
const MIN_STREAMS = 256;

/**
 * Writes the literals of a block (RFC 8878, section 3.1.1.3.1), Huffman-coded if that is shorter. `out` must
 * have room for them as they are. Returns the offset after them.
 */
export function writeLiterals(literals: Uint8Array, out: Uint8Array, at: number): number {
  const size = literals.length;
  const coded = size < MIN_CODED ? undefined : encode(literals);
  if (coded === undefined) {
    const isSame = size > 1 && literals.every((literal) => literal === literals[0]);
    const type = isSame ? LiteralsType.RLE : LiteralsType.RAW;
    const writer = new BitWriter(out, at);
    writer.add(type, 2);
    if (size < 32) writer.add(size << 1, 6);
    else if (size < 4096) writer.add((size << 2) | 1, 14);
    else writer.add((size << 2) | 3, 22);
    at = writer.finish();
    out.set(isSame ? literals.subarray(0, 1) : literals, at);
    return at + (isSame ? 1 : size);
  }
  const format = size < MIN_STREAMS ? 0 : size < 1 << 10 ? 1 : size < 1 << 14 ? 2 : 3;
  const width = [10, 10, 14, 18][format]!;
  const writer = new BitWriter(out, at);
  writer.add(LiteralsType.COMPRESSED | (format << 2), 4);
  writer.add(size, width);
  writer.add(coded.length, width);
  at = writer.finish();
  out.set(coded, at);
  return at + coded.length;
}

/** The table and the bitstreams; `undefined` if they are no shorter than the literals. */
function encode(literals: Uint8Array): Uint8Array | undefined {
  const size = literals.length;
  const counts = new Uint32Array(256);
  for (let i = 0; i < size; i++) counts[literals[i]!]!++;
  const lengths = codeLengths(counts);
  if (lengths === undefined) return undefined;
  // Bytes that do not fit are lost; the length shows that in the end.
  const out = new Uint8Array(size);
  let at = writeTable(lengths, out);
  if (at === 0) return undefined;
  const codes = codesOf(lengths);
  const each = size < MIN_STREAMS ? size : (size + 3) >> 2;
  const jumps = at;
  if (size >= MIN_STREAMS) at += 6;
  for (let start = 0, i = 0; start < size; start += each, i++) {
    const end = writeCodes(literals.subarray(start, start + each), codes, lengths, out, at);
    if (size >= MIN_STREAMS && i < 3) {
      out[jumps + 2 * i] = end - at;
      out[jumps + 2 * i + 1] = (end - at) >> 8;
    }
    at = end;
  }
  return at < size ? out.subarray(0, at) : undefined;
}

/**
 * Writes the codes of `literals`, last one first, as a `BitWriter` would; it is half of the work, so the bits stay in
 * variables. Returns the offset after them.
 */
function writeCodes(
  literals: Uint8Array,
  codes: Uint16Array,
  lengths: Uint8Array,
  out: Uint8Array,
  at: number,
): number {
  let pending = 0;
  let count = 0;
  for (let i = literals.length - 1; i >= 0; i--) {
    const literal = literals[i]!;
    pending |= codes[literal]! << count;
    for (count += lengths[literal]!; count >= 8; count -= 8) {
      out[at++] = pending;
      pending >>>= 8;
    }
  }
  // The mark.
  out[at++] = pending | (1 << count);
  return at;
}

/**
 * The lengths of codes by literal, 0 for those that do not occur: the best of at most 11 bits, by merging the
 * two rarest packages of each length ("package-merge"). `undefined` for a single literal.
 */
function codeLengths(counts: Uint32Array): Uint8Array | undefined {
  // Counts have 17 bits at most, so the rest of each number can be the literal.
  const order = counts.map((count, literal) => (count << 8) | literal).filter((item) => item > 255);
  order.sort();
  if (order.length < 2) return undefined;
  // By code length, longest first: whether each of the cheapest items is a literal or a package of two before.
  const most = 2 * order.length;
  const isLiteral = new Uint8Array(MAX_CODE_LENGTH * most);
  const costs = new Uint32Array(most);
  let packages = 0;
  for (let level = 0; level < MAX_CODE_LENGTH; level++) {
    const start = level * most;
    // The packages before lie in `costs` from `order.length` on, so that none is overwritten before it is read.
    let [count, i, j, before] = [0, 0, 0, 0];
    while (i < order.length || j < packages) {
      const own = i < order.length ? order[i]! >>> 8 : Infinity;
      const package_ = j < packages ? costs[order.length + j]! : Infinity;
      const cost = Math.min(own, package_);
      if (own <= package_) {
        isLiteral[start + count] = 1;
        i++;
      } else j++;
      if ((count & 1) === 1) costs[count >> 1] = before + cost;
      before = cost;
      count++;
    }
    packages = count >> 1;
    costs.copyWithin(order.length, 0, packages);
  }
  const lengths = new Uint8Array(256);
  for (let taken = most - 2, level = MAX_CODE_LENGTH; taken > 0; ) {
    level--;
    let literals = 0;
    for (let i = 0; i < taken; i++) if (isLiteral[level * most + i]) lengths[order[literals++]! & 255]!++;
    taken = 2 * (taken - literals);
  }
  return lengths;
}

/** Codes count upwards, the longest first, and in the order of literals if they have the same length. */
function codesOf(lengths: Uint8Array): Uint16Array {
  const codes = new Uint16Array(256);
  let next = 0;
  for (let length = MAX_CODE_LENGTH; length > 0; length--) {
    for (let literal = 0; literal < 256; literal++) if (lengths[literal] === length) codes[literal] = next++;
    next >>= 1;
  }
  return codes;
}

/** Writes the weights of all literals but the last (section 4.2.1). Returns their size, 0 if they do not fit. */
function writeTable(lengths: Uint8Array, out: Uint8Array): number {
  const longest = Math.max(...lengths);
  const count = lengths.findLastIndex((length) => length > 0);
  const weights = lengths.subarray(0, count).map((length) => (length > 0 ? longest + 1 - length : 0));
  const packed = packWeights(weights);
  const plain = (count + 1) >> 1;
  if (packed !== undefined && packed.length < Math.min(plain, 128)) {
    if (packed.length >= out.length) return 0;
    out[0] = packed.length;
    out.set(packed, 1);
    return 1 + packed.length;
  }
  if (count > 128 || plain >= out.length) return 0;
  out[0] = 127 + count;
  for (let i = 0; i < plain; i++) out[1 + i] = (weights[2 * i]! << 4) | (weights[2 * i + 1] ?? 0);
  return 1 + plain;
}

/** The weights, coded with two states in turn; `undefined` if they are all the same. */
function packWeights(weights: Uint8Array): Uint8Array | undefined {
  const counts = new Uint8Array(MAX_CODE_LENGTH + 1);
  for (const weight of weights) counts[weight]!++;
  if (weights.length < 2 || counts.includes(weights.length)) return undefined;
  const out = new Uint8Array(256);
  const log = weights.length < 32 ? MIN_LOG : MAX_WEIGHTS_LOG;
  const shares = sharesOf(counts, weights.length, log);
  const head = new BitWriter(out, 0);
  writeShares(head, shares);
  const writer = new BitWriter(out, head.finish());
  const coder = createCoder(shares);
  const { length } = weights;
  const states = [length - 1, length - 2].map((last) => new FseState(coder, writer, weights[last]!)) as [
    FseState,
    FseState,
  ];
  for (let i = length - 3; i >= 0; i--) states[(length - 1 - i) & 1]!.add(weights[i]!);
  // The state of the first weight is read first.
  states[length & 1]!.finish();
  states[(length & 1) ^ 1]!.finish();
  return out.subarray(0, writer.mark());
}
