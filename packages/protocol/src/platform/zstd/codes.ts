import type { Shares } from './fse.js';

/**
 * Codes of literal lengths, offsets and match lengths (RFC 8878, section 3.1.1.3.2.1): a code stands for a
 * lowest value and a number of bits to add to it.
 */
export interface CodeKind {
  /** The largest table, and the highest code. */
  readonly maxLog: number;
  readonly maxCode: number;
  /** The table that needs no description (section 3.1.1.3.2.2). */
  readonly predefined: Shares;
}

/** In the order of their tables in a block. */
export const KINDS: readonly CodeKind[] = [
  {
    maxLog: 9,
    maxCode: 35,
    predefined: {
      log: 6,
      // biome-ignore format: one line
      shares: [4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1],
    },
  },
  {
    maxLog: 8,
    maxCode: 31,
    predefined: {
      log: 5,
      shares: [1, 1, 1, 1, 1, 1, 2, 2, 2, ...Array(15).fill(1), ...Array(5).fill(-1)],
    },
  },
  {
    maxLog: 9,
    maxCode: 52,
    predefined: {
      log: 6,
      shares: [1, 4, 3, 2, 2, 2, 2, 2, 2, ...Array(37).fill(1), ...Array(7).fill(-1)],
    },
  },
];

/** How a block describes a table (section 3.1.1.3.2.1). */
export const TableMode = { PREDEFINED: 0, RLE: 1, COMPRESSED: 2, REPEAT: 3 } as const;

export const MIN_MATCH = 3;
/** The bits that each code adds to its lowest value. The code of an offset is the number of its bits. */
export const LITERAL_BITS = bitsOf(16, 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
export const MATCH_BITS = bitsOf(32, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
/** The lowest value of each code; match lengths are counted from {@link MIN_MATCH}. */
export const LITERAL_BASE = lowest(LITERAL_BITS);
export const MATCH_BASE = lowest(MATCH_BITS);

function bitsOf(plain: number, ...rest: number[]): Uint8Array {
  return Uint8Array.of(...new Uint8Array(plain), ...rest);
}

function lowest(bits: Uint8Array): Int32Array {
  let next = 0;
  return Int32Array.from(bits, (count) => {
    const value = next;
    next += 1 << count;
    return value;
  });
}

/** The offsets that a frame begins with as its last three (section 3.1.1.5). */
export const FIRST_OFFSETS = [1, 4, 8] as const;

export const MAX_BLOCK_SIZE = 128 * 1024;
export const BlockType = { RAW: 0, RLE: 1, COMPRESSED: 2 } as const;
/** The coding of a block's literals (section 3.1.1.3.1.1). */
export const LiteralsType = { RAW: 0, RLE: 1, COMPRESSED: 2, TREELESS: 3 } as const;
/** The longest code for a literal (section 4.2.1). */
export const MAX_CODE_LENGTH = 11;
/** The largest table for the weights of such codes (section 4.2.1.2). */
export const MAX_WEIGHTS_LOG = 6;
