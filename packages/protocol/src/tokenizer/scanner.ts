import { CharClass, type ClassTable, classTable, type Reading } from './unicode.js';

/**
 * Cuts UTF-8 into the pieces that byte-pair encoding never joins, as the patterns of the vocabularies do, but
 * without a regular expression: each function below is one alternative, tried in the pattern's order. It
 * reads every byte a bounded number of times.
 *
 * cl100k_base and Llama 3:
 *
 *     (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N}{1,3}
 *     | ␣?[^\s\p{L}\p{N}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+
 *
 * o200k_base, with A = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], B = [\p{Ll}\p{Lm}\p{Lo}\p{M}] and C the
 * contractions above:
 *
 *     [^\r\n\p{L}\p{N}]?A*B+C? | [^\r\n\p{L}\p{N}]?A+B*C? | \p{N}{1,3}
 *     | ␣?[^\s\p{L}\p{N}]+[\r\n/]* | \s*[\r\n]+ | \s+(?!\S) | \s+
 */

/**
 * The end of the piece that begins at `at`.
 *
 * @param bytes valid UTF-8 up to `end`.
 */
export type Scanner = (bytes: Uint8Array, at: number, end: number) => number;

export type Pattern = 'cl100k' | 'o200k';

export function createScanner(pattern: Pattern, reading: Reading): Scanner {
  const table = classTable(reading);
  return pattern === 'cl100k' ? cl100kScanner(table, reading === 'rust') : o200kScanner(table);
}

const { SPACE, NEWLINE, NUMBER, UPPER, LOWER, UNCASED, MARK, OTHER } = CharClass;
const LETTER = UPPER | LOWER | UNCASED;
/** `[^\s\p{L}\p{N}]` */
const SYMBOL = OTHER | MARK;
const WHITE_SPACE = SPACE | NEWLINE;
/** `[^\r\n\p{L}\p{N}]` */
const LEAD = SPACE | SYMBOL;
/** A of o200k_base, the part that A and B share, and B. */
const CAPITAL = UPPER | UNCASED | MARK;
const EITHER = UNCASED | MARK;
const SMALL = LOWER | UNCASED | MARK;

const APOSTROPHE = 0x27;
const SLASH = 0x2f;

/** Bytes of the UTF-8 sequence that begins with `lead`. */
function width(lead: number): number {
  return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/** The class of the character at `at`. */
function classAt(table: ClassTable, bytes: Uint8Array, at: number): number {
  const lead = bytes[at] as number;
  if (lead < 0x80) return table.classes[lead] as number;
  return wideClassAt(table, bytes, at, lead);
}

function wideClassAt(table: ClassTable, bytes: Uint8Array, at: number, lead: number): number {
  let block: number;
  let last: number;
  if (lead < 0xe0) {
    block = lead & 0x1f;
    last = bytes[at + 1] as number;
  } else if (lead < 0xf0) {
    block = ((lead & 0x0f) << 6) | ((bytes[at + 1] as number) & 0x3f);
    last = bytes[at + 2] as number;
  } else {
    block =
      ((lead & 0x07) << 12) | (((bytes[at + 1] as number) & 0x3f) << 6) | ((bytes[at + 2] as number) & 0x3f);
    last = bytes[at + 3] as number;
  }
  return table.classes[((table.blocks[block] as number) << 6) | (last & 0x3f)] as number;
}

/** The end of the longest run of characters of the classes in `mask`. */
function runEnd(table: ClassTable, bytes: Uint8Array, from: number, end: number, mask: number): number {
  const { classes } = table;
  let at = from;
  while (at < end) {
    const lead = bytes[at] as number;
    if (lead < 0x80) {
      if (((classes[lead] as number) & mask) === 0) return at;
      at++;
    } else {
      if ((wideClassAt(table, bytes, at, lead) & mask) === 0) return at;
      at += width(lead);
    }
  }
  return at;
}

/**
 * The end of `(?i:'s|'t|'re|'ve|'m|'ll|'d)` at `at`, or `at` itself. Rust folds ſ (U+017F) to s,
 * JavaScript's spelled-out alternatives do not.
 */
function contractionEnd(bytes: Uint8Array, at: number, end: number, foldsLongS: boolean): number {
  if (at + 1 >= end || bytes[at] !== APOSTROPHE) return at;
  const first = bytes[at + 1] as number;
  switch (first | 0x20) {
    case 0x73: // s
    case 0x74: // t
    case 0x6d: // m
    case 0x64: // d
      return at + 2;
    case 0x72: // re
    case 0x76: // ve
      return at + 2 < end && ((bytes[at + 2] as number) | 0x20) === 0x65 ? at + 3 : at;
    case 0x6c: // ll
      return at + 2 < end && ((bytes[at + 2] as number) | 0x20) === 0x6c ? at + 3 : at;
  }
  return foldsLongS && first === 0xc5 && bytes[at + 2] === 0xbf ? at + 3 : at;
}

/** The end of `\p{N}{1,3}`, whose first character ends at `from`. */
function numberEnd(table: ClassTable, bytes: Uint8Array, from: number, end: number): number {
  let at = from;
  for (let more = 2; more > 0 && at < end && (classAt(table, bytes, at) & NUMBER) !== 0; more--) {
    at += width(bytes[at] as number);
  }
  return at;
}

/** The end of `[^\s\p{L}\p{N}]+[\r\n]*`, or of `…[\r\n/]*` if `trailsSlash`; the first character ends at `from`. */
function symbolEnd(
  table: ClassTable,
  bytes: Uint8Array,
  from: number,
  end: number,
  trailsSlash: boolean,
): number {
  let at = runEnd(table, bytes, from, end, SYMBOL);
  while (at < end) {
    const byte = bytes[at] as number;
    if (byte !== 0x0a && byte !== 0x0d && !(trailsSlash && byte === SLASH)) break;
    at++;
  }
  return at;
}

/**
 * `\s*[\r\n]+|\s+(?!\S)|\s+`: white space up to its last newline. Without a newline: all of it at the end of
 * the text, otherwise all but the last character, which belongs to the following word.
 */
function spaceEnd(table: ClassTable, bytes: Uint8Array, from: number, end: number): number {
  let at = from;
  let last = from;
  let newlineEnd = 0;
  while (at < end) {
    const charClass = classAt(table, bytes, at);
    if ((charClass & WHITE_SPACE) === 0) break;
    last = at;
    at += width(bytes[at] as number);
    if (charClass === NEWLINE) newlineEnd = at;
  }
  if (newlineEnd > 0) return newlineEnd;
  return at === end || last === from ? at : last;
}

function cl100kScanner(table: ClassTable, foldsLongS: boolean): Scanner {
  return (bytes, at, end) => {
    const lead = bytes[at] as number;
    if (lead === APOSTROPHE) {
      const contraction = contractionEnd(bytes, at, end, foldsLongS);
      if (contraction > at) return contraction;
    }
    const charClass = classAt(table, bytes, at);
    const next = at + width(lead);
    if ((charClass & LETTER) !== 0) return runEnd(table, bytes, next, end, LETTER);
    if ((charClass & NUMBER) !== 0) return numberEnd(table, bytes, next, end);
    const nextClass = next < end ? classAt(table, bytes, next) : 0;
    if ((nextClass & LETTER) !== 0 && (charClass & LEAD) !== 0) {
      return runEnd(table, bytes, next, end, LETTER);
    }
    if ((charClass & SYMBOL) !== 0) return symbolEnd(table, bytes, next, end, false);
    if (lead === 0x20 && (nextClass & SYMBOL) !== 0) return symbolEnd(table, bytes, next, end, false);
    return spaceEnd(table, bytes, at, end);
  };
}

function o200kScanner(table: ClassTable): Scanner {
  /**
   * The end of `A*B+C?` at `from`; if that fails, minus the end of `A+B*C?`; 0 if neither matches. A* matches
   * as much as it can; if no B follows, it backtracks to the last character that is also a B.
   */
  function wordEnd(bytes: Uint8Array, from: number, end: number): number {
    let at = from;
    let sharedEnd = 0;
    while (at < end) {
      const charClass = classAt(table, bytes, at);
      if ((charClass & CAPITAL) === 0) {
        if (charClass === LOWER) sharedEnd = runEnd(table, bytes, at, end, SMALL);
        break;
      }
      at += width(bytes[at] as number);
      if ((charClass & EITHER) !== 0) sharedEnd = at;
    }
    if (sharedEnd > 0) return contractionEnd(bytes, sharedEnd, end, true);
    return at > from ? -contractionEnd(bytes, at, end, true) : 0;
  }

  return (bytes, at, end) => {
    const lead = bytes[at] as number;
    const charClass = classAt(table, bytes, at);
    const next = at + width(lead);
    if ((charClass & LETTER) !== 0) return Math.abs(wordEnd(bytes, at, end));
    if ((charClass & NUMBER) !== 0) return numberEnd(table, bytes, next, end);
    const nextClass = next < end ? classAt(table, bytes, next) : 0;
    if ((charClass & LEAD) !== 0 && (nextClass & (LETTER | MARK)) !== 0) {
      // Negative: only `A+B*` matches after the lead. A mark as lead is also an A and a B, and the pattern
      // tries `A*B+` with and without a lead before `A+B*`, so it matches the mark alone.
      const word = wordEnd(bytes, next, end);
      if (word > 0) return word;
      return charClass === MARK ? contractionEnd(bytes, next, end, true) : -word;
    }
    if (charClass === MARK) return contractionEnd(bytes, next, end, true);
    if ((charClass & SYMBOL) !== 0) return symbolEnd(table, bytes, next, end, true);
    if (lead === 0x20 && (nextClass & SYMBOL) !== 0) return symbolEnd(table, bytes, next, end, true);
    return spaceEnd(table, bytes, at, end);
  };
}
