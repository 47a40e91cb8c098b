import { BitWriter, highBit } from './bits.js';
import {
  type CodeKind,
  KINDS,
  LITERAL_BASE,
  LITERAL_BITS,
  MATCH_BASE,
  MATCH_BITS,
  TableMode,
} from './codes.js';
import {
  costOf,
  createCoder,
  type FseCoder,
  FseState,
  MIN_LOG,
  type Shares,
  sharesOf,
  singleSymbol,
  writeShares,
} from './fse.js';

/** Sequences of a block: literals to copy, then a match. */
export class Sequences {
  count = 0;
  /** The number of literals, the value of the offset, and the bytes of the match beyond the least. */
  readonly literals: Int32Array;
  readonly offsets: Int32Array;
  readonly matches: Int32Array;

  /** @param most the most sequences. */
  constructor(most: number) {
    this.literals = new Int32Array(most);
    this.offsets = new Int32Array(most);
    this.matches = new Int32Array(most);
  }
}

/** Codes of the lengths below 64 and 128; longer ones have a code for each power of two. */
const LITERAL_CODES = codesBelow(64, LITERAL_BASE);
const MATCH_CODES = codesBelow(128, MATCH_BASE);

function codesBelow(end: number, base: Int32Array): Uint8Array {
  const codes = new Uint8Array(end);
  for (let code = 0; code < base.length; code++) codes.fill(code, base[code]);
  return codes;
}

const literalCode = (length: number) => (length < 64 ? LITERAL_CODES[length]! : 19 + highBit(length));
const matchCode = (length: number) => (length < 128 ? MATCH_CODES[length]! : 36 + highBit(length));

/** Writes the sequences of a block (RFC 8878, section 3.1.1.3.2). Returns the offset after them. */
export function writeSequences(sequences: Sequences, out: Uint8Array, at: number): number {
  const { count, literals, offsets, matches } = sequences;
  if (count < 128) out[at++] = count;
  else if (count < 0x7f00) {
    out[at++] = (count >> 8) + 128;
    out[at++] = count;
  } else {
    out[at++] = 255;
    out[at++] = count - 0x7f00;
    out[at++] = (count - 0x7f00) >> 8;
  }
  if (count === 0) return at;

  const literalCodes = new Uint8Array(count);
  const offsetCodes = new Uint8Array(count);
  const matchCodes = new Uint8Array(count);
  for (let i = 0; i < count; i++) {
    literalCodes[i] = literalCode(literals[i]!);
    offsetCodes[i] = highBit(offsets[i]!);
    matchCodes[i] = matchCode(matches[i]!);
  }
  const modesAt = at++;
  let modes = 0;
  const [literalCoder, offsetCoder, matchCoder] = [literalCodes, offsetCodes, matchCodes].map((codes, i) => {
    const table = chooseTable(codes, KINDS[i] as CodeKind);
    modes |= table.mode << (6 - 2 * i);
    out.set(table.description, at);
    at += table.description.length;
    return table.coder;
  }) as [FseCoder, FseCoder, FseCoder];
  out[modesAt] = modes;

  const writer = new BitWriter(out, at);
  let i = count - 1;
  const matchState = new FseState(matchCoder, writer, matchCodes[i]!);
  const offsetState = new FseState(offsetCoder, writer, offsetCodes[i]!);
  const literalState = new FseState(literalCoder, writer, literalCodes[i]!);
  for (;;) {
    const literal = literalCodes[i]!;
    const match = matchCodes[i]!;
    writer.add(literals[i]! - LITERAL_BASE[literal]!, LITERAL_BITS[literal]!);
    writer.add(matches[i]! - MATCH_BASE[match]!, MATCH_BITS[match]!);
    writer.add(offsets[i]!, offsetCodes[i]!);
    if (--i < 0) break;
    offsetState.add(offsetCodes[i]!);
    matchState.add(matchCodes[i]!);
    literalState.add(literalCodes[i]!);
  }
  matchState.finish();
  offsetState.finish();
  literalState.finish();
  return writer.mark();
}

interface ChosenTable {
  readonly mode: number;
  readonly description: Uint8Array;
  readonly coder: FseCoder;
}

/** The description that makes description and codes the shortest. */
function chooseTable(codes: Uint8Array, kind: CodeKind): ChosenTable {
  const counts = new Uint32Array(kind.maxCode + 1);
  for (let i = 0; i < codes.length; i++) counts[codes[i]!]!++;
  const total = codes.length;
  const cost = costOf(counts, kind.predefined);
  const only = counts.indexOf(total);
  if (only >= 0) {
    if (cost > 8) return chosen(TableMode.RLE, Uint8Array.of(only), singleSymbol(only));
  } else {
    const distinct = counts.filter((count) => count > 0).length;
    const log = Math.max(MIN_LOG, highBit(distinct) + 1, Math.min(highBit(total) - 1, kind.maxLog));
    const shares = sharesOf(counts, total, log);
    const description = new Uint8Array(128);
    const writer = new BitWriter(description, 0);
    writeShares(writer, shares);
    const length = writer.finish();
    if (length * 8 + costOf(counts, shares) < cost) {
      return chosen(TableMode.COMPRESSED, description.subarray(0, length), shares);
    }
  }
  const coder = (predefined.get(kind) ?? createCoder(kind.predefined)) as FseCoder;
  predefined.set(kind, coder);
  return { mode: TableMode.PREDEFINED, description: new Uint8Array(0), coder };
}

function chosen(mode: number, description: Uint8Array, shares: Shares): ChosenTable {
  return { mode, description, coder: createCoder(shares) };
}

const predefined = new Map<CodeKind, FseCoder>();
