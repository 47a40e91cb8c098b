import { codecs } from '#codecs';
import { Algorithm } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import { prefixOf } from '../../base/frame-kind.js';
import { encodeUtf8, utf8Length } from '../../base/text.js';
import type { Encoding } from '../../tokenizer/encoding.js';
import type { CodecContext } from '../coder.js';
import type { M2MEncodeOptions } from '../m2m/m2m.js';
import { compressBrotli, storeBrotli } from '../text/brotli.js';
import { encodeDictionaryBody } from '../text/dictionary.js';
import { EXPANSION_FLOOR, largestExpansion } from '../text/expansion.js';
import { decodeTokenBody, encodeTokenBody } from '../text/token.js';
import type { Candidate } from './codec-trial.js';

/** @throws {ProtocolError} `unsupported` if no encoding was negotiated. */
export function vocabularyOf({ encoding }: CodecContext): Encoding {
  if (encoding !== undefined) return encoding;
  throw new ProtocolError('unsupported', 'no encoding was negotiated, so this session cannot use tokens');
}

export const m2mOptions = ({ limits, security }: CodecContext) => ({
  limits,
  ...(security === undefined ? {} : { security }),
});

/**
 * Codes a text. It decodes to exactly that text, except from TOKEN (T1), which restores the meaning.
 *
 * @throws {ProtocolError} what the codec throws.
 */
export function encodeAs(algorithm: Algorithm, text: string, context: CodecContext): Uint8Array {
  switch (algorithm) {
    case Algorithm.NONE:
      return encodeUtf8(text);
    case Algorithm.TOKEN_NATIVE:
      return vocabularyOf(context).encodeVarints(text);
    case Algorithm.M2M:
      return encodeM2M(text, context);
    case Algorithm.BROTLI:
      return pack(encodeUtf8(text));
    case Algorithm.TOKEN:
      return encodeTokenBody(text, { limits: context.limits });
    case Algorithm.DICTIONARY:
      return encodeDictionaryBody(encodeUtf8(text));
  }
}

/** Compresses bytes with Brotli. */
export function pack(content: Uint8Array): Uint8Array {
  return acceptable(compressBrotli(content), content);
}

/** A Brotli stream that peers accept: they refuse bodies that expand too much, so such content is stored. */
export function acceptable(coded: Uint8Array, content: Uint8Array): Uint8Array {
  return content.length <= largestExpansion(coded.length) ? coded : storeBrotli(content);
}

function encodeM2M(
  text: string,
  context: CodecContext,
  schema: Pick<M2MEncodeOptions, 'schema'> = {},
): Uint8Array {
  const { encodeM2MBody } = codecs.m2m.get();
  const options = { ...m2mOptions(context), ...schema };
  const bytes = encodeM2MBody(text, options);
  // A UTF-16 unit takes at most three bytes of UTF-8.
  const mayExpand = text.length * 3 > EXPANSION_FLOOR && utf8Length(text) > largestExpansion(bytes.length);
  return mayExpand ? encodeM2MBody(text, { ...options, compress: false }) : bytes;
}

/** Only M2M protects a text, so in a session with a key it also carries text that is not a message. */
export function encodeProtected(text: string, context: CodecContext): Uint8Array {
  return attempt(Algorithm.M2M, text, context) ?? encodeM2M(text, context, { schema: 'custom' });
}

/** Returns `undefined` if the codec cannot carry the text; another one may. */
function attempt(algorithm: Algorithm, text: string, context: CodecContext): Uint8Array | undefined {
  try {
    return encodeAs(algorithm, text, context);
  } catch (error) {
    if (isSkipped(error)) return undefined;
    throw error;
  }
}

/** Errors of one codec that do not rule out the others. A text without half a pair may still have the escape of one. */
const SKIPPED: ReadonlySet<string> = new Set([
  'unrepresentable',
  'lone_surrogate',
  'bad_json',
  'json_too_deep',
  'string_too_long',
  'array_too_long',
  'too_many_values',
]);

/** Whether a codec has refused a text that another one may carry. */
export function isSkipped(error: unknown): boolean {
  return error instanceof ProtocolError && SKIPPED.has(error.code);
}

/** The codecs that `auto` chooses from: all negotiated ones that return a text exactly. */
export function candidatesOf(algorithms: readonly Algorithm[], context: CodecContext): Candidate[] {
  const isSecured = context.security !== undefined;
  const encode = (algorithm: Algorithm, text: string) => {
    if (isSecured) return encodeProtected(text, context);
    if (algorithm === Algorithm.NONE && context.isPrefixed === true && prefixOf(text) !== undefined)
      return undefined;
    return attempt(algorithm, text, context);
  };
  const candidates: Candidate[] = algorithms
    .filter((algorithm) => (isSecured ? algorithm === Algorithm.M2M : algorithm !== Algorithm.TOKEN))
    .map((algorithm) => ({ algorithm, encode: (text) => encode(algorithm, text), decodeIsExact: true }));
  // T1 restores a meaning. If nothing else was negotiated, it carries the texts that it returns unchanged.
  if (candidates.length === 0 && !isSecured && algorithms.includes(Algorithm.TOKEN)) {
    const encode = (text: string) => {
      const bytes = attempt(Algorithm.TOKEN, text, context);
      const isExact = bytes !== undefined && decodeTokenBody(bytes, { limits: context.limits }) === text;
      return isExact ? bytes : undefined;
    };
    candidates.push({ algorithm: Algorithm.TOKEN, encode, decodeIsExact: true });
  }
  return candidates;
}
