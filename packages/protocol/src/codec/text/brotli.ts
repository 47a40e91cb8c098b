import { platform } from '#platform';
import { Prefix } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import { DEFAULT_LIMITS, type Limits } from '../../base/limits.js';
import { decodeUtf8 } from '../../base/text.js';
import { decodeBase64, encodeBase64 } from '../base64.js';
import { assertMessageSize, encodeMessage, stripPrefix } from './text-form.js';

/**
 * Brotli (wire document, section 3.5; compression document, section 5.5): UTF-8 text, compressed and written
 * as base64 after a prefix. In a browser, the codec must be loaded first.
 */

/** `V3` writes `#M2M[v3.0]|DATA:`, `BR` writes `#BR|`; `decodeBrotli` accepts both. */
export type BrotliTag = 'V3' | 'BR';
export type BrotliQuality = 4 | 5 | 6;

export interface EncodeBrotliOptions {
  /** @default 'V3' */
  readonly tag?: BrotliTag | undefined;
  /** @default 5 */
  readonly quality?: BrotliQuality | undefined;
  readonly limits?: Partial<Limits> | undefined;
}

export interface DecodeBrotliOptions {
  readonly limits?: Partial<Limits> | undefined;
}

const PREFIXES = { V3: Prefix.BROTLI_V3, BR: Prefix.BROTLI } as const satisfies Record<BrotliTag, Prefix>;
const DEFAULT_QUALITY = 5;

/**
 * @throws {ProtocolError} `message_too_large`, `lone_surrogate`, `invalid_option`, `codec_not_loaded`.
 */
export function encodeBrotli(text: string, options: EncodeBrotliOptions = {}): string {
  const { tag = 'V3', quality, limits } = options;
  if (!Object.hasOwn(PREFIXES, tag)) {
    throw new ProtocolError('invalid_option', `tag must be "V3" or "BR", not ${JSON.stringify(tag)}`);
  }
  const wire = PREFIXES[tag] + encodeBase64(compressBrotli(encodeMessage(text, limits), quality));
  assertMessageSize(wire, limits);
  return wire;
}

/**
 * @throws {ProtocolError} `unknown_prefix`, `bad_base64`, `bad_compression`, `trailing_bytes`,
 * `bad_utf8`, `message_too_large`, `decompressed_too_large`, `codec_not_loaded`.
 */
export function decodeBrotli(wire: string, options: DecodeBrotliOptions = {}): string {
  assertMessageSize(wire, options.limits);
  const body = decodeBase64(stripPrefix(wire, Prefix.BROTLI_V3, Prefix.BROTLI));
  return decodeUtf8(decompressBrotli(body, options.limits));
}

/**
 * Raw Brotli with a window of 22, as in the body of a binary session frame.
 *
 * @throws {ProtocolError} `invalid_option`, `codec_not_loaded`.
 */
export function compressBrotli(bytes: Uint8Array, quality: BrotliQuality = DEFAULT_QUALITY): Uint8Array {
  if (quality !== 4 && quality !== 5 && quality !== 6) {
    throw new ProtocolError('invalid_option', `Brotli quality must be 4, 5 or 6, not ${String(quality)}`);
  }
  return platform.brotliCompress(bytes, quality);
}

/** Bytes of a stored block: their number minus one takes 16 bits. */
const STORED_BLOCK = 0x10000;
/** A window of 22 in the first four bits, as compressed streams have. */
const WINDOW_BITS = 0xb;
/** An empty last block. */
const LAST_BLOCK = 3;

/**
 * A Brotli stream that holds `bytes` uncompressed (RFC 7932, section 9.2: blocks with ISUNCOMPRESSED), for
 * content that would otherwise expand more than a receiver allows.
 */
export function storeBrotli(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const blocks = Math.ceil(bytes.length / STORED_BLOCK);
  const stream = new Uint8Array(bytes.length + 3 * blocks + 1);
  let at = 0;
  for (let from = 0; from < bytes.length; from += STORED_BLOCK) {
    const block = bytes.subarray(from, from + STORED_BLOCK);
    // Not the last block, its length in four nibbles, stored. Only the first block comes after the window
    // bits.
    const head = ((block.length - 1) << 3) | (1 << 19);
    const bits = from === 0 ? WINDOW_BITS + (head << 4) : head;
    stream[at++] = bits;
    stream[at++] = bits >>> 8;
    stream[at++] = bits >>> 16;
    stream.set(block, at);
    at += block.length;
  }
  stream[at] = blocks === 0 ? WINDOW_BITS | (LAST_BLOCK << 4) : LAST_BLOCK;
  return stream;
}

/**
 * Decompresses a Brotli stream that takes up all of `bytes`, and stops as soon as its output would exceed
 * `maxMessageSize`.
 *
 * @throws {ProtocolError} `bad_compression`, `trailing_bytes`, `decompressed_too_large`,
 * `codec_not_loaded`.
 */
export function decompressBrotli(bytes: Uint8Array, limits: Partial<Limits> = DEFAULT_LIMITS): Uint8Array {
  return platform.brotliDecompress(bytes, limits.maxMessageSize ?? DEFAULT_LIMITS.maxMessageSize);
}
