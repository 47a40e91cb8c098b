import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { equalBytes } from '../../base/bytes.js';
import { errorCode } from '../../testing/error-code.js';
import { frameOf, GOLDEN, HANDMADE, type KnownFrame } from '../../testing/zstd-frames.js';
import { createZstd, type ZstdEngine } from '../zstd.js';
import { readZstdFrame } from '../zstd-frame.js';
import { loadPlainEngine } from './plain.js';
import { loadWasmEngine } from './wasm.js';

const FRAMES: readonly KnownFrame[] = [...HANDMADE, ...GOLDEN];
const MAX_SIZE = 200_000;
/** Each of the first 40 bytes gets one in so many values, another set at each place; all of them at night. */
const STEP = process.env['PARLANCE_TESTS'] === 'full' ? 1 : 5;

const plain = createZstd(loadPlainEngine);
const wasm = createZstd(loadWasmEngine);
let engine: ZstdEngine;

beforeAll(async () => {
  await plain.loadZstd();
  await wasm.loadZstd();
  engine = await loadPlainEngine();
});

/** Damaged bytes end in an error if they do so with the reference, and otherwise in the same content. */
function probe(frame: Uint8Array, maxSize = MAX_SIZE): void {
  const [own, other] = [plain, wasm].map((zstd) => {
    let output: Uint8Array | undefined;
    errorCode(() => {
      output = zstd.zstdDecompress(frame, maxSize);
    });
    return output;
  });
  const isSame = own === undefined || other === undefined ? own === other : equalBytes(own, other);
  if (!isSame) {
    expect.fail(`${Buffer.from(frame).toString('hex')}: ${own?.length} bytes instead of ${other?.length}`);
  }
  expect(own?.length ?? 0).toBeLessThanOrEqual(maxSize);
}

describe('a damaged frame ends in an error, or in what the reference reads', () => {
  it.each(FRAMES)('with any byte changed: $name', ({ frame, content }) => {
    // Many values of the first bytes, which describe the most, and some values of the others.
    for (let at = 4; at < frame.length; at++) {
      const step = at < 40 ? STEP : 37;
      for (let xor = 1 + (at % step); xor < 256; xor += step) {
        const damaged = frame.slice();
        damaged[at]! ^= xor;
        probe(damaged, content.length + 100);
      }
    }
  });

  it.each(FRAMES)('cut anywhere: $name', ({ frame }) => {
    for (let length = 0; length < frame.length; length++) {
      expect(errorCode(() => plain.zstdDecompress(frame.subarray(0, length), MAX_SIZE))).toBe(
        'bad_compression',
      );
    }
  });

  it('with several bytes changed', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...FRAMES),
        fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 5 }),
        ({ frame }, changes) => {
          const damaged = frame.slice();
          for (const [at, value] of changes) damaged[4 + (at % (frame.length - 4))] = value;
          probe(damaged);
        },
      ),
      { numRuns: 3000 },
    );
  });

  it('made of random blocks', () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 60 }),
      fc
        .array(fc.constantFrom(0, 1, 2, 3, 4, 0x54, 0xa8, 0xfc, 0x80, 0xff), { maxLength: 30 })
        .map((all) => Uint8Array.from(all)),
    );
    const blocks = fc.array(
      fc.oneof(
        bytes.map((block) => ({ type: 2, bytes: block })),
        bytes.map((block) => ({ type: 0, bytes: block })),
      ),
      { minLength: 1, maxLength: 4 },
    );
    fc.assert(
      fc.property(blocks, (all) => probe(frameOf('0038', all))),
      { numRuns: 5000 },
    );
  });
});

describe('the content', () => {
  it.each(FRAMES)('never exceeds the room for it: $name', ({ frame, content }) => {
    const declared = readZstdFrame(frame).contentSize;
    expect(engine.decompress(frame, content.length, undefined)).toHaveLength(content.length);
    expect(engine.decompress(frame, content.length + 1, undefined)).toHaveLength(content.length);
    for (const capacity of [0, 1, content.length >> 1, content.length - 1]) {
      let failure: unknown;
      try {
        engine.decompress(frame, capacity, undefined);
      } catch (error) {
        failure = error;
      }
      expect(engine.wasFull(failure)).toBe(true);
      const code = errorCode(() => plain.zstdDecompress(frame, capacity));
      expect([capacity, declared, code]).toEqual([capacity, declared, 'decompressed_too_large']);
    }
    expect(equalBytes(plain.zstdDecompress(frame, content.length), content)).toBe(true);
  });

  it('never exceeds 128 KiB or the window per block', () => {
    // Run-length literals, then sequences of a literal and a match of three bytes, without a bit for either.
    const block = (literals: number, sequences: number) =>
      Uint8Array.of(
        ...[(literals << 4) | 13, literals >> 4, literals >> 12, 0],
        ...[0xff, sequences - 0x7f00, (sequences - 0x7f00) >> 8, 0x54, 1, 0, 0, 0x01],
      );
    const frame = (literals: number, sequences: number) =>
      frameOf('0038', [
        { type: 0, bytes: Uint8Array.of(1, 2, 3, 4) },
        { type: 2, bytes: block(literals, sequences) },
      ]);
    const fits = frame(32_768, 32_768);
    expect(plain.zstdDecompress(fits, 2 ** 20)).toHaveLength(131_072 + 4);
    probe(fits);
    for (const larger of [frame(32_769, 32_768), frame(32_769, 32_769), frame(98_047, 98_047)]) {
      let failure: unknown;
      try {
        engine.decompress(larger, 2 ** 20, undefined);
      } catch (error) {
        failure = error;
      }
      expect(failure).toBeInstanceOf(Error);
      expect(engine.wasFull(failure)).toBe(false);
    }
  });

  it('begins a match no earlier than its dictionary', () => {
    const offset = (value: number) =>
      // One sequence: no literals, an offset of 5 bits and a match of three bytes.
      frameOf('0038', [
        { type: 0, bytes: Uint8Array.of(1, 2, 3, 4) },
        { type: 2, bytes: Uint8Array.of(0, 1, 0x54, 0, 5, 0, 0x20 | (value + 3 - 32)) },
      ]);
    const dictionary = Uint8Array.from({ length: 40 }, (_, i) => 100 + i);
    for (const [distance, start] of [
      [44, 0],
      [43, 1],
      [42, 2],
    ] as const) {
      expect(plain.zstdDecompress(offset(distance), 7, dictionary)).toEqual(
        Uint8Array.of(1, 2, 3, 4, ...dictionary.subarray(start, start + 3)),
      );
    }
    expect(errorCode(() => plain.zstdDecompress(offset(45), 7, dictionary))).toBe('bad_compression');
    expect(errorCode(() => plain.zstdDecompress(offset(44), 7, dictionary.subarray(1)))).toBe(
      'bad_compression',
    );
    expect(errorCode(() => plain.zstdDecompress(offset(44), 7))).toBe('bad_compression');
  });
});
