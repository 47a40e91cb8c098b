import { ProtocolError } from '../base/errors.js';

/**
 * Zlib streams (RFC 1950) of DEFLATE data (RFC 1951) for platforms without a synchronous, bounded
 * decompressor. Only a deprecated format needs it, so it is written to be small and correct rather than fast.
 */

const MAX_CODE_LENGTH = 15;
const END_OF_BLOCK = 256;
const INITIAL_OUTPUT = 16 * 1024;

const LENGTH_BASE = [
  3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195,
  227, 258,
];
const LENGTH_EXTRA = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const DISTANCE_BASE = [
  1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097,
  6145, 8193, 12289, 16385, 24577,
];
const DISTANCE_EXTRA = [
  0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13,
];
const CODE_LENGTH_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/** A canonical Huffman code: the number of codes of each length, and their symbols in order. */
interface Huffman {
  readonly counts: Uint16Array;
  readonly symbols: Uint16Array;
}

const FIXED_LITERALS = buildHuffman([
  ...new Array<number>(144).fill(8),
  ...new Array<number>(112).fill(9),
  ...new Array<number>(24).fill(7),
  ...new Array<number>(8).fill(8),
]);
// Two of the 32 codes mean no distance; without them the code would be incomplete.
const FIXED_DISTANCES = buildHuffman(new Array<number>(32).fill(5));

/**
 * Decompresses one zlib stream that takes up all of `bytes`, checking its Adler-32.
 *
 * @throws {ProtocolError} `decompressed_too_large` as soon as the output would exceed `maxSize`,
 * `bad_compression` for damaged data, `trailing_bytes` if bytes follow the stream.
 */
export function inflate(bytes: Uint8Array, maxSize: number): Uint8Array<ArrayBuffer> {
  if (bytes.length < 2) throw damaged('its header is missing');
  const [method, flags] = bytes as unknown as readonly [number, number];
  if ((method & 0x0f) !== 8 || method >> 4 > 7) throw damaged('it does not hold DEFLATE data');
  if (((method << 8) | flags) % 31 !== 0) throw damaged('its header has a wrong check value');
  if ((flags & 0x20) !== 0) throw damaged('it needs a preset dictionary');
  const input = new BitReader(bytes, 2);
  const output = new Output(maxSize);
  let last = false;
  while (!last) {
    last = input.bits(1) === 1;
    const kind = input.bits(2);
    if (kind === 0) copyStored(input, output);
    else if (kind === 1) inflateBlock(input, output, FIXED_LITERALS, FIXED_DISTANCES);
    else if (kind === 2) inflateBlock(input, output, ...readCodes(input));
    else throw damaged('it has a block of unknown kind');
  }
  const trailer = input.takeAligned(4);
  const expected = ((trailer[0]! << 24) | (trailer[1]! << 16) | (trailer[2]! << 8) | trailer[3]!) >>> 0;
  const result = output.finish();
  if (adler32(result) !== expected) throw damaged('its checksum does not match');
  if (input.remaining > 0) {
    throw new ProtocolError('trailing_bytes', `${input.remaining} bytes follow the zlib stream`);
  }
  return result;
}

function copyStored(input: BitReader, output: Output): void {
  const header = input.takeAligned(4);
  const length = header[0]! | (header[1]! << 8);
  if (length !== (~(header[2]! | (header[3]! << 8)) & 0xffff)) throw damaged('a stored block is damaged');
  output.append(input.takeAligned(length));
}

function inflateBlock(input: BitReader, output: Output, literals: Huffman, distances: Huffman): void {
  for (;;) {
    const symbol = input.symbol(literals);
    if (symbol < END_OF_BLOCK) {
      output.push(symbol);
      continue;
    }
    if (symbol === END_OF_BLOCK) return;
    const lengthCode = symbol - END_OF_BLOCK - 1;
    const lengthBase = LENGTH_BASE[lengthCode];
    if (lengthBase === undefined) throw damaged('it has an unknown length');
    const length = lengthBase + input.bits(LENGTH_EXTRA[lengthCode] as number);
    const distanceCode = input.symbol(distances);
    const distanceBase = DISTANCE_BASE[distanceCode];
    if (distanceBase === undefined) throw damaged('it has an unknown distance');
    output.repeat(distanceBase + input.bits(DISTANCE_EXTRA[distanceCode] as number), length);
  }
}

function readCodes(input: BitReader): [literals: Huffman, distances: Huffman] {
  const literalCount = input.bits(5) + 257;
  const distanceCount = input.bits(5) + 1;
  const codeLengthCount = input.bits(4) + 4;
  if (literalCount > 286 || distanceCount > 30) throw damaged('a block has too many codes');
  const codeLengths = new Array<number>(CODE_LENGTH_ORDER.length).fill(0);
  for (const symbol of CODE_LENGTH_ORDER.slice(0, codeLengthCount)) codeLengths[symbol] = input.bits(3);
  const lengthsCode = buildHuffman(codeLengths, true);
  const lengths: number[] = [];
  while (lengths.length < literalCount + distanceCount) {
    const symbol = input.symbol(lengthsCode);
    if (symbol < 16) {
      lengths.push(symbol);
      continue;
    }
    const previous = symbol === 16 ? lengths.at(-1) : 0;
    if (previous === undefined) throw damaged('a block repeats a code length before the first');
    const times = symbol === 16 ? 3 + input.bits(2) : symbol === 17 ? 3 + input.bits(3) : 11 + input.bits(7);
    if (lengths.length + times > literalCount + distanceCount) throw damaged('a block has too many codes');
    for (let i = 0; i < times; i++) lengths.push(previous);
  }
  if (lengths[END_OF_BLOCK] === 0) throw damaged('a block cannot end');
  return [buildHuffman(lengths.slice(0, literalCount)), buildHuffman(lengths.slice(literalCount))];
}

/**
 * @param complete also refuses the two incomplete codes that DEFLATE otherwise allows: an empty code, and a
 * single code of one bit.
 */
function buildHuffman(lengths: readonly number[], complete = false): Huffman {
  const counts = new Uint16Array(MAX_CODE_LENGTH + 1);
  for (const length of lengths) counts[length]!++;
  counts[0] = 0;
  let used = 0;
  let room = 1;
  const offsets = new Uint16Array(MAX_CODE_LENGTH + 2);
  for (let length = 1; length <= MAX_CODE_LENGTH; length++) {
    room = room * 2 - counts[length]!;
    if (room < 0) throw damaged('a block has more codes than fit');
    used += counts[length]!;
    offsets[length + 1] = used;
  }
  const exempt = !complete && (used === 0 || (used === 1 && counts[1] === 1));
  if (room > 0 && !exempt) throw damaged('a block has an incomplete code');
  const symbols = new Uint16Array(used);
  lengths.forEach((length, symbol) => {
    if (length > 0) symbols[offsets[length]!++] = symbol;
  });
  return { counts, symbols };
}

class BitReader {
  readonly #bytes: Uint8Array;
  #offset: number;
  #held = 0;
  #heldBits = 0;

  constructor(bytes: Uint8Array, offset: number) {
    this.#bytes = bytes;
    this.#offset = offset;
  }

  get remaining(): number {
    return this.#bytes.length - this.#offset;
  }

  /** @param count at most 16. */
  bits(count: number): number {
    while (this.#heldBits < count) {
      if (this.#offset >= this.#bytes.length) throw damaged('it ends early');
      this.#held |= this.#bytes[this.#offset++]! << this.#heldBits;
      this.#heldBits += 8;
    }
    const value = this.#held & ((1 << count) - 1);
    this.#held >>>= count;
    this.#heldBits -= count;
    return value;
  }

  symbol({ counts, symbols }: Huffman): number {
    let code = 0;
    let first = 0;
    let index = 0;
    for (let length = 1; length <= MAX_CODE_LENGTH; length++) {
      code |= this.bits(1);
      const count = counts[length]!;
      if (code - first < count) return symbols[index + code - first]!;
      index += count;
      first = (first + count) << 1;
      code <<= 1;
    }
    throw damaged('it has a code without a symbol');
  }

  /** Whole bytes after the current one, whose unread bits are dropped. */
  takeAligned(count: number): Uint8Array {
    // `bits` never reads more than it needs, so only bits of the current byte are held.
    this.#held = 0;
    this.#heldBits = 0;
    if (count > this.remaining) throw damaged('it ends early');
    this.#offset += count;
    return this.#bytes.subarray(this.#offset - count, this.#offset);
  }
}

/** Grows by doubling as data arrives, never beyond `maxSize`. */
class Output {
  readonly #maxSize: number;
  #bytes = new Uint8Array(INITIAL_OUTPUT);
  #length = 0;

  constructor(maxSize: number) {
    this.#maxSize = maxSize;
  }

  push(byte: number): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = byte;
  }

  append(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  repeat(distance: number, length: number): void {
    if (distance > this.#length) throw damaged('it refers to data before its start');
    this.#reserve(length);
    for (let i = 0; i < length; i++, this.#length++) {
      this.#bytes[this.#length] = this.#bytes[this.#length - distance]!;
    }
  }

  finish(): Uint8Array<ArrayBuffer> {
    return this.#bytes.slice(0, this.#length);
  }

  #reserve(length: number): void {
    const needed = this.#length + length;
    if (needed > this.#maxSize) {
      throw new ProtocolError(
        'decompressed_too_large',
        `zlib data expands to more than ${this.#maxSize} bytes`,
      );
    }
    if (needed <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(needed, Math.min(this.#bytes.length * 2, this.#maxSize)));
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
  }
}

function adler32(bytes: Uint8Array): number {
  const MODULUS = 65_521;
  // The most additions before the larger sum could leave 32 bits.
  const STRIDE = 3_800;
  let a = 1;
  let b = 0;
  for (let at = 0; at < bytes.length; at += STRIDE) {
    const end = Math.min(at + STRIDE, bytes.length);
    for (let i = at; i < end; i++) {
      a += bytes[i]!;
      b += a;
    }
    a %= MODULUS;
    b %= MODULUS;
  }
  return ((b << 16) | a) >>> 0;
}

function damaged(why: string): ProtocolError {
  return new ProtocolError('bad_compression', `zlib data is damaged: ${why}`);
}
