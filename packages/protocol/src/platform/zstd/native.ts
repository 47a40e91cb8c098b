import type { NativeZstdEngine } from '../zstd.js';

/** The part of `zlib` that is used. */
interface NodeZstd {
  zstdCompressSync(bytes: Uint8Array, options: object): Uint8Array;
  zstdDecompressSync(bytes: Uint8Array, options: object): Uint8Array;
  readonly constants: { readonly ZSTD_c_compressionLevel: number };
}

/** zstd of Node's `zlib` module; `undefined` if it has none. */
export function createNativeEngine(runtime: object): NativeZstdEngine | undefined {
  if (!('zstdCompressSync' in runtime && 'zstdDecompressSync' in runtime)) return undefined;
  const zlib = runtime as NodeZstd;
  let supportsDictionaries: boolean | undefined;

  const engine: NativeZstdEngine = {
    maxSize: 0x7fffffff,

    compress(bytes, level, dictionary) {
      const output = zlib.zstdCompressSync(bytes, {
        params: { [zlib.constants.ZSTD_c_compressionLevel]: level },
        pledgedSrcSize: bytes.length,
        ...(dictionary && { dictionary }),
      });
      return withoutBuffer(output);
    },

    decompress(bytes, capacity, dictionary) {
      const output = zlib.zstdDecompressSync(bytes, {
        // Node refuses a limit of 0.
        maxOutputLength: Math.max(capacity, 1),
        ...(dictionary && { dictionary }),
      });
      return withoutBuffer(output);
    },

    wasFull: (error) => (error as { code?: unknown }).code === 'ERR_BUFFER_TOO_LARGE',

    supportsDictionaries() {
      if (supportsDictionaries === undefined) {
        const sample = Uint8Array.from({ length: 256 }, (_, i) => (i * 197) & 0xff);
        supportsDictionaries = engine.compress(sample, 3, sample).length < sample.length / 2;
      }
      return supportsDictionaries;
    },
  };
  return engine;
}

/** The same bytes as a plain `Uint8Array`: a `Buffer` slices differently. */
function withoutBuffer(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
}
