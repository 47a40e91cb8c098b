import * as zlib from 'node:zlib';
import fc from 'fast-check';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { errorCode } from '../testing/error-code.js';
import { loadWebPlatform } from '../testing/web-platform.js';
import { brotliCompress, brotliDecompress, loadBrotli } from './brotli-web.js';
import * as node from './node.js';
import type { Platform } from './port.js';
import * as web from './web.js';

const MIB = 1024 * 1024;
const platforms: Platform[] = [node.platform, web.platform];

/** Bytes with enough repetition to exercise matches, and enough noise to exercise literals. */
const bytesArbitrary = fc.oneof(
  fc.uint8Array({ maxLength: 600 }),
  fc.uint8Array({ maxLength: 40 }).map((unit) => repeat(unit, 50)),
  fc.string({ unit: fc.constantFrom(...'{}[]":, rolesuctn'), maxLength: 3000 }).map(utf8),
);

function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function repeat(unit: Uint8Array, times: number): Uint8Array {
  return Uint8Array.from({ length: unit.length * times }, (_, i) => unit[i % unit.length] as number);
}

function mutate(bytes: Uint8Array, edits: readonly (readonly [number, number])[]): Uint8Array {
  const copy = bytes.slice();
  for (const [at, bit] of edits) copy[at % Math.max(copy.length, 1)]! ^= 1 << bit;
  return copy;
}

it('throws codec_not_loaded on the web before Brotli is loaded', () => {
  expect(errorCode(() => brotliCompress(new Uint8Array(1), 5))).toBe('codec_not_loaded');
  expect(errorCode(() => brotliDecompress(new Uint8Array(1), 1))).toBe('codec_not_loaded');
});

it('names the package that Brotli needs on the web', async () => {
  vi.doMock('brotli-wasm', () => {
    throw new Error('not installed');
  });
  await expect(loadBrotli()).rejects.toMatchObject({
    code: 'codec_not_loaded',
    message: 'BROTLI and M2M need the package brotli-wasm in browsers: npm install brotli-wasm',
  });
  vi.doUnmock('brotli-wasm');
});

it('can load Brotli after a failed attempt', async () => {
  const failure = new Error('offline');
  await expect(loadBrotli(() => Promise.reject(failure))).rejects.toMatchObject({
    code: 'codec_not_loaded',
    cause: failure,
  });
  await loadWebPlatform();
  await web.platform.loadBrotli();
  expect(web.platform.brotliCompress(new Uint8Array(1), 5).length).toBeGreaterThan(0);
});

describe.each(platforms)('Brotli on $name', (platform) => {
  beforeAll(loadWebPlatform);

  it.each([0, 4, 5, 6, 11])('is read by every platform at quality %i', (quality) => {
    fc.assert(
      fc.property(bytesArbitrary, (bytes) => {
        const compressed = platform.brotliCompress(bytes, quality);
        for (const reader of platforms) {
          expect(reader.brotliDecompress(compressed, Math.max(bytes.length, 1))).toEqual(bytes);
        }
      }),
      { numRuns: 30 },
    );
  });

  it('returns plain arrays that keep no larger buffer alive', () => {
    const compressed = platform.brotliCompress(utf8('a short text'), 5);
    const bytes = platform.brotliDecompress(compressed, 100);
    for (const array of [compressed, bytes]) {
      expect(Object.getPrototypeOf(array)).toBe(Uint8Array.prototype);
      expect(array.buffer.byteLength).toBeLessThanOrEqual(array.length * 2);
    }
  });

  it('reads input and output of many pieces', () => {
    const noise = Uint8Array.from({ length: 300_000 }, (_, i) => Math.imul(i ^ (i >>> 7), 2654435761) >>> 24);
    const compressed = node.platform.brotliCompress(noise, 1);
    expect(compressed.length).toBeGreaterThan(100_000);
    expect(platform.brotliDecompress(compressed, noise.length)).toEqual(noise);
  });

  it('allows exactly the limit and not a byte more', () => {
    for (const size of [1, 1000, 65_536, 65_537, 200_000]) {
      const compressed = node.platform.brotliCompress(new Uint8Array(size), 5);
      expect(platform.brotliDecompress(compressed, size).length).toBe(size);
      if (size > 1) {
        expect(errorCode(() => platform.brotliDecompress(compressed, size - 1))).toBe(
          'decompressed_too_large',
        );
      }
    }
  });

  it('refuses a stream that is cut short anywhere', () => {
    const compressed = node.platform.brotliCompress(utf8('{"role":"user","content":"Hello"}'.repeat(5)), 5);
    for (let length = 0; length < compressed.length; length++) {
      expect(errorCode(() => platform.brotliDecompress(compressed.subarray(0, length), MIB))).toBe(
        'bad_compression',
      );
    }
  });

  it('refuses bytes after the stream', () => {
    const compressed = node.platform.brotliCompress(utf8('Hello'), 5);
    for (const more of [[0], [0xff], [...compressed]]) {
      const joined = Uint8Array.from([...compressed, ...more]);
      expect(errorCode(() => platform.brotliDecompress(joined, MIB))).toBe('trailing_bytes');
    }
  });

  it('refuses the large-window format, whose window may be a gigabyte', () => {
    const large = zlib.brotliCompressSync(new Uint8Array(100_000), {
      params: { [zlib.constants.BROTLI_PARAM_LARGE_WINDOW]: 1, [zlib.constants.BROTLI_PARAM_LGWIN]: 30 },
    });
    expect(errorCode(() => platform.brotliDecompress(large, MIB))).toBe('bad_compression');
  });

  it('reports damage as a ProtocolError and works again afterwards', () => {
    fc.assert(
      fc.property(
        bytesArbitrary,
        fc.array(fc.tuple(fc.nat(4000), fc.nat(7)), { minLength: 1, maxLength: 4 }),
        (bytes, edits) => {
          const compressed = node.platform.brotliCompress(bytes, 5);
          errorCode(() => platform.brotliDecompress(mutate(compressed, edits), MIB));
          expect(platform.brotliDecompress(compressed, MIB)).toEqual(bytes);
        },
      ),
      { numRuns: 300 },
    );
  });

  it('reports random bytes as a ProtocolError', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        errorCode(() => platform.brotliDecompress(bytes, MIB));
      }),
      { numRuns: 1000 },
    );
  });
});

describe.each(platforms)('zlib on $name', (platform) => {
  it.each([0, 1, 6, 9])('is read at level %i', (level) => {
    fc.assert(
      fc.property(bytesArbitrary, (bytes) => {
        const compressed = zlib.deflateSync(bytes, { level });
        expect(platform.inflate(compressed, Math.max(bytes.length, 1))).toEqual(bytes);
      }),
      { numRuns: 100 },
    );
  });

  it.each([
    ['fixed codes', { strategy: zlib.constants.Z_FIXED }],
    ['no matches', { strategy: zlib.constants.Z_HUFFMAN_ONLY }],
    ['runs', { strategy: zlib.constants.Z_RLE }],
  ])('is read with %s', (_, options) => {
    fc.assert(
      fc.property(bytesArbitrary, (bytes) => {
        expect(platform.inflate(zlib.deflateSync(bytes, options), MIB)).toEqual(bytes);
      }),
      { numRuns: 50 },
    );
  });

  it('reads the longest distances and many blocks', () => {
    const noise = Uint8Array.from({ length: 32_768 }, (_, i) => Math.imul(i ^ (i >>> 5), 2654435761) >>> 23);
    const bytes = repeat(noise, 4);
    expect(platform.inflate(zlib.deflateSync(bytes, { memLevel: 1 }), bytes.length)).toEqual(bytes);
  });

  it('allows exactly the limit and not a byte more', () => {
    for (const size of [1, 16_384, 16_385, 100_000]) {
      const compressed = zlib.deflateSync(new Uint8Array(size));
      expect(platform.inflate(compressed, size).length).toBe(size);
      if (size > 1)
        expect(errorCode(() => platform.inflate(compressed, size - 1))).toBe('decompressed_too_large');
    }
  });

  it('refuses a stream that is cut short anywhere, and bytes after it', () => {
    const compressed = zlib.deflateSync('{"role":"user","content":"Hello"}'.repeat(5));
    for (let length = 0; length < compressed.length; length++) {
      expect(errorCode(() => platform.inflate(compressed.subarray(0, length), MIB))).toBe('bad_compression');
    }
    const joined = Uint8Array.from([...compressed, 0]);
    expect(errorCode(() => platform.inflate(joined, MIB))).toBe('trailing_bytes');
  });

  it('refuses a wrong checksum, a preset dictionary and raw or gzip data', () => {
    const damaged = mutate(zlib.deflateSync('Hello'), [[12, 0]]);
    const withDictionary = zlib.deflateSync('Hello', { dictionary: Buffer.from('Hello') });
    for (const bytes of [damaged, withDictionary, zlib.deflateRawSync('Hello'), zlib.gzipSync('Hello')]) {
      expect(errorCode(() => platform.inflate(bytes, MIB))).toBe('bad_compression');
    }
  });
});

it('agrees on both platforms about which damaged zlib data is readable', () => {
  fc.assert(
    fc.property(
      bytesArbitrary,
      fc.array(fc.tuple(fc.nat(4000), fc.nat(7)), { maxLength: 4 }),
      fc.constantFrom(0, 1, 9),
      (bytes, edits, level) => {
        const damaged = mutate(zlib.deflateSync(bytes, { level }), edits);
        const [onNode, onWeb] = platforms.map((platform) => errorCode(() => platform.inflate(damaged, MIB)));
        expect(onWeb).toBe(onNode);
      },
    ),
    { numRuns: 2000 },
  );
});

// Not the reverse: the WebAssembly decoder ignores padding bits after the last block, and a last copy that is
// longer than its block; Node refuses both.
it('reads on the web every damaged Brotli stream that Node reads, as the same bytes', async () => {
  await loadWebPlatform();
  fc.assert(
    fc.property(
      bytesArbitrary,
      fc.array(fc.tuple(fc.nat(4000), fc.nat(7)), { maxLength: 4 }),
      (bytes, edits) => {
        const damaged = mutate(node.platform.brotliCompress(bytes, 5), edits);
        if (errorCode(() => node.platform.brotliDecompress(damaged, MIB)) !== 'none') return;
        expect(web.platform.brotliDecompress(damaged, MIB)).toEqual(
          node.platform.brotliDecompress(damaged, MIB),
        );
      },
    ),
    { numRuns: 1000 },
  );
});

describe.each(platforms)('a bomb of 64 MiB on $name', (platform) => {
  beforeAll(loadWebPlatform);

  const bombs = {
    brotliDecompress: zlib.brotliCompressSync(new Uint8Array(64 * MIB)),
    inflate: zlib.deflateSync(new Uint8Array(64 * MIB)),
  } as const;

  it.each(['brotliDecompress', 'inflate'] as const)(
    'is refused by %s before it grows past the limit',
    (name) => {
      expect(bombs[name].length).toBeLessThan(100_000);
      const before = process.memoryUsage();
      expect(errorCode(() => platform[name](bombs[name], MIB))).toBe('decompressed_too_large');
      const after = process.memoryUsage();
      expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(16 * MIB);
    },
  );
});
