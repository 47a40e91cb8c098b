import type { ZstdPort } from './zstd.js';

/**
 * The functions that the core needs from its platform because it cannot compute them itself in reasonable
 * time. `node.ts` and `web.ts` implement them; nothing outside this folder knows which is in use.
 */
export interface Platform extends ZstdPort {
  readonly name: 'node' | 'web';

  /** CRC-32 (IEEE 802.3) of `bytes`, continued from `seed`, the CRC of the bytes before these. */
  crc32(bytes: Uint8Array, seed?: number): number;

  /** Padded standard base64. */
  encodeBase64(bytes: Uint8Array): string;

  /** The bytes, or `undefined` if `text` is not exactly what `encodeBase64` writes. */
  decodeBase64(text: string): Uint8Array<ArrayBuffer> | undefined;

  /** `length` bytes from the platform's cryptographically secure generator. */
  randomBytes(length: number): Uint8Array<ArrayBuffer>;

  /** Loads Brotli; resolves at once if the platform has nothing to load. Safe to call repeatedly. */
  loadBrotli(): Promise<void>;

  /**
   * Brotli, window 22.
   *
   * @param quality 0 to 11.
   * @throws {ProtocolError} `codec_not_loaded` before `loadBrotli` has resolved.
   */
  brotliCompress(bytes: Uint8Array, quality: number): Uint8Array;

  /** Like `brotliCompress`, but off the event loop if the platform supports that. */
  brotliCompressLater(bytes: Uint8Array, quality: number): Promise<Uint8Array>;

  /**
   * One Brotli stream that takes up all of `bytes`. Stops as soon as the output would exceed `maxSize`.
   *
   * @throws {ProtocolError} `decompressed_too_large`, `bad_compression`, `trailing_bytes`,
   * `codec_not_loaded`.
   */
  brotliDecompress(bytes: Uint8Array, maxSize: number): Uint8Array;

  /**
   * One zlib stream (RFC 1950) that takes up all of `bytes`. Stops as soon as the output would exceed
   * `maxSize`.
   *
   * @throws {ProtocolError} `decompressed_too_large`, `bad_compression`, `trailing_bytes`.
   */
  inflate(bytes: Uint8Array, maxSize: number): Uint8Array;
}
