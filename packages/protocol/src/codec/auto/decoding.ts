import { ProtocolError } from '../../base/errors.js';
import type { Limits } from '../../base/limits.js';
import { encodeUtf8 } from '../../base/text.js';
import { decodeTokenIds } from '../../tokenizer/varints.js';
import { BodyCodec, type ReceivedBody } from '../body.js';
import { decodeM2MBody, decodeOpenedM2MBody } from '../m2m/m2m.js';
import { decompressBrotli } from '../text/brotli.js';
import { decodeDictionaryBody } from '../text/dictionary.js';
import { largestExpansion } from '../text/expansion.js';
import { decodeTokenBody } from '../text/token.js';
import { type CodecContext, m2mOptions, vocabularyOf } from './codecs.js';

/** Decoded bytes that are free: only a larger body is charged for its expansion. */
const MAX_FREE = 16 * 1024;
/** Coded bytes up to which the tokens of a body need not be looked up for that. */
const MAX_FREE_TOKENS = 512;
/** Bytes of metadata that are free, and the bytes of memory per byte of larger metadata, as objects. */
const MAX_FREE_METADATA = 1024;
const MEMORY_OF_METADATA = 8;

/** Codecs whose bodies may expand to any length. */
const EXPANDING: ReadonlySet<BodyCodec> = new Set([
  BodyCodec.M2M,
  BodyCodec.BROTLI,
  BodyCodec.TOKEN,
  BodyCodec.DICTIONARY,
]);

/**
 * The content of a received body.
 *
 * @param isBounded refuse bodies that expand further than a session allows.
 * @throws {ProtocolError} what the codec throws.
 */
export function decodeBody(body: ReceivedBody, context: CodecContext, isBounded: boolean): Uint8Array {
  const { codec, bytes, originalLength, content, opened } = body;
  // A copy: later messages are decoded against the original.
  if (content !== undefined) return content.slice();
  const limits = EXPANDING.has(codec) ? boundsOf(body, context.limits, isBounded) : context.limits;
  switch (codec) {
    case BodyCodec.PLAIN:
    case BodyCodec.AVP:
      return bytes;
    case BodyCodec.TOKEN_NATIVE:
      return vocabularyOf(context).decodeBytes(decodeTokenIds(bytes), { maxBytes: limits.maxMessageSize });
    case BodyCodec.M2M: {
      const message =
        opened === undefined
          ? decodeM2MBody(bytes, { ...m2mOptions(context), limits })
          : decodeOpenedM2MBody(bytes, opened, limits);
      return ofStatedLength(message.bytes, originalLength);
    }
    case BodyCodec.BROTLI:
      return ofStatedLength(decompressBrotli(bytes, limits), originalLength);
    case BodyCodec.TOKEN:
      return encodeUtf8(decodeTokenBody(bytes, { limits }));
    case BodyCodec.DICTIONARY:
      return ofStatedLength(decodeDictionaryBody(bytes, limits), originalLength);
    default:
      throw new ProtocolError('unsupported', `bodies in codec ${codec} cannot be decoded here`);
  }
}

/** A body may expand as far as its coded bytes allow, and not beyond the length that it states. */
function boundsOf({ originalLength, bytes }: ReceivedBody, limits: Limits, isBounded: boolean): Limits {
  const largest = isBounded ? largestExpansion(bytes.length) : Infinity;
  // A decompressor fills its window before it notices that a stream is too large.
  if (originalLength !== undefined && originalLength > largest) {
    throw new ProtocolError(
      'decompressed_too_large',
      `${bytes.length} coded bytes state ${originalLength} bytes of content; ${largest} are allowed`,
    );
  }
  const most = Math.min(originalLength ?? Infinity, largest);
  // The same limit applies to the coded bytes, which may exceed the content of a short message.
  return { ...limits, maxMessageSize: Math.min(limits.maxMessageSize, Math.max(1, most, bytes.length)) };
}

function ofStatedLength(content: Uint8Array, originalLength: number | undefined): Uint8Array {
  if (originalLength === undefined || content.length === originalLength) return content;
  throw new ProtocolError('bad_frame', `a body states ${originalLength} bytes and holds ${content.length}`);
}

/** Most bytes that the content of a received body may have. Decodes nothing. */
export function decodedLength(body: ReceivedBody, context: CodecContext): number {
  const { codec, bytes, originalLength, content } = body;
  if (content !== undefined) return content.length;
  const { maxMessageSize } = context.limits;
  const { length } = bytes;
  let decoded = originalLength ?? length;
  if (codec === BodyCodec.TOKEN_NATIVE) decoded = lengthOfTokens(bytes, context);
  // Without a link, the length is not stated.
  else if (originalLength === undefined && EXPANDING.has(codec)) decoded = maxMessageSize;
  return Math.max(length, Math.min(decoded, maxMessageSize, largestExpansion(length)));
}

/** Bytes that token IDs stand for; 0 if they cannot be read, which is reported when the text is. */
function lengthOfTokens(bytes: Uint8Array, context: CodecContext): number {
  try {
    return vocabularyOf(context).byteLength(decodeTokenIds(bytes), { maxBytes: Infinity });
  } catch {
    return 0;
  }
}

/**
 * Bytes of memory that a received body takes once its content is decoded, as bytes and as text. Small bodies
 * count 0: windows and streams limit their number. Decodes nothing.
 */
export function memoryOf(body: ReceivedBody, context: CodecContext): number {
  const { codec, bytes, originalLength, content, metadata } = body;
  // True for most messages.
  const stated = content?.length ?? originalLength ?? bytes.length;
  if (stated <= MAX_FREE_TOKENS && metadata === undefined) return 0;
  // A token is at most 128 bytes long.
  const isFree = codec === BodyCodec.TOKEN_NATIVE && bytes.length <= MAX_FREE_TOKENS;
  const decoded = isFree ? 0 : decodedLength(body, context);
  const described = metadata === undefined || metadata.length <= MAX_FREE_METADATA ? 0 : metadata.length;
  return (decoded <= MAX_FREE ? 0 : 2 * decoded) + MEMORY_OF_METADATA * described;
}
