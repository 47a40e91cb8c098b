import { ENCODING_IDS, ENCODING_LETTERS, EncodingName, Prefix } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import { DEFAULT_LIMITS, type Limits } from '../../base/limits.js';
import { decodeUtf8 } from '../../base/text.js';
import type { Encoding } from '../../tokenizer/encoding.js';
import { getEncoding } from '../../tokenizer/load.js';
import { decodeTokenIds } from '../../tokenizer/varints.js';
import { decodeBase64, encodeBase64 } from '../base64.js';
import { assertMessageSize, stripPrefix } from './prefix.js';

/**
 * TokenNative (compression document, section 5.4; wire document, section 3.4): the token IDs of a
 * text as varints, behind a byte or a letter that names the vocabulary. The IDs of a frame are read
 * without its vocabulary; their text is not.
 */
export interface TokenNativeFrame {
  readonly encoding: EncodingName;
  /** Any 32-bit numbers: only the vocabulary knows which of them are tokens. */
  readonly ids: Uint32Array;
}

export interface TokenNativeOptions {
  readonly limits?: Partial<Limits> | undefined;
}

export interface DecodeTokenNativeTextOptions extends TokenNativeOptions {
  /** Accept special tokens, which decode to their names. @default false */
  readonly allowSpecial?: boolean | undefined;
}

/** `#` as the first byte of a text form that was sent as a binary message. */
const TAG = 0x23;

const NAMES = Object.values(EncodingName);

/**
 * The binary form: tokenizer byte, then varints. Empty text is the tokenizer byte alone.
 *
 * @param encoding a loaded one, or its name.
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
 * The text form: `#TK|C|` and the varints in base64.
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
 * Reads the IDs of either form; the text form may also arrive as its UTF-8 bytes.
 *
 * @throws {ProtocolError} `message_too_large`; `unknown_prefix`; `bad_frame` for an empty frame or one
 * of an unknown vocabulary; `bad_utf8`, `bad_base64`, `truncated`, `bad_varint`.
 */
export function decodeTokenNative(
  frame: Uint8Array | string,
  options: TokenNativeOptions = {},
): TokenNativeFrame {
  const { limits } = options;
  if (typeof frame === 'string') return decodeTextForm(frame, limits);
  const limit = limits?.maxMessageSize ?? DEFAULT_LIMITS.maxMessageSize;
  if (frame.length > limit) {
    throw new ProtocolError('message_too_large', `a frame of ${frame.length} bytes, the limit is ${limit}`);
  }
  const [first] = frame;
  if (first === TAG) return decodeTextForm(decodeUtf8(frame), limits);
  const encoding = NAMES.find((name) => ENCODING_IDS[name] === first);
  if (encoding === undefined) {
    throw new ProtocolError(
      'bad_frame',
      first === undefined ? 'the frame is empty' : `no tokenizer has the byte ${first}; known are 0, 1 and 2`,
    );
  }
  // A token stands for a byte of text at least.
  return { encoding, ids: decodeTokenIds(frame.subarray(1), limit) };
}

/**
 * The text of either form, whose vocabulary must be loaded.
 *
 * @throws {ProtocolError} as {@link decodeTokenNative}; `vocabulary_not_loaded`; `bad_token`,
 * `bad_utf8` and `decompressed_too_large` for IDs that are no text of this vocabulary.
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
      `expected C, O or L and "|" behind ${Prefix.TOKEN_NATIVE}, not ${JSON.stringify(rest.slice(0, 2))}`,
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
