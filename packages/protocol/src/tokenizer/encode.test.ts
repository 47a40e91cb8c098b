import { beforeAll, describe, expect, it } from 'vitest';
import { isFull } from '../../../../scripts/extent.js';
import {
  ENCODING_NAMES,
  keySource,
  loadTable,
  tokenBytes,
} from '../codec/vocabulary/testing/loaded-table.js';
import { TokenEncoder } from './encode.js';
import { createJob } from './job.js';
import { MAX_CACHED_BYTES } from './piece-cache.js';
import { createScanner, type Scanner } from './scanner.js';
import { createPlainBpe, type PlainBpe } from './testing/plain-bpe.js';
import { createRandom, mixedText } from './testing/texts.js';
import { NO_TOKEN, type TokenTable } from './token-table.js';
import { VOCABULARIES } from './vocabulary.js';

function run(encoder: TokenEncoder, content: Uint8Array, room: number): number[] {
  const { bytes, view, length } = keySource(content);
  const job = createJob(bytes, view, length, new Uint32Array(room));
  while (job.at < length) encoder.run(job, Number.POSITIVE_INFINITY);
  return [...job.ids.subarray(0, job.count)];
}

describe.each(ENCODING_NAMES)('encoding with %s', (name) => {
  const { ordinary: limit, mergeable, pattern, reading } = VOCABULARIES[name];
  let table: TokenTable;
  let scan: Scanner;
  let plain: PlainBpe;
  let encoder: TokenEncoder;
  beforeAll(async () => {
    table = await loadTable(name);
    scan = createScanner(pattern, reading);
    plain = createPlainBpe(table, limit);
    encoder = new TokenEncoder(table, scan, { limit, mergeable });
  });

  /** The definition: a piece that is a token becomes that token, any other is merged. */
  function expected(content: Uint8Array): number[] {
    const ids: number[] = [];
    for (let at = 0; at < content.length; ) {
      const end = scan(content, at, content.length);
      const piece = content.subarray(at, end);
      const id = table.find(keySource(piece), 0, piece.length, limit);
      ids.push(...(id === NO_TOKEN ? plain(piece) : [id]));
      at = end;
    }
    return ids;
  }

  it('follows the definition, from the cache or not', () => {
    const random = createRandom(51);
    for (let i = 0; i < (isFull ? 3_000 : 1_000); i++) {
      const content = Buffer.from(mixedText(random));
      const ids = expected(content);
      expect(run(encoder, content, 100)).toEqual(ids);
      expect(run(encoder, content, 0)).toEqual(ids);
    }
  });

  it('distinguishes tokens that are a whole piece from the same bytes inside one', () => {
    // In each order: as a piece, after a letter, before a letter.
    const encoders = [0, 1, 2].map(() => new TokenEncoder(table, scan, { limit, mergeable }));
    const random = createRandom(52);
    for (let i = 0; i < (isFull ? 3_000 : 1_000); i++) {
      const from = mergeable < limit && i % 2 === 0 ? mergeable : 256;
      const token = Buffer.from(tokenBytes(table, from + Math.floor(random() * (limit - from))));
      if (token.toString().includes('\ufffd')) continue;
      const letter = Buffer.from('中');
      const contents = [token, Buffer.concat([letter, token]), Buffer.concat([token, letter])];
      for (const [first, each] of encoders.entries()) {
        for (let k = 0; k < 6; k++) {
          const content = contents[(first + k) % 3] as Buffer;
          expect(run(each, content, k), content.toString()).toEqual(expected(content));
        }
      }
    }
  });

  it('is right for pieces around the longest that is cached', () => {
    const random = createRandom(53);
    for (let length = MAX_CACHED_BYTES - 4; length <= MAX_CACHED_BYTES + 4; length++) {
      for (let i = 0; i < 40; i++) {
        const letters = Array.from({ length }, () => 'aeiorst中'[Math.floor(random() * 8)]);
        const content = Buffer.from(letters.join(''));
        const ids = expected(content);
        for (let again = 0; again < 3; again++) expect(run(encoder, content, 1)).toEqual(ids);
      }
    }
  });
});
