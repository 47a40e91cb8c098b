import { ProtocolError } from '../errors.js';
import { crc32 } from './crc32.js';
import type { Platform } from './port.js';

declare const crypto: { getRandomValues<T extends Uint8Array>(array: T): T };

// `getRandomValues` refuses more than this at once.
const MAX_RANDOM_CHUNK = 65_536;

/** Browsers and workers: WebAssembly and the Web's own primitives. */
export const platform: Platform = {
  name: 'web',

  crc32,

  randomBytes(length) {
    const bytes = new Uint8Array(length);
    for (let at = 0; at < length; at += MAX_RANDOM_CHUNK)
      crypto.getRandomValues(bytes.subarray(at, at + MAX_RANDOM_CHUNK));
    return bytes;
  },

  async loadBrotli() {},

  brotliCompress() {
    throw new ProtocolError('codec_not_loaded', 'Brotli is not loaded; await loadCodecs(["BROTLI"]) first');
  },

  brotliDecompress() {
    throw new ProtocolError('codec_not_loaded', 'Brotli is not loaded; await loadCodecs(["BROTLI"]) first');
  },
};
