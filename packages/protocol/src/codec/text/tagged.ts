import { Algorithm, EncodingName, Prefix } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import type { Limits } from '../../base/limits.js';
import { assertWellFormed } from '../../base/text.js';
import type { Encoding } from '../../tokenizer/encoding.js';
import { decodeM2M, encodeM2MText } from '../m2m/m2m.js';
import type { M2MSecurity } from '../m2m/security.js';
import { type BrotliQuality, type BrotliTag, decodeBrotli, encodeBrotli } from './brotli.js';
import { decodeDictionary, encodeDictionary } from './dictionary.js';
import { assertMessageSize } from './text-form.js';
import { decodeToken, encodeToken } from './token.js';
import { decodeTokenNativeText, encodeTokenNativeText } from './token-native.js';
import { decodeZlib } from './zlib.js';

/**
 * Text whose prefix tells how it is coded (wire document, section 3.10; compression document, section 5.9).
 * It is used by `m2m.v1.json`, by stateless peers and in WebSocket text messages.
 */

/** The algorithm that a prefix stands for. `ZLIB` is deprecated, and never negotiated or written. */
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

/** The algorithm of `wire` by its prefix; `NONE` if it begins with none of the known ones. */
export function detectAlgorithm(wire: string): DetectedAlgorithm {
  return PREFIXES.find(([prefix]) => wire.startsWith(prefix))?.[1] ?? Algorithm.NONE;
}

export interface EncodeTextOptions {
  readonly limits?: Partial<Limits> | undefined;
  /** The prefix to write for Brotli. @default 'V3' */
  readonly tag?: BrotliTag | undefined;
  /** The quality of Brotli. @default 5 */
  readonly quality?: BrotliQuality | undefined;
  /** Protection of M2M v1; `encodeText` then refuses every other algorithm. */
  readonly security?: M2MSecurity | undefined;
  /** The vocabulary of TOKEN_NATIVE; it must be loaded. @default 'CL100K_BASE' */
  readonly encoding?: Encoding | EncodingName | undefined;
}

export interface DecodeTextOptions {
  readonly limits?: Partial<Limits> | undefined;
  /** Requires M2M v1 with this protection; everything else is refused. */
  readonly security?: M2MSecurity | undefined;
  /** Whether to accept the deprecated zlib form. @default false */
  readonly zlib?: boolean | undefined;
}

/**
 * Codes `content` as text, which {@link decodeText} decodes to exactly the same content. TOKEN is the
 * exception: it only keeps the meaning of JSON.
 *
 * @param algorithm NONE returns `content` unchanged.
 * @throws {ProtocolError} `unrepresentable` if the algorithm cannot carry `content`; for NONE, that is if it
 * begins with a prefix and would be decoded as something else. `security_required`, `vocabulary_not_loaded`,
 * and the errors of the codec.
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
      throw new ProtocolError(
        'unsupported',
        `unknown algorithm ${JSON.stringify(algorithm)}; known algorithms: ${Object.values(Algorithm).join(', ')}`,
      );
  }
}

/**
 * Decodes text in any of the forms, distinguished by {@link detectAlgorithm}. Text without a known prefix is
 * the content itself.
 *
 * @throws {ProtocolError} `unsupported` for zlib unless it is enabled; `security_required`,
 * `vocabulary_not_loaded`, and the errors of the codec.
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
      throw new ProtocolError('unsupported', 'zlib (v2.0) is deprecated and not enabled; send Brotli');
  }
}

function passThrough(content: string, limits: Partial<Limits> | undefined): string {
  assertMessageSize(content, limits);
  assertWellFormed(content);
  const taken = detectAlgorithm(content);
  if (taken !== Algorithm.NONE) {
    throw new ProtocolError(
      'unrepresentable',
      `text that begins like ${taken} would be decoded as such if it were sent uncoded; use another codec`,
    );
  }
  return content;
}

function m2mOptions(limits: Partial<Limits> | undefined, security: M2MSecurity | undefined) {
  return { ...(limits === undefined ? {} : { limits }), ...(security === undefined ? {} : { security }) };
}

function unprotected(algorithm: DetectedAlgorithm): ProtocolError {
  return new ProtocolError('security_required', `${algorithm} cannot carry the required protection; use M2M`);
}
