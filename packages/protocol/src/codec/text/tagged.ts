import { Algorithm, EncodingName, Prefix } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import type { Limits } from '../../base/limits.js';
import { assertWellFormed } from '../../base/text.js';
import type { Encoding } from '../../tokenizer/encoding.js';
import { decodeM2M, encodeM2MText } from '../m2m/m2m.js';
import type { M2MSecurity } from '../m2m/security.js';
import { type BrotliQuality, type BrotliTag, decodeBrotli, encodeBrotli } from './brotli.js';
import { decodeDictionary, encodeDictionary } from './dictionary.js';
import { assertMessageSize } from './prefix.js';
import { decodeToken, encodeToken } from './token.js';
import { decodeTokenNativeText, encodeTokenNativeText } from './token-native.js';
import { decodeZlib } from './zlib.js';

/**
 * Text that says by its prefix how it is coded (wire document, section 3.10; compression document,
 * section 5.9): `m2m.v1.json`, stateless peers and WebSocket text messages carry such text.
 */

/** What a prefix stands for; `ZLIB` is deprecated and never negotiated or written. */
export type DetectedAlgorithm = Algorithm | 'ZLIB';

const PREFIXES: readonly (readonly [Prefix, DetectedAlgorithm])[] = [
  [Prefix.M2M, Algorithm.M2M],
  [Prefix.TOKEN_NATIVE, Algorithm.TOKEN_NATIVE],
  [Prefix.TOKEN, Algorithm.TOKEN],
  [Prefix.BROTLI, Algorithm.BROTLI],
  [Prefix.BROTLI_V3, Algorithm.BROTLI],
  [Prefix.DICTIONARY, Algorithm.DICTIONARY],
  [Prefix.ZLIB_V2, 'ZLIB'],
];

/** `NONE` for every text that does not begin with exactly one of the known prefixes. */
export function detectAlgorithm(wire: string): DetectedAlgorithm {
  return PREFIXES.find(([prefix]) => wire.startsWith(prefix))?.[1] ?? Algorithm.NONE;
}

export interface EncodeTextOptions {
  readonly limits?: Partial<Limits> | undefined;
  /** Which Brotli prefix is written. @default 'V3' */
  readonly tag?: BrotliTag | undefined;
  /** Of Brotli. @default 5 */
  readonly quality?: BrotliQuality | undefined;
  /** Protection of M2M v1; with it nothing else is written. */
  readonly security?: M2MSecurity | undefined;
  /** Vocabulary of TOKEN_NATIVE, which must be loaded. @default 'CL100K_BASE' */
  readonly encoding?: Encoding | EncodingName | undefined;
}

export interface DecodeTextOptions {
  readonly limits?: Partial<Limits> | undefined;
  /** Demands M2M v1 with this protection and refuses everything else. */
  readonly security?: M2MSecurity | undefined;
  /** Whether the deprecated zlib form is read. @default false */
  readonly zlib?: boolean | undefined;
}

/**
 * Codes `content` as text that {@link decodeText} reads back: exactly, but for TOKEN, which keeps the
 * meaning of JSON.
 *
 * @param algorithm NONE passes `content` through as it is.
 * @throws {ProtocolError} `unrepresentable` where the algorithm cannot carry `content`, among others
 * NONE where it begins with a prefix and would be taken for something else; `security_required`;
 * `vocabulary_not_loaded`; and what the codec throws.
 */
export function encodeText(content: string, algorithm: Algorithm, options: EncodeTextOptions = {}): string {
  const { limits, tag, quality, security, encoding = EncodingName.CL100K_BASE } = options;
  if (security !== undefined && algorithm !== Algorithm.M2M) throw unprotected(algorithm);
  switch (algorithm) {
    case Algorithm.NONE:
      return passThrough(content, limits);
    case Algorithm.M2M:
      return encodeM2MText(content, m2mOptions(limits, security));
    case Algorithm.TOKEN_NATIVE:
      return encodeTokenNativeText(content, encoding, { limits });
    case Algorithm.TOKEN:
      return encodeToken(content, { limits });
    case Algorithm.BROTLI:
      return encodeBrotli(content, { limits, tag, quality });
    case Algorithm.DICTIONARY:
      return encodeDictionary(content, { limits });
    default:
      throw new ProtocolError('unsupported', `there is no algorithm ${JSON.stringify(algorithm)}`);
  }
}

/**
 * Reads text in any of the forms, told apart by {@link detectAlgorithm}; what begins with no prefix is
 * the content itself. It is decoded whole or not at all.
 *
 * @throws {ProtocolError} `security_required`, `vocabulary_not_loaded`; `unsupported` for zlib where it
 * is not switched on; and what the codec throws.
 */
export function decodeText(wire: string, options: DecodeTextOptions = {}): string {
  const { limits, security, zlib = false } = options;
  assertMessageSize(wire, limits);
  const algorithm = detectAlgorithm(wire);
  if (security !== undefined && algorithm !== Algorithm.M2M) throw unprotected(algorithm);
  switch (algorithm) {
    case Algorithm.NONE:
      assertWellFormed(wire);
      return wire;
    case Algorithm.M2M:
      return decodeM2M(wire, m2mOptions(limits, security)).json;
    case Algorithm.TOKEN_NATIVE:
      return decodeTokenNativeText(wire, { limits });
    case Algorithm.TOKEN:
      return decodeToken(wire, { limits });
    case Algorithm.BROTLI:
      return decodeBrotli(wire, { limits });
    case Algorithm.DICTIONARY:
      return decodeDictionary(wire, { limits });
    case 'ZLIB':
      if (zlib) return decodeZlib(wire, { limits });
      throw new ProtocolError('unsupported', 'zlib (v2.0) is deprecated and not switched on; send Brotli');
  }
}

function passThrough(content: string, limits: Partial<Limits> | undefined): string {
  assertMessageSize(content, limits);
  assertWellFormed(content);
  const taken = detectAlgorithm(content);
  if (taken !== Algorithm.NONE) {
    throw new ProtocolError(
      'unrepresentable',
      `text that begins like ${taken} would be taken for it if it were passed through; use another codec`,
    );
  }
  return content;
}

function m2mOptions(limits: Partial<Limits> | undefined, security: M2MSecurity | undefined) {
  return { ...(limits === undefined ? {} : { limits }), ...(security === undefined ? {} : { security }) };
}

function unprotected(algorithm: DetectedAlgorithm): ProtocolError {
  return new ProtocolError('security_required', `${algorithm} cannot carry the protection that is demanded`);
}
