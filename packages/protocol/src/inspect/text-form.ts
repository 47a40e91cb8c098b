import { ENCODING_LETTERS, EncodingName, Prefix } from '../base/constants.js';
import { prefixOf } from '../base/frame-kind.js';
import { decodeUtf8, encodeUtf8 } from '../base/text.js';
import { decodeBase64 } from '../codec/base64.js';
import { BodyCodec } from '../codec/body.js';
import { decodeText } from '../codec/text/tagged.js';
import { readBody } from './body.js';
import { showContent } from './content.js';
import type { FieldReader } from './field-reader.js';
import { byteCount, number, sentence } from './wording.js';

/** Text messages: the prefix states the codec (wire document, section 3.2); without one, the text is the content. */

/** Codec names, as the negotiation spells them. */
export const PREFIX_LABELS: Readonly<Record<Prefix, string>> = {
  [Prefix.M2M]: 'M2M',
  [Prefix.TOKEN_NATIVE]: 'TokenNative',
  [Prefix.TOKEN]: 'T1',
  [Prefix.BROTLI]: 'Brotli',
  [Prefix.BROTLI_V3]: 'Brotli',
  [Prefix.DICTIONARY]: 'Dictionary',
  [Prefix.ZLIB_V2]: 'zlib',
};

const ALONE = { encoding: undefined, isPart: false, isTextForm: true, originalLength: undefined };

/** Explains a whole text, which must be everything that `reader` has left. */
export function readTextForm(reader: FieldReader, text: string): string {
  const prefix = prefixOf(text);
  if (prefix === undefined) return readBody(reader, BodyCodec.PLAIN, ALONE);
  if (prefix === Prefix.TOKEN_NATIVE) return readTokenNative(reader);
  reader.text('prefix', prefix.length);
  reader.note(`${PREFIX_LABELS[prefix]} follows`);
  switch (prefix) {
    case Prefix.M2M:
      return readBase64(reader, BodyCodec.M2M);
    case Prefix.BROTLI:
    case Prefix.BROTLI_V3:
      return readBase64(reader, BodyCodec.BROTLI);
    case Prefix.DICTIONARY:
      return readBase64(reader, BodyCodec.DICTIONARY);
    case Prefix.TOKEN:
      return readBody(reader, BodyCodec.TOKEN, ALONE);
    default:
      return readZlib(reader, text);
  }
}

function readTokenNative(reader: FieldReader): string {
  reader.text('prefix', Prefix.TOKEN_NATIVE.length);
  reader.note('token IDs follow');
  const letter = String.fromCharCode(reader.rest[0] ?? 0);
  const encoding = Object.values(EncodingName).find((name) => ENCODING_LETTERS[name] === letter);
  if (encoding === undefined || reader.rest[1] !== '|'.charCodeAt(0)) {
    return reader.fail('bad_frame', `expected C, O or L and "|" after ${Prefix.TOKEN_NATIVE}`);
  }
  reader.text('vocabulary', 2);
  reader.annotate(encoding, 'vocabulary of the token IDs');
  return readBase64(reader, BodyCodec.TOKEN_NATIVE, encoding);
}

/** Reads base64 up to the end. */
function readBase64(reader: FieldReader, codec: BodyCodec, encoding?: EncodingName): string {
  const { report, rest } = reader;
  const length = rest.length;
  const wrong = rest.findIndex((byte, at) => !isBase64Byte(byte, at, rest));
  const decode = (coded: Uint8Array) => decodeBase64(decodeUtf8(coded));
  if (wrong !== -1) reader.check(() => decode(rest), reader.offset + wrong);
  const phrase = reader.coded(
    'base64',
    length,
    decode,
    (inner, field) => {
      field.note = `${byteCount(inner.bytes.length)} when decoded`;
      return readBody(inner, codec, { ...ALONE, encoding });
    },
    // Four characters encode three bytes.
    (inner) => Math.min(length, Math.floor(inner / 3) * 4),
  );
  report.body = length;
  return sentence(phrase, `as ${byteCount(length)} of base64`);
}

/** Padding is at most two characters, at the end. */
function isBase64Byte(byte: number, at: number, all: Uint8Array): boolean {
  if (byte === 0x3d) return at >= all.length - 2;
  return (
    (byte >= 0x30 && byte <= 0x39) ||
    (byte >= 0x41 && byte <= 0x5a) ||
    (byte >= 0x61 && byte <= 0x7a) ||
    byte === 0x2b ||
    byte === 0x2f
  );
}

/** The zlib of old peers (wire document, section 3.6.2), which sessions refuse. */
function readZlib(reader: FieldReader, text: string): string {
  const { report, offset, remaining } = reader;
  report.body = remaining;
  reader.take('base64 of zlib', remaining);
  const content = encodeUtf8(
    reader.check(() => decodeText(text, { zlib: true, limits: report.limits }), offset),
  );
  reader.note(`${byteCount(content.length)} when decoded`);
  showContent(report, content, false);
  return `${byteCount(remaining)} for ${number(content.length)}, deprecated: sessions refuse it`;
}
