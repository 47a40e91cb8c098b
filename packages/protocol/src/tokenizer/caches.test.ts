import { describe, expect, it } from 'vitest';
import { keySource } from '../codec/vocabulary/testing/loaded-table.js';
import { PairCache } from './pair-cache.js';
import { MAX_CACHED_BYTES, MAX_CACHED_TOKENS, PieceCache } from './piece-cache.js';
import { MAX_SHORT } from './short-key.js';
import { createRandom } from './testing/texts.js';
import { TokenCache, UNKNOWN } from './token-cache.js';
import { hashOf, NO_TOKEN } from './token-table.js';

/** Short keys over the bytes 0, 97 and 194, which collide in every possible way. */
function anyKey(maxLength: number, random: () => number): Buffer {
  const length = 1 + Math.floor(random() * maxLength);
  return Buffer.from(Array.from({ length }, () => Math.floor(random() * 3) * 97));
}

describe('the cache of tokens', () => {
  it('returns UNKNOWN for everything that was not written', () => {
    const cache = new TokenCache();
    const { view } = keySource(Buffer.from([0, 0, 0, 0, 0, 0, 0, 0]));
    for (let length = 1; length <= MAX_SHORT; length++) expect(cache.read(view, 0, length)).toBe(UNKNOWN);
  });

  it('returns the last value written for these bytes, or nothing', () => {
    const cache = new TokenCache();
    const random = createRandom(1);
    const written = new Map<string, number>();
    const wrong: string[] = [];
    let hits = 0;
    for (let i = 0; i < 100_000; i++) {
      const key = anyKey(MAX_SHORT, random);
      const { view } = keySource(Buffer.concat([key, Buffer.from('followed')]));
      const name = key.toString('hex');
      const found = cache.read(view, 0, key.length);
      if (found !== UNKNOWN) {
        if (found !== written.get(name)) wrong.push(name);
        hits++;
      }
      if (random() < 0.5) continue;
      const id = random() < 0.2 ? NO_TOKEN : Math.floor(random() * 200_019);
      cache.write(view, 0, key.length, id);
      written.set(name, id);
      if (cache.read(view, 0, key.length) !== id) wrong.push(name);
    }
    expect(wrong).toEqual([]);
    expect(hits).toBeGreaterThan(1000);
  });
});

describe('the cache of pieces', () => {
  it('returns the last value written for these bytes, or nothing', () => {
    const cache = new PieceCache();
    const random = createRandom(2);
    const written = new Map<string, string>();
    const ids = new Uint32Array(MAX_CACHED_TOKENS + 3);
    const wrong: string[] = [];
    let hits = 0;
    for (let i = 0; i < 60_000; i++) {
      const key = anyKey(random() < 0.5 ? 6 : MAX_CACHED_BYTES, random);
      const source = keySource(Buffer.concat([key, Buffer.from('followed')]));
      const hash = hashOf(source.view, 0, key.length);
      const kind = random() < 0.5 ? 0 : 1;
      const name = `${kind} ${key.toString('hex')}`;
      const found = cache.read(source, 0, key.length, hash, kind, ids, 3);
      if (found > 0) {
        if (ids.subarray(3, 3 + found).join() !== written.get(name)) wrong.push(name);
        hits++;
      }
      const count = 1 + Math.floor(random() * MAX_CACHED_TOKENS);
      const tokens = Uint32Array.from({ length: count + 2 }, () => Math.floor(random() * 200_019));
      cache.write(source, 0, key.length, hash, kind, tokens, 2, 2 + count);
      written.set(name, tokens.subarray(2).join());
      if (cache.read(source, 0, key.length, hash, kind, ids, 3) !== count) wrong.push(name);
      if (cache.read(source, 0, key.length, hash, 1 - kind, ids, 3) !== 0) wrong.push(name);
    }
    expect(wrong).toEqual([]);
    expect(hits).toBeGreaterThan(1000);
  });
});

describe('the cache of pairs', () => {
  it('returns the last rank written for these two tokens, or nothing', () => {
    const cache = new PairCache();
    expect(cache.read(0, 0)).toBe(-1);
    const random = createRandom(3);
    const written = new Map<string, number>();
    const wrong: string[] = [];
    let hits = 0;
    for (let i = 0; i < 100_000; i++) {
      const left = Math.floor(random() * 200);
      const right = Math.floor(random() * 200);
      const found = cache.read(left, right);
      if (found >= 0) {
        if (found !== written.get(`${left} ${right}`)) wrong.push(`${left} ${right}`);
        hits++;
      }
      if (random() < 0.5) continue;
      const rank = random() < 0.2 ? NO_TOKEN : Math.floor(random() * 200_019);
      cache.write(left, right, rank);
      written.set(`${left} ${right}`, rank);
      if (cache.read(left, right) !== rank) wrong.push(`${left} ${right}`);
    }
    expect(wrong).toEqual([]);
    expect(hits).toBeGreaterThan(1000);
  });
});
