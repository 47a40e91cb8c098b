import { concatBytes } from '../base/bytes.js';
import { ENCODING_IDS, ENCODING_LETTERS, type EncodingName, Prefix } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { FrameKind, frameKind, prefixOf } from '../base/frame-kind.js';
import { decodeUtf8, encodeUtf8 } from '../base/text.js';
import { decodeBase64, encodeBase64 } from '../codec/base64.js';
import { BodyCodec, type CodedBody, type ReceivedBody } from '../codec/body.js';
import { BODY_CHARGE } from '../link/credit.js';

/**
 * Bodies without a link: self-describing frames of `m2m.v1`, and text forms with a prefix (wire document,
 * section 3.2). The coded bytes are the same in all of them; only the wrapping differs.
 */

const M2M_PREFIX = encodeUtf8(Prefix.M2M);

/**
 * Wraps a body in a WebSocket message: binary if the codec has a binary form, else text.
 *
 * @throws {ProtocolError} `unrepresentable` if plain content has no unambiguous text form.
 */
export function encodePlainFrame(body: CodedBody, encoding: EncodingName | null): Uint8Array | string {
  switch (body.codec) {
    case BodyCodec.TOKEN_NATIVE:
      return concatBytes([Uint8Array.of(ENCODING_IDS[negotiated(encoding)]), body.bytes]);
    case BodyCodec.M2M:
      return concatBytes([M2M_PREFIX, body.bytes]);
    case BodyCodec.AVP:
      return body.bytes;
    default:
      return encodeTextForm(body, encoding);
  }
}

/** The text form of a body, for text messages and JSON envelopes. */
export function encodeTextForm(body: CodedBody, encoding: EncodingName | null): string {
  const { codec, bytes } = body;
  switch (codec) {
    case BodyCodec.PLAIN:
      return passthrough(bytes);
    case BodyCodec.TOKEN_NATIVE:
      return `${Prefix.TOKEN_NATIVE}${ENCODING_LETTERS[negotiated(encoding)]}|${encodeBase64(bytes)}`;
    case BodyCodec.M2M:
      return Prefix.M2M + encodeBase64(bytes);
    case BodyCodec.BROTLI:
      return Prefix.BROTLI_V3 + encodeBase64(bytes);
    case BodyCodec.TOKEN:
      return Prefix.TOKEN + decodeUtf8(bytes);
    case BodyCodec.DICTIONARY:
      return Prefix.DICTIONARY + encodeBase64(bytes);
    default:
      throw new ProtocolError('unsupported', 'this body has no text form');
  }
}

/**
 * Reads a binary data frame of `m2m.v1`.
 *
 * @throws {ProtocolError} `bad_frame`, `bad_utf8`, and as {@link decodeTextForm}.
 */
export function decodePlainFrame(bytes: Uint8Array, encoding: EncodingName | null): ReceivedBody {
  switch (frameKind(bytes)) {
    case FrameKind.TOKEN_NATIVE:
      if (encoding === null || bytes[0] !== ENCODING_IDS[encoding]) {
        throw new ProtocolError('bad_frame', 'a TokenNative frame in an encoding that was not negotiated');
      }
      return received(BodyCodec.TOKEN_NATIVE, bytes.subarray(1));
    case FrameKind.AVP:
      return received(BodyCodec.AVP, bytes);
    case FrameKind.TAGGED:
      if (startsWith(bytes, M2M_PREFIX)) return received(BodyCodec.M2M, bytes.subarray(M2M_PREFIX.length));
      return tagged(decodeUtf8(bytes), encoding);
    default:
      throw new ProtocolError('bad_frame', 'not a data frame');
  }
}

/**
 * Reads text content; text without a known prefix is plain content.
 *
 * @throws {ProtocolError} `bad_base64`, `bad_frame`, `lone_surrogate`, `unsupported` for zlib v2.0.
 */
export function decodeTextForm(text: string, encoding: EncodingName | null): ReceivedBody {
  return prefixOf(text) === undefined ? received(BodyCodec.PLAIN, encodeUtf8(text)) : tagged(text, encoding);
}

function tagged(text: string, encoding: EncodingName | null): ReceivedBody {
  const prefix = prefixOf(text);
  const rest = text.slice(prefix?.length);
  switch (prefix) {
    case Prefix.TOKEN_NATIVE:
      if (encoding === null || !rest.startsWith(`${ENCODING_LETTERS[encoding]}|`)) {
        throw new ProtocolError('bad_frame', 'a TokenNative text in an encoding that was not negotiated');
      }
      return received(BodyCodec.TOKEN_NATIVE, decodeBase64(rest.slice(2)));
    case Prefix.M2M:
      return received(BodyCodec.M2M, decodeBase64(rest));
    case Prefix.BROTLI:
    case Prefix.BROTLI_V3:
      return received(BodyCodec.BROTLI, decodeBase64(rest));
    case Prefix.TOKEN:
      return received(BodyCodec.TOKEN, encodeUtf8(rest));
    case Prefix.DICTIONARY:
      return received(BodyCodec.DICTIONARY, decodeBase64(rest));
    case Prefix.ZLIB_V2:
      throw new ProtocolError('unsupported', 'sessions do not accept zlib v2.0 content, which is deprecated');
    default:
      throw new ProtocolError('unknown_prefix', 'a binary frame that begins with # needs a known prefix');
  }
}

function passthrough(bytes: Uint8Array): string {
  let text: string;
  try {
    text = decodeUtf8(bytes);
  } catch (cause) {
    throw new ProtocolError('unrepresentable', 'bytes that are not text need the extension "link"', {
      cause,
    });
  }
  const prefix = prefixOf(text);
  if (prefix === undefined) return text;
  throw new ProtocolError(
    'unrepresentable',
    `content that begins with ${prefix} would be read as that codec; send it with another algorithm`,
  );
}

function received(codec: BodyCodec, bytes: Uint8Array): ReceivedBody {
  return {
    codec,
    bytes,
    originalLength: undefined,
    secret: false,
    metadata: undefined,
    charge: bytes.length + BODY_CHARGE,
  };
}

function negotiated(encoding: EncodingName | null): EncodingName {
  if (encoding === null) throw new ProtocolError('unsupported', 'no encoding was negotiated');
  return encoding;
}

function startsWith(bytes: Uint8Array, prefix: Uint8Array): boolean {
  return bytes.length >= prefix.length && prefix.every((byte, i) => bytes[i] === byte);
}
