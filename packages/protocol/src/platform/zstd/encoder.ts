import { highBit } from './bits.js';
import { BlockType, FIRST_OFFSETS, MAX_BLOCK_SIZE, MIN_MATCH } from './codes.js';
import { writeLiterals } from './huffman-encoder.js';
import { commonLength, Matcher, WINDOW_LOG } from './matcher.js';
import { Sequences, writeSequences } from './sequences.js';

const WINDOW = 1 << WINDOW_LOG;
/** Bytes of the longest frame header. */
const MAX_HEADER_SIZE = 10;
/** From this level on, 32 positions are compared instead of 16: a hundredth fewer bytes for hardly more time. */
const MEDIUM_LEVEL = 6;
/** From this one on, 64: a fifth more time for a hundredth fewer bytes. */
const HIGH_LEVEL = 9;
/** Room for a block that becomes longer than its content, up to where that is noticed. */
const ROOM = 1024;

/**
 * Compresses `bytes` to one frame (RFC 8878), with the size of its content and without a checksum.
 *
 * @param level 1 to 19.
 * @param dictionary raw content, of which the last 2 MiB are used.
 */
export function compress(bytes: Uint8Array, level: number, dictionary: Uint8Array | undefined): Uint8Array {
  const known = dictionary?.subarray(-WINDOW);
  const { matcher, start, content } = prepare(bytes, known);
  const depth = level < HIGH_LEVEL ? 1 << Math.min(level + 1, level < MEDIUM_LEVEL ? 4 : 5) : 64;
  const blocks = Math.ceil(bytes.length / MAX_BLOCK_SIZE) || 1;
  const out = new Uint8Array(MAX_HEADER_SIZE + bytes.length + 3 * blocks);
  let at = writeHeader(bytes.length, out);
  const end = start + bytes.length;
  const offsets: Offsets = [...FIRST_OFFSETS];
  const most = Math.min(bytes.length, MAX_BLOCK_SIZE);
  const sequences = new Sequences(Math.floor(most / MIN_MATCH) + 1);
  const literals = new Uint8Array(most);
  const block = new Uint8Array(most + ROOM);
  for (let from = start; ; from += MAX_BLOCK_SIZE) {
    const to = Math.min(from + MAX_BLOCK_SIZE, end);
    const before = offsets.slice() as Offsets;
    const count = parse(matcher, content, from, to, depth, offsets, sequences, literals);
    const size = writeSequences(sequences, block, writeLiterals(literals.subarray(0, count), block, 0));
    const isSmaller = size < to - from;
    // A block of raw bytes leaves the last offsets as they are.
    if (!isSmaller) offsets.splice(0, 3, ...before);
    const body = isSmaller ? block.subarray(0, size) : content.subarray(from, to);
    const type = isSmaller ? BlockType.COMPRESSED : BlockType.RAW;
    const header = (body.length << 3) | (type << 1) | (to === end ? 1 : 0);
    out.set([header, header >> 8, header >> 16], at);
    out.set(body, at + 3);
    at += 3 + body.length;
    if (to === end) return out.slice(0, at);
  }
}

type Offsets = [number, number, number];

/** Section 3.1.1.1. Returns the size. */
function writeHeader(size: number, out: Uint8Array): number {
  const isSingle = size <= WINDOW;
  const flag = size < 256 ? 0 : size < 65_536 + 256 ? 1 : 2;
  out.set([0x28, 0xb5, 0x2f, 0xfd, (flag << 6) | (isSingle ? 0x20 : 0)]);
  let at = 5;
  if (!isSingle) out[at++] = (WINDOW_LOG - 10) << 3;
  const value = flag === 1 ? size - 256 : size;
  for (let i = 0; i < 1 << flag; i++) out[at++] = value >> (8 * i);
  return at;
}

/**
 * Cuts `content` from `start` to `end` into sequences. Returns the number of literals, those after the last
 * match included.
 */
function parse(
  matcher: Matcher,
  content: Uint8Array,
  start: number,
  end: number,
  depth: number,
  offsets: Offsets,
  sequences: Sequences,
  literals: Uint8Array,
): number {
  // The last positions have too few bytes to hash.
  const stop = end - 4;
  let count = 0;
  let anchor = start;
  let at = start;
  const take = (until: number): void => {
    for (let i = anchor; i < until; i++) literals[count++] = content[i]!;
  };
  sequences.count = 0;
  while (at <= stop) {
    matcher.find(at, end, depth, offsets);
    if (matcher.value < 0) {
      at += 1 + ((at - anchor) >> 8);
      continue;
    }
    let { length, offset, value } = matcher;
    // A match one or two bytes on may save more than the literals before it cost.
    for (let ahead = 1; ahead <= 2 && at + ahead <= stop && length < LONG_ENOUGH; ahead++) {
      matcher.find(at + ahead, end, depth, offsets);
      if (matcher.value > value + ahead * LAZY_COST) {
        ({ length, offset, value } = matcher);
        at += ahead;
        ahead = 0;
      }
    }
    while (at > anchor && offset < at && content[at - 1] === content[at - 1 - offset]) {
      at--;
      length++;
    }
    const i = sequences.count++;
    sequences.literals[i] = at - anchor;
    sequences.matches[i] = length - MIN_MATCH;
    sequences.offsets[i] = offsetValue(offset, at === anchor, offsets);
    take(at);
    at += length;
    if (length > SKIPPED_LENGTH) matcher.skip(at - KEPT_LENGTH);
    anchor = at;
  }
  take(end);
  return count;
}

const LONG_ENOUGH = 64;
const LAZY_COST = 4;
/** Within a match of more bytes, only its last positions are put where later matches can find them. */
const SKIPPED_LENGTH = 512;
const KEPT_LENGTH = 64;

/** The value that stands for `offset` (section 3.1.1.5); brings the last offsets up to date. */
function offsetValue(offset: number, isFirst: boolean, offsets: Offsets): number {
  const [last, second, third] = offsets;
  const shift = isFirst ? 1 : 0;
  let index = offset === last ? 0 : offset === second ? 1 : offset === third ? 2 : 3;
  if (index < shift) index = 3;
  if (isFirst && index === 3 && offset === last - 1) {
    offsets.splice(0, 3, offset, last, second);
    return 3;
  }
  if (index > 1) offsets[2] = second;
  if (index > 0) offsets[1] = last;
  offsets[0] = offset;
  return index === 3 ? offset + 3 : index + 1 - shift;
}

// --- Dictionaries ---------------------------------------------------------------------------------

/** Dictionaries that are remembered, and the bytes of each with its content that are worth it. */
const MAX_REMEMBERED = 2;
const MIN_SIZE = 4 * 1024;
const MAX_SIZE = 256 * 1024;

/** A matcher, and the bytes it reads: the dictionary, and the content from `start` on. */
interface Prepared {
  readonly matcher: Matcher;
  readonly content: Uint8Array;
  readonly start: number;
}

/** Newest first. At most 3.5 MB. */
let remembered: Prepared[] = [];

/**
 * A matcher that knows the dictionary. The next message of a conversation has nearly the same one, so only the
 * part that differs is hashed again. Bytes are compared, since the caller may have changed them.
 */
function prepare(bytes: Uint8Array, dictionary: Uint8Array | undefined): Prepared {
  if (dictionary === undefined) return { matcher: new Matcher(bytes), content: bytes, start: 0 };
  const start = dictionary.length;
  const size = start + bytes.length;
  const isRemembered = start >= MIN_SIZE && size < MAX_SIZE;
  let prepared: Prepared | undefined;
  let same = 0;
  if (isRemembered) {
    const view = viewOf(dictionary);
    for (const known of remembered) {
      const length = commonLength(viewOf(known.content), 0, view, 0, Math.min(start, known.start));
      if (length * 4 < start || length < same || size > known.content.length) continue;
      prepared = known;
      same = length;
    }
    // Without a similar one, the oldest gives its memory.
    if (prepared === undefined && remembered.length === MAX_REMEMBERED) {
      const oldest = remembered.pop() as Prepared;
      if (size <= oldest.content.length) prepared = oldest;
    }
    // The last positions before a difference were hashed with the bytes after it.
    prepared?.matcher.retreat(Math.max(0, same - 3));
  }
  const content = prepared?.content ?? new Uint8Array(isRemembered ? 2 << highBit(size) : size);
  const matcher = prepared?.matcher ?? new Matcher(content);
  content.set(dictionary.subarray(same), same);
  content.set(bytes, start);
  matcher.advance(Math.min(start, size - 3));
  const found = { matcher, content, start };
  if (isRemembered) remembered = [found, ...remembered.filter((known) => known !== prepared)];
  return found;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
}
