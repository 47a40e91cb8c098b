import llama3Tokenizer from 'llama3-tokenizer-js';
import { get_encoding, Tiktoken } from 'tiktoken';
import { beforeAll, describe, expect, it } from 'vitest';
import { isFull } from '../../../../scripts/extent.js';
import { loadEncoding } from '../codec/vocabulary/load.js';
import { loadTable } from '../codec/vocabulary/testing/loaded-table.js';
import type { Encoding } from './encoding.js';
import { Merger } from './merge.js';
import { anyCharacter, createRandom, mixedText } from './testing/texts.js';

/** Mixed texts that each encoding is compared on. */
const TEXTS = isFull ? 25_000 : 3_000;

type Oracle = (text: string) => ArrayLike<number>;

/** Fails at the first text that the two encode differently, or that does not decode to itself. */
function compare(encoding: Encoding, oracle: Oracle, texts: Iterable<string>): number {
  let compared = 0;
  for (const text of texts) {
    const expected = oracle(text);
    const found = encoding.encode(text);
    compared++;
    if (found.length === expected.length && found.every((id, i) => id === expected[i])) {
      if (encoding.decode(found) !== text) expect.fail(`${JSON.stringify(text)} does not come back`);
      continue;
    }
    expect([...found], JSON.stringify(text)).toEqual([...(expected as number[])]);
  }
  return compared;
}

function* mixedTexts(seed: number, count: number): Generator<string> {
  const random = createRandom(seed);
  for (let i = 0; i < count; i++) yield mixedText(random);
}

/** Every character once, between letters, in texts of 40. */
function* everyCharacter(): Generator<string> {
  let text = '';
  for (let codePoint = 0; codePoint < 0x110000; codePoint++) {
    if (codePoint >= 0xd800 && codePoint < 0xe000) continue;
    // Planes 3 to 16 hold nearly uniform ranges, so a few characters are enough.
    if (codePoint > 0x33fff && codePoint < 0xe0000 && codePoint % 97 !== 0) continue;
    if (codePoint > 0xe0200 && codePoint % 97 !== 0) continue;
    text += `a${String.fromCodePoint(codePoint)}`;
    if (text.length >= 100) {
      yield text;
      text = '';
    }
  }
  yield text;
}

function* oddTexts(seed: number, count: number): Generator<string> {
  const random = createRandom(seed);
  for (let i = 0; i < count; i++) yield Array.from({ length: 8 }, () => anyCharacter(random)).join('');
}

/** Sequences of tokens, with and without spaces, that are valid text. */
function* tokenTexts(encoding: Encoding, ids: ArrayLike<number>, count: number): Generator<string> {
  const random = createRandom(count);
  for (let i = 0; i < count; ) {
    const row = Array.from(
      { length: 1 + Math.floor(random() * 4) },
      () => ids[Math.floor(random() * ids.length)],
    );
    const text = Buffer.from(encoding.decodeBytes(row as number[])).toString();
    if (text.includes('\ufffd')) continue;
    yield random() < 0.5 ? text : text.replaceAll(' ', '');
    i++;
  }
}

describe.each([
  ['CL100K_BASE', 'cl100k_base'],
  ['O200K_BASE', 'o200k_base'],
] as const)('%s against tiktoken', (name, tiktokenName) => {
  const tiktoken = get_encoding(tiktokenName);
  const oracle: Oracle = (text) => tiktoken.encode_ordinary(text);
  let encoding: Encoding;
  beforeAll(async () => {
    encoding = await loadEncoding(name);
  });

  it(`agrees on ${TEXTS} mixed texts`, () => {
    expect(compare(encoding, oracle, mixedTexts(1, TEXTS))).toBe(TEXTS);
  });

  it('agrees on every character', () => {
    expect(compare(encoding, oracle, everyCharacter())).toBeGreaterThan(4000);
  });

  it('agrees on random characters', () => {
    compare(encoding, oracle, oddTexts(2, 3000));
  });

  it('agrees on long texts', () => {
    const texts = Array.from({ length: 20 }, (_, i) => [...mixedTexts(100 + i, 200)].join(''));
    compare(encoding, oracle, texts);
  });

  it('agrees on sequences of tokens', () => {
    const ids = Uint32Array.from({ length: encoding.size - 300 }, (_, id) => id);
    compare(encoding, oracle, tokenTexts(encoding, ids, 10_000));
  });

  it('has the same special tokens', () => {
    for (const special of ['<|endoftext|>', '<|endofprompt|>']) {
      const [id] = tiktoken.encode(special, [special]);
      expect(encoding.decode([id as number], { allowSpecial: true })).toBe(special);
    }
  });
});

/** Meta's own code gives this pattern and these ranks to tiktoken. */
const LLAMA_PATTERN =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

describe('LLAMA_BPE against tiktoken', () => {
  let encoding: Encoding;
  let oracle: Oracle;
  const unmergeable: number[] = [];
  beforeAll(async () => {
    encoding = await loadEncoding('LLAMA_BPE');
    const table = await loadTable('LLAMA_BPE');
    const merger = new Merger(table, table.size);
    for (let id = 0; id < table.size; id++) {
      const end = table.offsets[id + 1] as number;
      if (merger.merge(table, table.offsets[id] as number, end) > 1) unmergeable.push(id);
    }
    const ranks = Array.from({ length: 128_000 }, (_, id) =>
      Buffer.from(encoding.decodeBytes([id])).toString('base64'),
    );
    const tiktoken = new Tiktoken(`! 0 ${ranks.join(' ')}`, {}, LLAMA_PATTERN);
    oracle = (text) => tiktoken.encode_ordinary(text);
  });

  it(`agrees on ${TEXTS} mixed texts`, () => {
    expect(compare(encoding, oracle, mixedTexts(3, TEXTS))).toBe(TEXTS);
  });

  it('agrees on every character', () => {
    expect(compare(encoding, oracle, everyCharacter())).toBeGreaterThan(4000);
  });

  it('agrees on what engines for regular expressions read differently', () => {
    const spaces = ['\ufeff', '\u0085', 'ſ', '\u{1e5f1}', '\u0c5c', '\u00a0'];
    const around = ['', ' ', '//', '#', 'a', "'", '\n', '1', 'é'];
    const texts = spaces.flatMap((odd) => around.flatMap((one) => around.map((other) => one + odd + other)));
    expect(compare(encoding, oracle, texts)).toBe(texts.length);
    expect([...encoding.encode('\ufeff//')]).toEqual([35866]);
    expect([...encoding.encode('\ufeff#')]).toEqual([43372]);
  });

  it('agrees on sequences of tokens, including those that merging does not yield', () => {
    const ids = Uint32Array.from({ length: 128_000 }, (_, id) => id);
    compare(encoding, oracle, tokenTexts(encoding, ids, 10_000));
    expect(unmergeable.length).toBe(588);
    compare(encoding, oracle, tokenTexts(encoding, unmergeable, 5000));
  });

  it('has the special tokens of llama3-tokenizer-js', () => {
    for (const [id, name] of llama3Tokenizer.vocabById.entries()) {
      if (id >= 128_000) expect(encoding.decode([id], { allowSpecial: true })).toBe(name);
    }
  });
});
