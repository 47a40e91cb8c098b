import { beforeAll, describe, expect, it } from 'vitest';
import { isFull } from '../../../../scripts/extent.js';
import { ENCODING_NAMES, keySource, loadTable } from '../codec/vocabulary/testing/loaded-table.js';
import { TokenEncoder } from './encode.js';
import { createJob } from './job.js';
import { createScanner } from './scanner.js';
import { anyCharacter, createRandom, pick, type Random } from './testing/texts.js';
import { VOCABULARIES } from './vocabulary.js';

const [SMALL, LARGE] = isFull ? [100_000, 1_000_000] : [40_000, 400_000];

const LETTERS = [...'abcdefghijklmnopqrstuvwxyz'];
const MIXED = [...'abcéßжяφλωשבמن中文日本語한국あア𐐀ªʰĲ'];
const SYMBOLS = [...'!?-=#*./'];
const WHITE = [...' \t\r\n'];
const BASE64 = [...LETTERS, ...LETTERS.map((letter) => letter.toUpperCase()), ...'0123456789+/'];
const FREQUENT = [...'etaoinshr'];

function repeated(next: () => string, bytes: number): string {
  const parts: string[] = [];
  for (let length = 0; length < bytes; ) {
    const part = next();
    parts.push(part);
    length += Buffer.byteLength(part);
  }
  return parts.join('');
}

const CASES: Record<string, (random: Random) => string> = {
  'one letter': () => 'a',
  'random letters': (random) => pick(LETTERS, random),
  'capitals and small letters': (random) => (random() < 0.5 ? 'A' : 'b'),
  'mixed unicode letters': (random) => pick(MIXED, random),
  'any characters': anyCharacter,
  spaces: () => ' ',
  newlines: () => '\n',
  'spaces and newlines': () => '   \n',
  digits: (random) => pick([...'0123456789'], random),
  'one emoji sequence': () => '👩‍👩‍👧‍👦',
  'near-matches': () => 'abcabd',
  'near-words': () => 'ythe',
  marks: () => '\u0301',
  symbols: (random) => pick(SYMBOLS, random),
  rules: () => '-',
  tabs: () => '\t',
  'white space': (random) => pick(WHITE, random),
  'base64 digits': (random) => pick(BASE64, random),
  'frequent letters': (random) => pick(FREQUENT, random),
  'long words': (random) => `${Array.from({ length: 40 }, () => pick(LETTERS, random)).join('')} `,
  'Chinese characters': (random) => String.fromCodePoint(0x4e00 + Math.floor(random() * 20_000)),
};

describe.each(ENCODING_NAMES)('worst cases in %s', (name) => {
  const { ordinary: limit, mergeable, pattern, reading } = VOCABULARIES[name];
  let encoder: TokenEncoder;
  beforeAll(async () => {
    const scan = createScanner(pattern, reading);
    encoder = new TokenEncoder(await loadTable(name), scan, { limit, mergeable });
  });

  /** The bytes merged for a text of `size` bytes, and the most that one slice of 16 KiB took. */
  function work(next: (random: Random) => string, size: number): { merged: number; longest: number } {
    const random = createRandom(17);
    const content = Buffer.from(repeated(() => next(random), size));
    const { bytes, view } = keySource(content);
    const job = createJob(bytes, view, content.length, new Uint32Array(content.length));
    const before = encoder.merger.work;
    let longest = 0;
    while (job.at < job.length) {
      const at = encoder.merger.work;
      encoder.run(job, 1 << 14);
      longest = Math.max(longest, encoder.merger.work - at);
    }
    return { merged: encoder.merger.work - before, longest };
  }

  it.each(Object.entries(CASES))('%s: work grows no faster than the length of the text', (_, next) => {
    const small = work(next, SMALL);
    const large = work(next, LARGE);
    // Overlaps and joins add an eighth; the cache only reduces it.
    expect(large.merged).toBeLessThan(1.4 * LARGE);
    expect(large.merged).toBeLessThan(15 * Math.max(small.merged, SMALL / 10));
    expect(large.longest).toBeLessThan(3 << 14);
  });
});
