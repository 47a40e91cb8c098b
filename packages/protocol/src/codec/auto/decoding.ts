import { codecs } from '#codecs';
import { copyBytes } from '../../base/bytes.js';
import { ProtocolError } from '../../base/errors.js';
import type { Limits } from '../../base/limits.js';
import { encodeUtf8 } from '../../base/text.js';
import { decodeTokenIds } from '../../tokenizer/varints.js';
import { BodyCodec, isSized, type ReceivedBody } from '../body.js';
import type { CodecContext } from '../coder.js';
import { decompressBrotli } from '../text/brotli.js';
import { decodeDictionaryBody } from '../text/dictionary.js';
import { largestExpansion } from '../text/expansion.js';
import { decodeTokenBody } from '../text/token.js';
import { DEFAULTS_LENGTH } from '../text/token-tables.js';
import { m2mOptions, vocabularyOf } from './codecs.js';

/**
 * The content of a received body.
 *
 * @param isBounded refuse bodies that expand further than a session allows.
 * @throws {ProtocolError} what the codec throws.
 */
export function decodeBody(body: ReceivedBody, context: CodecContext, isBounded: boolean): Uint8Array {
  const { codec, bytes, originalLength, content, opened } = body;
  // A copy: later messages are decoded against the original.
  if (content !== undefined) return copyBytes(content);
  const limits = isSized(codec) ? boundsOf(body, context.limits, isBounded) : context.limits;
  switch (codec) {
    case BodyCodec.PLAIN:
    case BodyCodec.AVP:
      return bytes;
    case BodyCodec.TOKEN_NATIVE:
      return vocabularyOf(context).decodeBytes(decodeTokenIds(bytes), { maxBytes: limits.maxMessageSize });
    case BodyCodec.M2M: {
      const { decodeM2MBody, decodeOpenedM2MBody } = codecs.m2m.get();
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

/**
 * A body may expand as far as its coded bytes allow, and not beyond the length that it states. In T1 that may be the
 * length of the text that was abbreviated, which may lack the defaults.
 */
function boundsOf(
  { codec, originalLength, bytes }: ReceivedBody,
  limits: Limits,
  isBounded: boolean,
): Limits {
  const largest = isBounded ? largestExpansion(bytes.length) : Infinity;
  // A decompressor fills its window before it notices that a stream is too large.
  if (originalLength !== undefined && originalLength > largest) {
    throw new ProtocolError(
      'decompressed_too_large',
      `${bytes.length} coded bytes state ${originalLength} bytes of content; ${largest} are allowed`,
    );
  }
  const stated = (originalLength ?? Infinity) + (codec === BodyCodec.TOKEN ? DEFAULTS_LENGTH : 0);
  const most = Math.min(stated, largest);
  // The same limit applies to the coded bytes, which may exceed the content of a short message.
  return { ...limits, maxMessageSize: Math.min(limits.maxMessageSize, Math.max(1, most, bytes.length)) };
}

function ofStatedLength(content: Uint8Array, originalLength: number | undefined): Uint8Array {
  if (originalLength === undefined || content.length === originalLength) return content;
  throw new ProtocolError('bad_frame', `a body states ${originalLength} bytes and holds ${content.length}`);
}

/** Bytes that token IDs stand for; 0 if they cannot be read, which is reported when the text is. */
export function lengthOfTokens(bytes: Uint8Array, context: CodecContext): number {
  try {
    return vocabularyOf(context).byteLength(decodeTokenIds(bytes), { maxBytes: Infinity });
  } catch {
    return 0;
  }
}
