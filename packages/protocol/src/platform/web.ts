import { decodeBase64, encodeBase64 } from './base64-web.js';
import { brotliCompress, brotliDecompress, loadBrotli } from './brotli-web.js';
import { crc32 } from './crc32.js';
import { inflate } from './inflate.js';
import type { Platform } from './port.js';
import { loadPlainEngine } from './zstd/plain.js';
import { createZstd } from './zstd.js';

declare const crypto: { getRandomValues<T extends Uint8Array>(array: T): T };

// The most bytes that `getRandomValues` fills per call.
const MAX_RANDOM_CHUNK = 65_536;

/** Browsers and workers: the Web's own primitives, zstd in plain TypeScript, and WebAssembly for Brotli only. */
export const platform: Platform = {
  name: 'web',

  ...createZstd(loadPlainEngine),

  crc32,

  encodeBase64,
  decodeBase64,

  randomBytes(length) {
    const bytes = new Uint8Array(length);
    for (let at = 0; at < length; at += MAX_RANDOM_CHUNK)
      crypto.getRandomValues(bytes.subarray(at, at + MAX_RANDOM_CHUNK));
    return bytes;
  },

  // Called without arguments: only tests pass a loader.
  loadBrotli: () => loadBrotli(),
  brotliCompress,
  // WebAssembly runs on the calling thread.
  brotliCompressLater: async (bytes, quality) => brotliCompress(bytes, quality),
  brotliDecompress,
  inflate,
};
