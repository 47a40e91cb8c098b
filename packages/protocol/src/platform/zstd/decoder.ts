import { readZstdFrame } from '../zstd-frame.js';
import { BitReader, bitsAt } from './bits.js';
import {
  BlockType,
  type CodeKind,
  FIRST_OFFSETS,
  KINDS,
  LITERAL_BASE,
  LITERAL_BITS,
  LiteralsType,
  MATCH_BASE,
  MATCH_BITS,
  MAX_BLOCK_SIZE,
  MIN_MATCH,
  TableMode,
} from './codes.js';
import { createTable, type FseTable, readShares, singleSymbol } from './fse.js';
import { type HuffmanTable, readHuffman, readHuffmanStream } from './huffman-decoder.js';
import { xxh64 } from './xxh64.js';

/** The content of a frame has more bytes than there is room for. */
export class OutputFull extends Error {}

const NOTHING = new Uint8Array(0);
/** Bytes before and after a block that its bitstreams may touch before they notice that they are damaged. */
const MARGIN = 16;
/** Copies of more bytes than this are worth a call. */
const MANY = 48;

// One block at a time: its bytes with a margin, and its literals. Decoding neither waits nor calls back.
const block = new Uint8Array(MAX_BLOCK_SIZE + 2 * MARGIN);
const view = new DataView(block.buffer);
const literals = new Uint8Array(MAX_BLOCK_SIZE);

/**
 * Decompresses one frame (RFC 8878).
 *
 * @param capacity the most bytes of content.
 * @throws {OutputFull} if there are more.
 * @throws {Error} if the frame is damaged.
 */
export function decompress(bytes: Uint8Array, capacity: number, dictionary = NOTHING): Uint8Array {
  const { headerSize, contentSize } = readZstdFrame(bytes);
  const isSingle = (bytes[4]! & 0x20) !== 0;
  const window = bytes[5]!;
  const windowSize = isSingle ? contentSize! : (8 + (window & 7)) << (7 + (window >> 3));
  const maxBlockSize = Math.min(windowSize, MAX_BLOCK_SIZE);
  const content = new FrameReader(bytes, headerSize, maxBlockSize, capacity, dictionary).read();
  const hasChecksum = (bytes[4]! & 4) !== 0;
  if (hasChecksum) {
    const end = bytes.length - 4;
    const hash = xxh64(content);
    for (let i = 0; i < 4; i++) {
      if (bytes[end + i] !== ((hash >>> (8 * i)) & 255)) throw new Error('the checksum does not match');
    }
  }
  return content;
}

class FrameReader {
  readonly #bytes: Uint8Array;
  readonly #dictionary: Uint8Array;
  readonly #output: Uint8Array;
  /** The most bytes of a compressed block, and of what it holds (section 3.1.1.2.4). */
  readonly #maxBlockSize: number;
  #at: number;
  /** Bytes of `#output` that are written. */
  #length = 0;
  /** Bytes of `literals` that belong to this block. */
  #literals = 0;
  #huffman: HuffmanTable | undefined;
  readonly #tables: (FseTable | undefined)[] = [];
  readonly #offsets: [number, number, number] = [...FIRST_OFFSETS];

  constructor(bytes: Uint8Array, at: number, maxBlockSize: number, capacity: number, dictionary: Uint8Array) {
    this.#bytes = bytes;
    this.#at = at;
    this.#maxBlockSize = maxBlockSize;
    this.#dictionary = dictionary;
    this.#output = new Uint8Array(capacity);
  }

  read(): Uint8Array {
    while (!this.#readBlock());
    // A copy, so that a short content does not keep all the room.
    const output = this.#output;
    return this.#length === output.length ? output : output.slice(0, this.#length);
  }

  /** Returns whether it was the last one. */
  #readBlock(): boolean {
    const bytes = this.#bytes;
    let at = this.#at;
    const header = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16);
    at += 3;
    const size = header >> 3;
    const type = (header >> 1) & 3;
    if (type === BlockType.COMPRESSED) {
      if (size > this.#maxBlockSize) throw new Error('a block is too long');
      block.set(bytes.subarray(at, at + size), MARGIN);
      block.fill(0, MARGIN + size, 2 * MARGIN + size);
      const end = MARGIN + size;
      this.#readSequences(this.#readLiterals(end), end);
      at += size;
    } else {
      this.#reserve(size);
      if (type === BlockType.RLE) this.#output.fill(bytes[at]!, this.#length, this.#length + size);
      else this.#output.set(bytes.subarray(at, at + size), this.#length);
      at += type === BlockType.RLE ? 1 : size;
      this.#length += size;
    }
    this.#at = at;
    return (header & 1) !== 0;
  }

  #reserve(size: number): void {
    if (size > this.#output.length - this.#length) throw new OutputFull('the content is too long');
  }

  /** Decodes the literals of the block (section 3.1.1.3.1). Returns the offset after them. */
  #readLiterals(end: number): number {
    const head = block[MARGIN]!;
    const type = head & 3;
    const format = (head >> 2) & 3;
    const isCoded = type >= LiteralsType.COMPRESSED;
    // The bytes of the header; the size begins after 3 bits or 4, and both sizes have the same number of bits.
    const bytes = isCoded ? 3 + Math.max(format - 1, 0) : [1, 2, 1, 3][format]!;
    const first = MARGIN * 8 + (isCoded || (format & 1) === 1 ? 4 : 3);
    const width = isCoded ? bytes * 4 - 2 : bytes * 8 - first + MARGIN * 8;
    const size = bitsAt(view, first, width);
    let at = MARGIN + bytes;
    const next = at + (isCoded ? bitsAt(view, first + width, width) : type === LiteralsType.RLE ? 1 : size);
    if (next > end || size > MAX_BLOCK_SIZE) throw new Error('the literals are cut off');
    this.#literals = size;
    if (type === LiteralsType.RAW) literals.set(block.subarray(at, next));
    else if (type === LiteralsType.RLE) literals.fill(block[at]!, 0, size);
    else {
      if (type === LiteralsType.COMPRESSED) ({ table: this.#huffman, end: at } = readHuffman(view, at, next));
      const table = this.#huffman;
      if (table === undefined) throw new Error('there is no Huffman table to repeat');
      if (format === 0) readHuffmanStream(view, at, next, table, literals, 0, size);
      else readFourStreams(at, next, table, size);
    }
    return next;
  }

  /** Reads the tables of the sequences (section 3.1.1.3.2), then carries the sequences out. */
  #readSequences(at: number, end: number): void {
    let count = block[at++]!;
    if (count >= 128) {
      if (count < 255) count = ((count - 128) << 8) | block[at++]!;
      else {
        count = view.getUint16(at, true) + 0x7f00;
        at += 2;
      }
    }
    // The bytes after the block are zeros, and a block without sequences has only literals.
    if (count > 0) {
      const modes = block[at++]!;
      if ((modes & 3) !== 0) throw new Error('a block sets reserved bits');
      for (const [i, kind] of KINDS.entries())
        at = this.#readTable(kind, i, (modes >> (6 - 2 * i)) & 3, at, end);
    }
    const limit = this.#length + this.#maxBlockSize;
    const used = count > 0 ? this.#carryOut(count, at, end) : 0;
    if (count === 0 && at !== end) throw new Error('a block without sequences continues');
    const rest = this.#literals - used;
    this.#reserve(rest);
    this.#output.set(literals.subarray(used, used + rest), this.#length);
    this.#length += rest;
    if (this.#length > limit) throw new Error('a block holds too much');
  }

  #readTable(kind: CodeKind, index: number, mode: number, at: number, end: number): number {
    if (mode === TableMode.PREDEFINED) {
      this.#tables[index] = predefined[index] ??= createTable(kind.predefined);
    } else if (mode === TableMode.RLE) {
      const symbol = block[at++]!;
      if (symbol > kind.maxCode) throw new Error('a table has an unknown code');
      this.#tables[index] = createTable(singleSymbol(symbol));
    } else if (mode === TableMode.COMPRESSED) {
      const shares = readShares(view, at, end, kind.maxLog, kind.maxCode);
      this.#tables[index] = createTable(shares);
      return shares.end;
    } else if (this.#tables[index] === undefined) {
      throw new Error('there is no table to repeat');
    }
    return at;
  }

  /** Carries out the sequences of the block (section 3.1.1.4). Returns how many literals they take. */
  #carryOut(count: number, start: number, end: number): number {
    const [literalTable, offsetTable, matchTable] = this.#tables as [FseTable, FseTable, FseTable];
    const literalCells = literalTable.cells;
    const offsetCells = offsetTable.cells;
    const matchCells = matchTable.cells;
    const output = this.#output;
    const capacity = output.length;
    const reach = this.#dictionary.length;
    const total = this.#literals;
    let [last, second, third] = this.#offsets;
    let length = this.#length;
    let used = 0;
    const bits = new BitReader(view, start, end);
    let literalState = bits.take(literalTable.log);
    let offsetState = bits.take(offsetTable.log);
    let matchState = bits.take(matchTable.log);

    while (bits.left >= 0) {
      const literalCell = literalCells[literalState]!;
      const offsetCell = offsetCells[offsetState]!;
      const matchCell = matchCells[matchState]!;

      const offsetCode = offsetCell & 255;
      let value = (1 << offsetCode) >>> 0;
      if (offsetCode > 16) value += bits.take(offsetCode - 16) * 65536;
      const low = Math.min(offsetCode, 16);
      value += bits.take(low);
      const matchBits = MATCH_BITS[matchCell & 255]!;
      const matched = MIN_MATCH + MATCH_BASE[matchCell & 255]! + bits.take(matchBits);
      const literalBits = LITERAL_BITS[literalCell & 255]!;
      const copied = LITERAL_BASE[literalCell & 255]! + bits.take(literalBits);

      let offset: number;
      if (value > 3) {
        offset = value - 3;
        third = second;
        second = last;
      } else {
        const index = copied === 0 ? value : value - 1;
        offset = index === 0 ? last : index === 1 ? second : index === 2 ? third : last - 1;
        if (index > 1) third = second;
        if (index > 0) second = last;
      }
      last = offset;

      if (used + copied > total || bits.left < 0) throw new Error('a sequence is damaged');
      if (length + copied + matched > capacity) throw new OutputFull('the content is too long');
      if (copied > MANY) output.set(literals.subarray(used, used + copied), length);
      else for (let i = 0; i < copied; i++) output[length + i] = literals[used + i]!;
      used += copied;
      length += copied;

      if (offset < 1 || offset > length + reach) throw new Error('a match begins before the content');
      let from = length - offset;
      const stop = length + matched;
      if (from < 0) {
        const known = this.#dictionary.subarray(reach + from, reach + from + matched);
        output.set(known, length);
        length += known.length;
        from = 0;
      }
      if (stop - length > MANY) {
        // The repeated bytes between `from` and `length` double with each copy.
        while (length < stop) {
          const size = Math.min(length - from, stop - length);
          output.copyWithin(length, from, from + size);
          length += size;
        }
      } else while (length < stop) output[length++] = output[from++]!;

      if (--count === 0) break;
      const literalNext = (literalCell >> 8) & 255;
      literalState = (literalCell >> 16) + bits.take(literalNext);
      const matchNext = (matchCell >> 8) & 255;
      matchState = (matchCell >> 16) + bits.take(matchNext);
      const offsetNext = (offsetCell >> 8) & 255;
      offsetState = (offsetCell >> 16) + bits.take(offsetNext);
    }
    if (bits.left !== 0) throw new Error('the sequences have another length');
    this.#offsets.splice(0, 3, last, second, third);
    this.#length = length;
    return used;
  }
}

const predefined: (FseTable | undefined)[] = [];

/** Literals in four bitstreams, of which the first three have the same number of them. */
function readFourStreams(at: number, end: number, table: HuffmanTable, size: number): void {
  const each = (size + 3) >> 2;
  let start = at + 6;
  if (start > end || each * 3 > size) throw new Error('four bitstreams are cut off');
  for (let i = 0; i < 4; i++) {
    const next = i === 3 ? end : start + view.getUint16(at + 2 * i, true);
    if (next > end) throw new Error('a bitstream is cut off');
    readHuffmanStream(view, start, next, table, literals, each * i, i === 3 ? size : each * (i + 1));
    start = next;
  }
}
