import { ENCODING_IDS, ENCODING_LETTERS, EncodingName, Prefix } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import { DEFAULT_LIMITS, type Limits } from '../../base/limits.js';
import { decodeUtf8 } from '../../base/text.js';
import type { Encoding } from '../../tokenizer/encoding.js';
import { decodeTokenIds } from '../../tokenizer/varints.js';
import { decodeBase64, encodeBase64 } from '../base64.js';
import { getEncoding } from '../vocabulary/load.js';
import { assertMessageSize, stripPrefix } from './text-form.js';

/**
 * TokenNative (compression document, section 5.4; wire document, section 3.4): the token IDs of a text as
 * varints, after a byte or a letter that names the vocabulary. The IDs of a frame can be read without its
 * vocabulary, their text cannot.
 */
export interface TokenNativeFrame {
  readonly encoding: EncodingName;
  /** Any 32-bit numbers; they are not checked against the vocabulary. */
  readonly ids: Uint32Array;
}

export interface TokenNativeOptions {
  readonly limits?: Partial<Limits> | undefined;
}

export interface DecodeTokenNativeTextOptions extends TokenNativeOptions {
  /** Whether to accept special tokens, which decode to their names. @default false */
  readonly allowSpecial?: boolean | undefined;
}

/** `#`, the first byte of a text form that was sent as a binary message. */
const TAG = 0x23;

const NAMES = Object.values(EncodingName);

/**
 * Encodes the binary form: the tokenizer byte, then varints. For an empty text it is the tokenizer byte
 * alone.
 *
 * @param encoding a loaded encoding, or the name of one.
 * @throws {ProtocolError} `message_too_large`, `lone_surrogate`, `vocabulary_not_loaded`.
 */
export function encodeTokenNative(
  text: string,
  encoding: Encoding | EncodingName,
  options: TokenNativeOptions = {},
): Uint8Array<ArrayBuffer> {
  const loaded = loadedEncoding(encoding);
  assertMessageSize(text, options.limits);
  const frame = loaded.encodeVarints(text, 1);
  frame[0] = loaded.id;
  return frame;
}

/**
 * Encodes the text form: `#TK|C|`, for example, and the varints in base64.
 *
 * @throws {ProtocolError} as {@link encodeTokenNative}.
 */
export function encodeTokenNativeText(
  text: string,
  encoding: Encoding | EncodingName,
  options: TokenNativeOptions = {},
): string {
  const loaded = loadedEncoding(encoding);
  assertMessageSize(text, options.limits);
  const wire = `${Prefix.TOKEN_NATIVE}${ENCODING_LETTERS[loaded.name]}|${encodeBase64(loaded.encodeVarints(text))}`;
  assertMessageSize(wire, options.limits);
  return wire;
}

/**
 * Reads the IDs of either form. The text form may also be given as its UTF-8 bytes.
 *
 * @throws {ProtocolError} `message_too_large`; `unknown_prefix`; `bad_frame` for an empty frame or an unknown
 * vocabulary; `bad_utf8`, `bad_base64`, `truncated`, `bad_varint`.
 */
export function decodeTokenNative(
  frame: Uint8Array | string,
  options: TokenNativeOptions = {},
): TokenNativeFrame {
  const { limits } = options;
  if (typeof frame === 'string') return decodeTextForm(frame, limits);
  const limit = limits?.maxMessageSize ?? DEFAULT_LIMITS.maxMessageSize;
  if (frame.length > limit) {
    throw new ProtocolError(
      'message_too_large',
      `the frame has ${frame.length} bytes, the limit is ${limit}`,
    );
  }
  const [first] = frame;
  if (first === TAG) return decodeTextForm(decodeUtf8(frame), limits);
  const encoding = NAMES.find((name) => ENCODING_IDS[name] === first);
  if (encoding === undefined) {
    throw new ProtocolError(
      'bad_frame',
      first === undefined ? 'the frame is empty' : `unknown tokenizer byte ${first}; known bytes: 0, 1, 2`,
    );
  }
  // A token stands for at least one byte of text.
  return { encoding, ids: decodeTokenIds(frame.subarray(1), limit) };
}

/**
 * Decodes the text of either form. Its vocabulary must be loaded.
 *
 * @throws {ProtocolError} as {@link decodeTokenNative}; `vocabulary_not_loaded`; `bad_token`, `bad_utf8` and
 * `decompressed_too_large` for IDs that are not valid text in this vocabulary.
 */
export function decodeTokenNativeText(
  frame: Uint8Array | string,
  options: DecodeTokenNativeTextOptions = {},
): string {
  const { encoding, ids } = decodeTokenNative(frame, options);
  return loadedEncoding(encoding).decode(ids, {
    allowSpecial: options.allowSpecial,
    maxBytes: options.limits?.maxMessageSize,
  });
}

function decodeTextForm(wire: string, limits: Partial<Limits> | undefined): TokenNativeFrame {
  assertMessageSize(wire, limits);
  const rest = stripPrefix(wire, Prefix.TOKEN_NATIVE);
  const encoding = rest[1] === '|' ? NAMES.find((name) => ENCODING_LETTERS[name] === rest[0]) : undefined;
  if (encoding === undefined) {
    throw new ProtocolError(
      'bad_frame',
      `expected C, O or L and "|" after ${Prefix.TOKEN_NATIVE}, not ${JSON.stringify(rest.slice(0, 2))}`,
    );
  }
  return { encoding, ids: decodeTokenIds(decodeBase64(rest.slice(2)), limits?.maxMessageSize) };
}

function loadedEncoding(encoding: Encoding | EncodingName): Encoding {
  const loaded = typeof encoding === 'string' ? getEncoding(encoding) : encoding;
  if (loaded === undefined) {
    throw new ProtocolError(
      'vocabulary_not_loaded',
      `${JSON.stringify(encoding)} is not loaded; await loadEncoding(${JSON.stringify(encoding)}) first`,
    );
  }
  return loaded;
}
