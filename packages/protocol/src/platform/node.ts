import { randomBytes } from 'node:crypto';
import * as zlib from 'node:zlib';
import { ProtocolError } from '../errors.js';
import { crc32 as portableCrc32 } from './crc32.js';
import type { Platform } from './port.js';

// In Node since 20.15 and 22.2; the type packages of 20 do not all declare it.
const nativeCrc32 = (zlib as { crc32?: (data: Uint8Array, value?: number) => number }).crc32;

/** Node's own implementations. */
export const platform: Platform = {
  name: 'node',

  crc32: nativeCrc32 ?? portableCrc32,

  randomBytes(length) {
    const bytes = new Uint8Array(length);
    bytes.set(randomBytes(length));
    return bytes;
  },

  async loadBrotli() {},

  brotliCompress(bytes, quality) {
    return zlib.brotliCompressSync(bytes, {
      params: {
        [zlib.constants.BROTLI_PARAM_QUALITY]: quality,
        [zlib.constants.BROTLI_PARAM_LGWIN]: 22,
        [zlib.constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
      },
    });
  },

  brotliDecompress(bytes, maxSize) {
    try {
      return zlib.brotliDecompressSync(bytes, { maxOutputLength: Math.min(maxSize, 0x7fffffff) });
    } catch (cause) {
      if ((cause as { code?: unknown }).code === 'ERR_BUFFER_TOO_LARGE') {
        throw new ProtocolError(
          'decompressed_too_large',
          `Brotli data expands to more than ${maxSize} bytes`,
          { cause },
        );
      }
      throw new ProtocolError('bad_compression', 'Brotli data is damaged or ends early', { cause });
    }
  },
};
