import { brotliCompressSync, brotliDecompressSync, constants, deflateSync, inflateSync } from 'node:zlib';
import type { Sample } from './messages.js';
import {
  Algorithm,
  BodyCodec,
  type CodedBody,
  createBodyCoder,
  DEFAULT_LIMITS,
  decodeBrotli,
  decodeDictionary,
  decodeM2M,
  decodeTextForm,
  decodeToken,
  decodeTokenIds,
  type Encoding,
  encodeBrotli,
  encodeDictionary,
  encodeM2M,
  encodeM2MText,
  encodeTextForm,
  encodeToken,
} from './subject.js';

/** A way to encode and decode a message. */
export interface Method {
  readonly name: string;
  /** @throws if this method cannot carry the message. */
  encode(sample: Sample): unknown;
  decode(coded: unknown): unknown;
  /** Bytes on the wire. */
  size(coded: unknown): number;
}

function method<Coded>(
  name: string,
  size: (coded: Coded) => number,
  encode: (sample: Sample) => Coded,
  decode: (coded: Coded) => unknown,
): Method {
  return {
    name,
    encode,
    decode: (coded) => decode(coded as Coded),
    size: (coded) => size(coded as Coded),
  };
}

export const JSON_NAME = 'JSON.stringify';
export const BROTLI_NAME = 'node brotli q5';

const ofText = (text: string) => Buffer.byteLength(text);
const ofBytes = (bytes: Uint8Array) => bytes.length;

/** Alternatives to this protocol. Brotli has the options that suit it best here. */
const baselines: readonly Method[] = [
  method(JSON_NAME, ofText, ({ value }) => JSON.stringify(value), JSON.parse),
  method(
    BROTLI_NAME,
    ofBytes,
    ({ text }) => {
      const bytes = Buffer.from(text);
      return brotliCompressSync(bytes, {
        chunkSize: Math.min(16 * 1024, Math.max(64, bytes.length >> 1)),
        params: {
          [constants.BROTLI_PARAM_QUALITY]: 5,
          [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
        },
      });
    },
    (coded) => brotliDecompressSync(coded).toString(),
  ),
  method(
    'node deflate',
    ofBytes,
    ({ text }) => deflateSync(Buffer.from(text)),
    (coded) => inflateSync(coded).toString(),
  ),
];

/** Every codec of the specification in its defined forms, and the choice of a session's `auto`. */
export function createMethods(encoding: Encoding): readonly Method[] {
  const coder = createSessionCoder(encoding);
  const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  /** TokenNative as a body, without the text form. */
  const tokens = (bytes: Uint8Array): CodedBody => ({
    codec: BodyCodec.TOKEN_NATIVE,
    bytes,
    originalLength: 0,
    secret: false,
    metadata: undefined,
  });
  return [
    ...baselines,
    method(
      'M2M v1',
      ofBytes,
      ({ text }) => encodeM2M(text),
      (coded) => decodeM2M(coded).json,
    ),
    method(
      'M2M v1 text',
      ofText,
      ({ text }) => encodeM2MText(text),
      (coded) => decodeM2M(coded).json,
    ),
    method(
      'TokenNative',
      ofBytes,
      ({ text }) => encoding.encodeVarints(text, 1),
      (coded) => encoding.decode(decodeTokenIds(coded.subarray(1))),
    ),
    method(
      'TokenNative text',
      ofText,
      ({ text }) => encodeTextForm(tokens(encoding.encodeVarints(text)), encoding.name),
      (coded) => encoding.decode(decodeTokenIds(decodeTextForm(coded, encoding.name).bytes)),
    ),
    method(
      'Brotli text',
      ofText,
      ({ text }) => encodeBrotli(text),
      (coded) => decodeBrotli(coded),
    ),
    method(
      'Token T1',
      ofText,
      ({ text }) => encodeToken(text),
      (coded) => decodeToken(coded),
    ),
    method(
      'Dictionary',
      ofText,
      ({ text }) => encodeDictionary(text),
      (coded) => decodeDictionary(coded),
    ),
    method<CodedBody>(
      'auto',
      ({ bytes }) => bytes.length,
      ({ text }) => coder.encode(text, {}),
      (coded) => utf8.decode(coder.decode({ ...coded, charge: 0 })),
    ),
  ];
}

/** The codecs of a session in which both ends support all of them. */
export function createSessionCoder(encoding: Encoding) {
  return createBodyCoder({
    algorithms: Object.values(Algorithm),
    encoding,
    limits: DEFAULT_LIMITS,
    security: undefined,
    yield: () => Promise.resolve(),
  });
}
