import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { isFull } from '../../../../scripts/extent.js';
import {
  ENCODING_NAMES,
  keySource,
  loadTable,
  tokenBytes,
} from '../codec/vocabulary/testing/loaded-table.js';
import { Merger } from './merge.js';
import { MAX_POSITIONS } from './rank-queue.js';
import { createPlainBpe, type PlainBpe } from './testing/plain-bpe.js';
import { createRandom, type Random } from './testing/texts.js';
import type { TokenTable } from './token-table.js';
import { VOCABULARIES } from './vocabulary.js';

describe.each(ENCODING_NAMES)('merging with %s', (name) => {
  const { ordinary } = VOCABULARIES[name];
  let table: TokenTable;
  let merger: Merger;
  let plain: PlainBpe;
  beforeAll(async () => {
    table = await loadTable(name);
    merger = new Merger(table, ordinary);
    plain = createPlainBpe(table, ordinary);
  });

  function merged(content: Uint8Array): number[] {
    const count = merger.merge(keySource(content), 0, content.length);
    const ids = [...merger.ids.subarray(0, count)];
    // `starts` holds the position of each token.
    ids.forEach((id, i) => {
      const bytes = content.subarray(merger.starts[i], merger.starts[i + 1]);
      expect(Buffer.compare(bytes, tokenBytes(table, id))).toBe(0);
    });
    expect(merger.starts[count]).toBe(content.length);
    return ids;
  }

  /** Letters, beginnings of tokens and arbitrary bytes, so that much joins and much almost joins. */
  function anyBytes(random: Random, length: number): Buffer {
    const parts: Uint8Array[] = [];
    for (let at = 0; at < length; ) {
      const kind = random();
      const token = tokenBytes(table, Math.floor(random() * ordinary));
      const part =
        kind < 0.5
          ? token.subarray(0, 1 + Math.floor(random() * token.length))
          : kind < 0.9
            ? Buffer.from([97 + Math.floor(random() * 26)])
            : Buffer.from([Math.floor(random() * 256)]);
      parts.push(part);
      at += part.length;
    }
    return Buffer.concat(parts).subarray(0, length);
  }

  it('is exact for few bytes', () => {
    const random = createRandom(21);
    for (let i = 0; i < (isFull ? 4_000 : 1_000); i++) {
      const bytes = anyBytes(random, 1 + Math.floor(random() * 40));
      expect(merged(bytes)).toEqual(plain(bytes));
    }
  });

  it('is exact on both sides of the length at which it changes to a tree', () => {
    const random = createRandom(22);
    for (let length = 24; length <= 54; length++) {
      for (let i = 0; i < 20; i++) {
        const bytes = anyBytes(random, length);
        expect(merged(bytes)).toEqual(plain(bytes));
      }
    }
  });

  it('is exact for many bytes', () => {
    const random = createRandom(23);
    for (let i = 0; i < 60; i++) {
      const bytes = anyBytes(random, 100 + Math.floor(random() * 900));
      expect(merged(bytes)).toEqual(plain(bytes));
    }
  });

  it('is exact on both sides of the length at which positions no longer fit into a key', () => {
    const random = createRandom(24);
    // Distant bytes change nothing here, so the slow encoder need not take all of them.
    const end = anyBytes(random, 300);
    for (const length of [MAX_POSITIONS - 1, MAX_POSITIONS, MAX_POSITIONS + 1]) {
      const bytes = Buffer.concat([Buffer.alloc(length - end.length, 0xff), end]);
      const ids = merged(bytes);
      const ofEnd = plain(end);
      expect(ids.slice(-ofEnd.length)).toEqual(ofEnd);
      expect(ids).toHaveLength(length - end.length + ofEnd.length);
    }
  });

  it('is exact for two or three letters in any order', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('a', 'e', ' ', '    ', 'aaaaaaaa'), minLength: 1, maxLength: 90 }),
        (text) => {
          const bytes = Buffer.from(text);
          expect(merged(bytes)).toEqual(plain(bytes));
        },
      ),
      { numRuns: 200 },
    );
  });

  it('frees long arrays', () => {
    const bytes = Buffer.alloc(100_000, 'ab');
    merger.merge(keySource(bytes), 0, bytes.length);
    expect(merger.ids.length).toBeGreaterThan(100_000);
    merger.release();
    expect(merger.ids.length).toBeLessThan(1000);
    const few = Buffer.from('abracadabra');
    expect(merged(few)).toEqual(plain(few));
  });
});
