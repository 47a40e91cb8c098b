import { beforeAll, describe, expect, it } from 'vitest';
import { ENCODING_NAMES, keySource, loadTable } from '../codec/vocabulary/testing/loaded-table.js';
import { TokenEncoder } from './encode.js';
import { createJob } from './job.js';
import { createPlainBpe, type PlainBpe } from './testing/plain-bpe.js';
import { createRandom, pick } from './testing/texts.js';
import type { TokenTable } from './token-table.js';
import { VOCABULARIES } from './vocabulary.js';

const LETTERS = [...'abcdefghijklmnopqrstuvwxyz'];
/** The whole text is one piece, so that only windows are tested. */
const wholeText = (_bytes: Uint8Array, _at: number, end: number) => end;

describe.each(ENCODING_NAMES)('long segments in %s', (name) => {
  const { ordinary: limit, mergeable } = VOCABULARIES[name];
  let table: TokenTable;
  let plain: PlainBpe;
  beforeAll(async () => {
    table = await loadTable(name);
    plain = createPlainBpe(table, limit);
  });

  function encode(encoder: TokenEncoder, content: Uint8Array, budget = Number.POSITIVE_INFINITY): number[] {
    const { bytes, view, length } = keySource(content);
    const job = createJob(bytes, view, length, new Uint32Array(1));
    while (job.at < length) encoder.run(job, budget);
    return [...job.ids.subarray(0, job.count)];
  }

  it.each([
    [16, 8],
    [24, 0],
    [40, 1],
    [64, 20],
    [300, 128],
  ])('are exact with windows of %i bytes that share %i', (window, overlap) => {
    const encoder = new TokenEncoder(table, wholeText, { limit, mergeable, window, overlap });
    const random = createRandom(window);
    for (let i = 0; i < 120; i++) {
      let text = '';
      for (let length = 20 + Math.floor(random() * 400); text.length < length; ) {
        text += random() < 0.3 ? pick(['the', 'ing', 'aaaa', 'tion', 'er'], random) : pick(LETTERS, random);
      }
      const bytes = Buffer.from(text);
      expect(encode(encoder, bytes), text).toEqual(plain(bytes));
    }
  });

  it('go back with longer windows if a join fails', () => {
    // Without overlap, windows end inside tokens all the time.
    const encoder = new TokenEncoder(table, wholeText, { limit, mergeable, window: 8, overlap: 0 });
    const random = createRandom(77);
    const bytes = Buffer.from(Array.from({ length: 600 }, () => pick(LETTERS, random)).join(''));
    expect(encode(encoder, bytes)).toEqual(plain(bytes));
    // Without a failure, no byte would be merged more than twice: in its window and at a join.
    expect(encoder.merger.work).toBeGreaterThan(2 * bytes.length);
    expect(encoder.merger.work).toBeLessThan(2 * Math.log2(600 / 8) * bytes.length);
  });

  it('give the same result with interruptions', () => {
    const encoder = new TokenEncoder(table, wholeText, { limit, mergeable, window: 64, overlap: 16 });
    const random = createRandom(78);
    const bytes = Buffer.from(Array.from({ length: 2000 }, () => pick(LETTERS, random)).join(''));
    const whole = encode(encoder, bytes);
    expect(encode(encoder, bytes, 1)).toEqual(whole);
    expect(encode(encoder, bytes, 100)).toEqual(whole);
  });
});
