import { randomBytes, randomFillSync } from 'node:crypto';
import * as zlib from 'node:zlib';
import { ProtocolError } from '../base/errors.js';
import { crc32 as portableCrc32 } from './crc32.js';
import type { Platform } from './port.js';
import { createNativeEngine } from './zstd/native.js';
import { loadWasmEngine } from './zstd/wasm.js';
import { createZstd } from './zstd.js';

// Node has it since 20.15 and 22.2; not all type packages of Node 20 declare it.
const nativeCrc32 = (zlib as { crc32?: (data: Uint8Array, value?: number) => number }).crc32;

/**
 * With Node's default of 16 KiB, collecting the thousand chunks of a bomb doubles the time it takes to refuse
 * it.
 */
const OUTPUT_CHUNK = 64 * 1024;
/** A few random bytes from the system cost as much as some thousand, and every session asks twice. */
const randomPool = new Uint8Array(4096);
let randomUsed = randomPool.length;
/** The largest value that `zlib` accepts for `maxOutputLength`. */
const MAX_OUTPUT_LENGTH = 0x7fffffff;

/** The implementations of Node. */
export const platform: Platform = {
  name: 'node',

  ...createZstd(loadWasmEngine, createNativeEngine(zlib)),

  // Node starts over for an empty view without memory, so skip that call.
  crc32:
    nativeCrc32 === undefined
      ? portableCrc32
      : (bytes, crc = 0) => (bytes.length === 0 ? crc : nativeCrc32(bytes, crc)),

  encodeBase64(bytes) {
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64');
  },

  decodeBase64(text) {
    const bytes = Buffer.from(text, 'base64');
    // `Buffer` skips invalid characters; encoding the result again yields the only valid spelling.
    if (bytes.toString('base64') !== text) return undefined;
    return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
  },

  randomBytes(length) {
    if (length > randomPool.length) return new Uint8Array(randomBytes(length));
    if (randomUsed + length > randomPool.length) {
      randomFillSync(randomPool);
      randomUsed = 0;
    }
    const bytes = randomPool.slice(randomUsed, randomUsed + length);
    // Keep no copy of the bytes that were handed out.
    randomPool.fill(0, randomUsed, randomUsed + length);
    randomUsed += length;
    return bytes;
  },

  async loadBrotli() {},

  brotliCompress(bytes, quality) {
    return detach(zlib.brotliCompressSync(bytes, brotliOptions(bytes, quality)));
  },

  brotliCompressLater(bytes, quality) {
    return new Promise((resolve, reject) => {
      zlib.brotliCompress(bytes, brotliOptions(bytes, quality), (error, result) => {
        if (error === null) resolve(detach(result));
        else reject(new ProtocolError('internal', 'Brotli could not compress', { cause: error }));
      });
    });
  },

  brotliDecompress(bytes, maxSize) {
    return decompress('Brotli', zlib.brotliDecompressSync, bytes, maxSize);
  },

  inflate(bytes, maxSize) {
    return decompress('zlib', zlib.inflateSync, bytes, maxSize);
  },
};

function brotliOptions(bytes: Uint8Array, quality: number): zlib.BrotliOptions {
  return {
    // A chunk of the expected size: the default of 16 KiB costs a small message 20 % more time.
    chunkSize: Math.min(16 * 1024, Math.max(64, bytes.length >> 1)),
    params: {
      [zlib.constants.BROTLI_PARAM_QUALITY]: quality,
      [zlib.constants.BROTLI_PARAM_LGWIN]: 22,
      [zlib.constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
    },
  };
}

type DecompressSync = (bytes: Uint8Array, options: zlib.ZlibOptions) => unknown;
/** The result of the synchronous calls with `info: true`, which Node's types do not declare. */
interface Decompressed {
  readonly buffer: Buffer;
  /** `bytesWritten` counts the input that was read. */
  readonly engine: { readonly bytesWritten: number };
}

function decompress(name: string, run: DecompressSync, bytes: Uint8Array, maxSize: number): Uint8Array {
  let result: Decompressed;
  try {
    result = run(bytes, {
      info: true,
      chunkSize: OUTPUT_CHUNK,
      maxOutputLength: Math.min(maxSize, MAX_OUTPUT_LENGTH),
    }) as Decompressed;
  } catch (cause) {
    if ((cause as { code?: unknown }).code === 'ERR_BUFFER_TOO_LARGE') {
      throw new ProtocolError(
        'decompressed_too_large',
        `${name} data expands to more than ${maxSize} bytes`,
        {
          cause,
        },
      );
    }
    throw new ProtocolError('bad_compression', `${name} data is damaged or ends early`, { cause });
  }
  const trailing = bytes.length - result.engine.bytesWritten;
  if (trailing > 0) {
    throw new ProtocolError('trailing_bytes', `${trailing} bytes follow the ${name} stream`);
  }
  return detach(result.buffer);
}

/**
 * A plain `Uint8Array` of a buffer from zlib: a `Buffer` slices differently, and a small one would keep alive
 * the whole chunk of 16 KiB that it was cut from.
 */
function detach(buffer: Buffer): Uint8Array {
  return buffer.length * 2 < buffer.buffer.byteLength
    ? new Uint8Array(buffer)
    : new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.length);
}
