import * as zlib from 'node:zlib';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { equalBytes } from '../base/bytes.js';
import { ProtocolError } from '../base/errors.js';
import { bytesOf } from '../base/testing/bytes.js';
import { errorCode } from '../testing/error-code.js';
import { createNativeEngine } from './zstd/native.js';
import { loadPlainEngine } from './zstd/plain.js';
import { loadWasmEngine } from './zstd/wasm.js';
import { createZstd, type ZstdPort } from './zstd.js';
import { readZstdFrame } from './zstd-frame.js';

const hex = (text: string) => Uint8Array.from(text.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));
/** A frame of run-length blocks: `blocks` × `size` zeros out of four bytes each. */
function runLengthFrame(header: string, blocks: number, size: number): Uint8Array {
  const frame = hex(`28b52ffd${header}`);
  const bytes = new Uint8Array(frame.length + blocks * 4);
  bytes.set(frame);
  for (let i = 0; i < blocks; i++) {
    const block = (size << 3) | 0b10 | (i === blocks - 1 ? 1 : 0);
    bytes.set([block & 0xff, (block >> 8) & 0xff, block >> 16, 0], frame.length + i * 4);
  }
  return bytes;
}

const engines: [string, ZstdPort][] = [
  ['WebAssembly', createZstd(loadWasmEngine)],
  ['plain TypeScript', createZstd(loadPlainEngine)],
];
if ('zstdCompressSync' in zlib) {
  engines.push(['node:zlib', createZstd(loadWasmEngine, createNativeEngine(zlib))]);
}

beforeAll(async () => {
  for (const [, zstd] of engines) await zstd.loadZstd();
});

it.each([
  ['WebAssembly', loadWasmEngine],
  ['plain TypeScript', loadPlainEngine],
])('throws codec_not_loaded before %s is loaded', async (_name, load) => {
  const fresh = createZstd(load);
  expect(fresh.isZstdLoaded()).toBe(false);
  expect(errorCode(() => fresh.zstdCompress(new Uint8Array(4), 3))).toBe('codec_not_loaded');
  expect(errorCode(() => fresh.zstdDecompress(new Uint8Array(4), 3))).toBe('codec_not_loaded');
  await Promise.all([fresh.loadZstd(), fresh.loadZstd()]);
  expect(fresh.isZstdLoaded()).toBe(true);
  expect(fresh.zstdCompress(new Uint8Array(4), 3).length).toBeGreaterThan(0);
});

it('tries again to load after a failure', async () => {
  let attempts = 0;
  const zstd = createZstd(async () => {
    if (++attempts === 1) throw new ProtocolError('codec_not_loaded', 'offline');
    return loadPlainEngine();
  });
  await expect(zstd.loadZstd()).rejects.toMatchObject({ code: 'codec_not_loaded' });
  expect(zstd.isZstdLoaded()).toBe(false);
  await zstd.loadZstd();
  await zstd.loadZstd();
  expect([zstd.isZstdLoaded(), attempts]).toEqual([true, 2]);
});

describe.each(engines)('zstd by %s', (_name, zstd) => {
  it('round-trips content at every level in use, with and without a dictionary', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.uint8Array({ maxLength: 400 }), fc.string({ maxLength: 400 }).map(bytesOf)),
        fc.option(fc.uint8Array({ maxLength: 300 }), { nil: undefined }),
        fc.constantFrom(1, 3, 19),
        (content, dictionary, level) => {
          const packed = zstd.zstdCompress(content, level, dictionary);
          expect(packed.constructor).toBe(Uint8Array);
          expect(readZstdFrame(packed).contentSize).toBe(content.length);
          for (const [, other] of engines) {
            expect(other.zstdDecompress(packed, content.length, dictionary)).toEqual(content);
          }
          if (content.length > 0) {
            expect(errorCode(() => zstd.zstdDecompress(packed, content.length - 1, dictionary))).toBe(
              'decompressed_too_large',
            );
          }
        },
      ),
    );
  });

  it('uses a dictionary as raw content, even if it looks like a trained one', () => {
    const base = bytesOf(JSON.stringify(Array.from({ length: 80 }, (_, i) => ({ i, at: i ** 5 % 9973 }))));
    const next = bytesOf(`${new TextDecoder().decode(base).slice(0, -1)},{"i":80}]`);
    const alone = zstd.zstdCompress(next, 3).length;
    expect(zstd.zstdCompress(next, 3, base).length).toBeLessThan(alone / 10);

    const lookalike = Uint8Array.of(0x37, 0xa4, 0x30, 0xec, ...base);
    const packed = zstd.zstdCompress(next, 3, lookalike);
    expect(packed.length).toBeLessThan(alone / 10);
    for (const [, other] of engines) expect(other.zstdDecompress(packed, 1e6, lookalike)).toEqual(next);
    const wrong = errorCode(() => expect(zstd.zstdDecompress(packed, 1e6)).not.toEqual(next));
    expect(['none', 'bad_compression']).toContain(wrong);
  });

  it('reads frames that declare no size, up to the limit', () => {
    const undeclared = runLengthFrame('0038', 2, 1000);
    expect(zstd.zstdDecompress(undeclared, 2000)).toEqual(new Uint8Array(2000));
    expect(errorCode(() => zstd.zstdDecompress(undeclared, 1999))).toBe('decompressed_too_large');
  });

  it('stops when compressed blocks of undeclared size exceed the limit', () => {
    const content = bytesOf('ab'.repeat(50_000));
    const declared = zstd.zstdCompress(content, 3);
    // Replace the size field by a window descriptor of 128 KiB, as in the header of a streaming encoder.
    expect([...declared.subarray(4, 5)].map((d) => d & 0xe0)).toEqual([0xa0]);
    const undeclared = Uint8Array.of(...declared.subarray(0, 4), 0x00, 0x38, ...declared.subarray(9));
    expect(readZstdFrame(undeclared).contentSize).toBeUndefined();
    expect(equalBytes(zstd.zstdDecompress(undeclared, content.length), content)).toBe(true);
    expect(errorCode(() => zstd.zstdDecompress(undeclared, content.length - 1))).toBe(
      'decompressed_too_large',
    );
  });

  it('refuses bombs before it allocates', () => {
    const before = process.memoryUsage().rss;
    const mib16 = 2 ** 24;
    const bombs = {
      '1 GiB declared': runLengthFrame('a000000040', 8192, 131_072),
      '1 GiB undeclared': runLengthFrame('0038', 8192, 131_072),
      '2^62 declared': runLengthFrame('e00000000000000040', 1, 10),
      '2 GiB declared, 10 held': runLengthFrame('a000000080', 1, 10),
    };
    for (const [name, bomb] of Object.entries(bombs)) {
      expect([name, errorCode(() => zstd.zstdDecompress(bomb, mib16))]).toEqual([
        name,
        'decompressed_too_large',
      ]);
    }
    // Even within the limit, the blocks must be able to hold the declared size.
    expect(errorCode(() => zstd.zstdDecompress(runLengthFrame('a000000010', 1, 10), 2 ** 30))).toBe(
      'bad_compression',
    );
    expect(process.memoryUsage().rss - before).toBeLessThan(32 * 2 ** 20);
  });

  it('refuses everything that is not exactly one frame', () => {
    const frame = zstd.zstdCompress(bytesOf('to be or not to be, to be or not to be'), 3);
    const refused = {
      empty: new Uint8Array(0),
      'another format': hex('1f8b0800000000000000'),
      'a skippable frame': hex('502a4d1804000000deadbeef'),
      'a frame and a byte': Uint8Array.of(...frame, 0),
      'two frames': Uint8Array.of(...frame, ...frame),
      'a frame and a skippable one': Uint8Array.of(...frame, ...hex('502a4d1804000000deadbeef')),
      'a dictionary ID': hex('28b52ffd210703190000616263'),
      'a reserved header bit': hex('28b52ffd2803190000616263'),
      'a reserved block type': hex('28b52ffd20031f0000616263'),
      'a window of 2^41': hex('28b52ffd40f803000000190000616263'),
      'one byte less than declared': hex('28b52ffd2004190000616263'),
      'one byte more than declared': hex('28b52ffd2002190000616263'),
    };
    for (const [name, bytes] of Object.entries(refused)) {
      expect([name, errorCode(() => zstd.zstdDecompress(bytes, 1000))]).toEqual([name, 'bad_compression']);
    }
    for (let length = 0; length < frame.length; length++) {
      expect(errorCode(() => zstd.zstdDecompress(frame.subarray(0, length), 1000))).toBe('bad_compression');
    }
    expect(zstd.zstdDecompress(hex('28b52ffd2003190000616263'), 3)).toEqual(bytesOf('abc'));
  });

  it('verifies a content checksum', () => {
    // "abc" with the low half of its XXH64, with and without a declared size.
    const right = ['28b52ffd2403190000616263', '28b52ffd0438190000616263'];
    for (const frame of right) {
      expect(zstd.zstdDecompress(hex(`${frame}990977ad`), 3)).toHaveLength(3);
      expect(errorCode(() => zstd.zstdDecompress(hex(`${frame}990977ae`), 3))).toBe('bad_compression');
    }
  });

  it('throws only its own errors for damaged frames', () => {
    const content = bytesOf('the quick brown fox jumps over the lazy dog. '.repeat(40));
    const frame = zstd.zstdCompress(content, 19);
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(frame.length - 1), fc.integer({ min: 1, max: 255 })), {
          minLength: 1,
          maxLength: 4,
        }),
        (changes) => {
          const damaged = frame.slice();
          for (const [at, xor] of changes) damaged[at] = (damaged[at] ?? 0) ^ xor;
          errorCode(() => zstd.zstdDecompress(damaged, 2 ** 20));
        },
      ),
      { numRuns: 500 },
    );
  });
});
