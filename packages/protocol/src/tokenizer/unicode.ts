import { JAVASCRIPT_EXCEPTIONS, RUST_EXCEPTIONS, UNICODE_RUNS } from './unicode.gen.js';

/**
 * The class of each character, for cutting text into pieces.
 *
 * The patterns of the three vocabularies use only general categories and white space, so one byte per code
 * point is enough for all of them. Two tables hold those bytes: `blocks` maps a code point without its last 6
 * bits to a block of 64 classes in `classes`. The last byte of a UTF-8 sequence carries six bits, so the
 * bytes before it are the index into `blocks`.
 *
 * Engines for regular expressions read the same patterns differently. tiktoken (Rust), which defines the IDs of all three,
 * has the tables of an older Unicode. JavaScript, against whose expressions the scanner is tested, counts U+FEFF as white
 * space, but not U+0085. A reading is the table of `unicode.gen.ts` with one of two lists of exceptions.
 */

/** One bit per class, so that a set of classes is one mask. */
export const CharClass = {
  /** Everything else: punctuation, symbols, controls, unassigned. */
  OTHER: 0x01,
  /** White space without carriage return and line feed. */
  SPACE: 0x02,
  /** Carriage return and line feed. */
  NEWLINE: 0x04,
  /** N. */
  NUMBER: 0x08,
  /** Lu and Lt. */
  UPPER: 0x10,
  /** Ll. */
  LOWER: 0x20,
  /** Lm and Lo: letters without case. */
  UNCASED: 0x40,
  /** M, which does not count as a letter. */
  MARK: 0x80,
} as const;
export type CharClass = (typeof CharClass)[keyof typeof CharClass];

/** The letters of `unicode.gen.ts`. */
export const CLASS_LETTERS: Readonly<Record<string, CharClass>> = {
  O: CharClass.OTHER,
  S: CharClass.SPACE,
  R: CharClass.NEWLINE,
  N: CharClass.NUMBER,
  U: CharClass.UPPER,
  L: CharClass.LOWER,
  X: CharClass.UNCASED,
  M: CharClass.MARK,
};

/** The Unicode that a tokenizer's regular expressions were compiled against. */
export type Reading = 'rust' | 'javascript';

export interface ClassTable {
  /** The block number, indexed by code point >> 6. */
  readonly blocks: Uint16Array;
  /** 64 classes per block; the first 128 entries are ASCII. */
  readonly classes: Uint8Array;
}

const CODE_POINTS = 0x110000;
const BLOCK_BITS = 6;
const BLOCK = 1 << BLOCK_BITS;

const tables = new Map<Reading, ClassTable>();

/** The class table of a reading, built at its first use. */
export function classTable(reading: Reading): ClassTable {
  let table = tables.get(reading);
  if (table === undefined) {
    table = buildTable(reading === 'rust' ? RUST_EXCEPTIONS : JAVASCRIPT_EXCEPTIONS);
    tables.set(reading, table);
  }
  return table;
}

/** The class of a code point. */
export function classOf(table: ClassTable, codePoint: number): number {
  const block = table.blocks[codePoint >> BLOCK_BITS] as number;
  return table.classes[(block << BLOCK_BITS) | (codePoint & (BLOCK - 1))] as number;
}

function buildTable(exceptions: typeof RUST_EXCEPTIONS): ClassTable {
  const flat = new Uint8Array(CODE_POINTS);
  const blocks = new Uint16Array(CODE_POINTS >> BLOCK_BITS);
  const kept: Uint8Array[] = [];
  const numbers = new Map<string, number>();
  const uniform = new Map<CharClass, number>();
  // ASCII comes first, so that it needs no block number.
  const mixed = new Set([0, 1]);
  kept.push(flat.subarray(0, BLOCK), flat.subarray(BLOCK, 2 * BLOCK));

  const paint = (letter: string, first: number, end: number) => {
    const charClass = CLASS_LETTERS[letter] as CharClass;
    flat.fill(charClass, first, end);
    const firstWhole = (first + BLOCK - 1) >> BLOCK_BITS;
    const endWhole = end >> BLOCK_BITS;
    if (firstWhole < endWhole) {
      let number = uniform.get(charClass);
      if (number === undefined) {
        number = kept.push(new Uint8Array(BLOCK).fill(charClass)) - 1;
        uniform.set(charClass, number);
      }
      blocks.fill(number, firstWhole, endWhole);
    }
    if (first % BLOCK !== 0) mixed.add(first >> BLOCK_BITS);
    if (end % BLOCK !== 0) mixed.add(end >> BLOCK_BITS);
  };

  let at = 0;
  for (const [, letter, length] of UNICODE_RUNS.matchAll(/([A-Z])([0-9a-z]*)/g)) {
    const end = at + (length === '' ? 1 : Number.parseInt(length as string, 36));
    paint(letter as string, at, end);
    at = end;
  }
  for (const [letter, first, last] of exceptions) paint(letter, first, last + 1);

  for (const block of mixed) {
    const content = flat.subarray(block * BLOCK, (block + 1) * BLOCK);
    const key = String.fromCharCode(...content);
    const number = block < 2 ? block : (numbers.get(key) ?? kept.push(content) - 1);
    numbers.set(key, number);
    blocks[block] = number;
  }
  const classes = new Uint8Array(kept.length * BLOCK);
  for (const [number, content] of kept.entries()) classes.set(content, number * BLOCK);
  return { blocks, classes };
}
