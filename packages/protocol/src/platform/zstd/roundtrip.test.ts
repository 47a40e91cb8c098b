import * as zlib from 'node:zlib';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { concatBytes, equalBytes } from '../../base/bytes.js';
import { bytesOf } from '../../base/testing/bytes.js';
import { createProse, seeded } from '../../testing/prose.js';
import { censusOf } from '../../testing/zstd-census.js';
import { createZstd, type ZstdPort } from '../zstd.js';
import { readZstdFrame } from '../zstd-frame.js';
import { createNativeEngine } from './native.js';
import { loadPlainEngine } from './plain.js';
import { loadWasmEngine } from './wasm.js';

const plain = createZstd(loadPlainEngine);
const wasm = createZstd(loadWasmEngine);
/** All that must understand each other. */
const engines: [string, ZstdPort][] = [
  ['plain', plain],
  ['wasm', wasm],
];
if ('zstdCompressSync' in zlib)
  engines.push(['native', createZstd(loadWasmEngine, createNativeEngine(zlib))]);

beforeAll(async () => {
  for (const [, zstd] of engines) await zstd.loadZstd();
});

/** Each engine decodes what any of them writes. Returns the sizes of the frames. */
function exchange(content: Uint8Array, level: number, dictionary?: Uint8Array): Record<string, number> {
  const sizes: Record<string, number> = {};
  for (const [writer, { zstdCompress }] of engines) {
    const frame = zstdCompress(content, level, dictionary);
    sizes[writer] = frame.length;
    for (const [reader, { zstdDecompress }] of engines) {
      const output = zstdDecompress(frame, content.length, dictionary);
      expect(equalBytes(output, content), `${writer} to ${reader}, level ${level}`).toBe(true);
    }
  }
  return sizes;
}

const MAX_LENGTH = 3000;
const level = fc.integer({ min: 1, max: 19 });
const someBytes = fc.uint8Array({ maxLength: MAX_LENGTH, size: 'max' });
/** Pieces that come from few sources, and come again. */
const pieces = fc
  .tuple(fc.array(fc.uint8Array({ maxLength: 40 }), { minLength: 1, maxLength: 6 }), fc.array(fc.nat(99)))
  .map(([sources, order]) => Uint8Array.from(order.flatMap((i) => [...sources[i % sources.length]!])));
const runs = fc
  .array(fc.tuple(fc.nat(3), fc.nat(700)), { maxLength: 12 })
  .map((all) => Uint8Array.from(all.flatMap(([byte, count]) => Array<number>(count).fill(byte))));
const prose = fc
  .tuple(fc.nat(9), fc.integer({ min: 1, max: 600 }))
  .map(([seed, words]) => bytesOf(createProse(seed)(words)));
const numbers = fc
  .array(fc.float({ noNaN: true }), { maxLength: 500 })
  .map((values) => new Uint8Array(Float32Array.from(values).buffer));
const content = fc.oneof(someBytes, pieces, runs, prose, numbers);

describe('contents and dictionaries of all kinds', () => {
  it('are the same again, whichever engine writes and reads', () => {
    fc.assert(
      fc.property(content, fc.option(content, { nil: undefined }), level, (bytes, dictionary, at) => {
        const sizes = exchange(bytes, at, dictionary);
        // Never larger than the bytes as they are, in one block with a header for each 128 KiB.
        expect(sizes['plain']).toBeLessThanOrEqual(bytes.length + 3 + (bytes.length < 256 ? 6 : 7));
      }),
      { numRuns: 300 },
    );
  });

  it('may be parts of each other', () => {
    fc.assert(
      fc.property(content, content, content, fc.nat(MAX_LENGTH), level, (one, other, third, cut, at) => {
        const dictionary = Uint8Array.of(...one, ...other, ...third);
        exchange(Uint8Array.of(...third.subarray(0, cut), ...one, ...other.subarray(cut)), at, dictionary);
      }),
      { numRuns: 150 },
    );
  });

  const random = seeded(4);
  const noise = Uint8Array.from({ length: 300_000 }, () => random() * 256);
  const long = bytesOf(createProse(5)(60_000));
  const shuffled = Array.from({ length: 40 }, () => Math.floor(random() * 20) * 10_000);

  it.each([
    ['nothing', new Uint8Array(0)],
    ['one byte', Uint8Array.of(0)],
    ['one kind of byte', new Uint8Array(300_000).fill(7)],
    ['noise', noise],
    ['two blocks, of which the first is noise', concatBytes([noise.subarray(0, 131_072), long])],
    ['prose', long],
    ['passages of prose', concatBytes(shuffled.map((at) => long.subarray(at, at + 5000)))],
    ['exactly one block', long.subarray(0, 131_072)],
    ['one block and a byte', long.subarray(0, 131_073)],
    ['255 bytes', long.subarray(0, 255)],
    ['256 bytes', long.subarray(0, 256)],
    ['65,791 bytes', long.subarray(0, 65_791)],
    ['65,792 bytes', long.subarray(0, 65_792)],
  ])('pass at low and high levels: %s', (_name, bytes) => {
    for (let at = 1; at <= 19; at += bytes.length > 1000 ? 6 : 1) {
      const { plain: own = 0, wasm: other = 0 } = exchange(bytes, at);
      if (at === 1) expect(own).toBeLessThanOrEqual(Math.max(other * 1.02, other + 20));
      exchange(bytes, at, long.subarray(100_000, 160_000));
    }
  });

  it.each([8, 9, 100, 4095, 4096, 60_000, 200_000])('pass with a dictionary of %i bytes', (size) => {
    const dictionary = long.subarray(0, size);
    const bytes = Uint8Array.of(...long.subarray(210_000, 212_000), ...dictionary.subarray(-1500));
    for (const at of [1, 3, 6, 19]) {
      const sizes = exchange(bytes, at, dictionary);
      expect(sizes['plain']).toBeLessThan((sizes['wasm'] as number) * 1.06);
      const lookalike = concatBytes([Uint8Array.of(0x37, 0xa4, 0x30, 0xec), dictionary]);
      exchange(bytes, at, lookalike);
    }
  });

  it('pass when they are longer than the window', () => {
    const bytes = new Uint8Array(2 ** 21 + 200_000);
    for (let at = 0; at < bytes.length; at += 100_000) {
      const from = Math.floor(random() * (long.length - 100_000));
      bytes.set(long.subarray(from, from + Math.min(100_000, bytes.length - at)), at);
    }
    // Farther back than the window reaches, and in the dictionary.
    bytes.set(noise.subarray(0, 5000), 10);
    bytes.set(noise.subarray(0, 5000), 2 ** 21 + 100_000);
    const frame = plain.zstdCompress(bytes, 3, long);
    expect(frame[4]).toBe(0x80);
    for (const [, zstd] of engines) {
      expect(equalBytes(zstd.zstdDecompress(frame, bytes.length, long), bytes)).toBe(true);
    }
    for (const at of [1, 6]) exchange(bytes, at);
  });
});

describe('the plain engine', () => {
  it('begins a block with the last offsets of the last one that was compressed', () => {
    const random = seeded(6);
    const bytes = Uint8Array.from({ length: 140_000 }, () => random() * 256);
    // A block of noise with a match that saves too little, then one that begins with a match as far back.
    const distance = 100;
    bytes.copyWithin(120, 120 - distance, 120 - distance + 7);
    bytes.copyWithin(131_100, 131_100 - distance, 131_100 - distance + 200);
    bytes.fill(0, 131_300);
    const frame = plain.zstdCompress(bytes, 3);
    expect(censusOf(frame)).toContain('raw block');
    for (const [, zstd] of engines) {
      expect(equalBytes(zstd.zstdDecompress(frame, bytes.length), bytes)).toBe(true);
    }
  });

  it('refers back 2 MiB and no farther, so that readers need no larger window', () => {
    const random = seeded(7);
    const noise = Uint8Array.from({ length: 5000 }, () => random() * 256);
    const apart = (distance: number) => {
      const bytes = new Uint8Array(distance + 2 ** 20);
      bytes.set(noise, 0);
      bytes.set(noise, distance);
      return plain.zstdCompress(bytes, 3).length;
    };
    expect(apart(2 ** 21 - 1)).toBeLessThan(6000);
    expect(apart(2 ** 21 + 1)).toBeGreaterThan(10_000);
  });

  const words = createProse(8);
  const base = bytesOf(words(9000));
  const body = bytesOf(`${words(200)} ${new TextDecoder().decode(base.subarray(20_000, 20_400))}`);

  it('writes the same for the same dictionary, no matter which others it remembers', () => {
    // Few letters, so that each position has many others with the same hash.
    const letters = (seed: number, length: number) => {
      const random = seeded(seed);
      return Uint8Array.from({ length }, () => 97 + Math.floor(random() * 3));
    };
    const unrelated = [letters(1, 4096), letters(2, 4096)];
    const old = letters(3, 9000);
    const change = fc.tuple(fc.integer({ min: 4500, max: 9000 }), fc.constantFrom(-1, 97, 98, 99));
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 6 }), fc.nat(99), (changes, seed) => {
        const content = concatBytes([letters(100 + seed, 400), old.subarray(seed, 1500), letters(seed, 90)]);
        const dictionaries = changes.map(([at, byte]) =>
          byte < 0 ? old.slice(0, at) : old.with(Math.min(at, old.length - 1), byte),
        );
        const warm = dictionaries.map((dictionary) => plain.zstdCompress(content, 19, dictionary));
        for (const [i, dictionary] of dictionaries.entries()) {
          for (const other of unrelated) plain.zstdCompress(content, 1, other);
          expect(equalBytes(plain.zstdCompress(content, 19, dictionary), warm[i]!)).toBe(true);
        }
      }),
      { numRuns: 60 },
    );
  });

  it('notices that a dictionary was changed in place', () => {
    const dictionary = base.slice();
    plain.zstdCompress(body, 3, dictionary);
    dictionary.fill(32, 19_000, 21_000);
    const frame = plain.zstdCompress(body, 3, dictionary);
    expect(equalBytes(wasm.zstdDecompress(frame, body.length, dictionary), body)).toBe(true);
  });

  it('writes frames whose content size every reader knows in advance', () => {
    for (const length of [0, 1, 255, 256, 65_791, 65_792]) {
      const frame = plain.zstdCompress(new Uint8Array(length), 3);
      expect(readZstdFrame(frame).contentSize).toBe(length);
      expect(frame[4]! & 0x24).toBe(0x20);
    }
  });
});
