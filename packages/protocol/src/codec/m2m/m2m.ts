import { platform } from '#platform';
import { Prefix } from '../../base/constants.js';
import { ProtocolError, toProtocolError } from '../../base/errors.js';
import { assertJsonBounds, assertPairedEscapes, parseJson } from '../../base/json.js';
import { DEFAULT_LIMITS, type Limits, resolveLimits } from '../../base/limits.js';
import { assertWellFormed, decodeUtf8, encodeUtf8 } from '../../base/text.js';
import { decodeBase64, encodeBase64 } from '../base64.js';
import { type CostTable, DEFAULT_COST_TABLE } from './cost.js';
import type { M2MFields, M2MHeader, M2MSchema } from './fields.js';
import { encodeHeader, readFixedHeader, readHeader } from './header.js';
import { isM2M, PREFIX_BYTES } from './prefix.js';
import { detectSchema, routingFields } from './routing.js';
import { type M2MSecurity, protect, protectionLength, unprotect } from './security.js';

/**
 * M2M v1 (wire document, section 3.3): a JSON message after a header that a router can read without unpacking
 * the message. The text is sent as given, byte for byte.
 *
 *     #M2M|1| header payload_len:4 crc32:4 payload
 *
 * The text form has base64 of everything after the prefix. The `…Body` functions work on that part alone, for
 * carriers that mark M2M in another way.
 */

/** Content of at least this many bytes is compressed. */
const COMPRESSION_THRESHOLD = 100;
const BROTLI_QUALITY = 5;
/** `payload_len` and `crc32`. */
const TAIL_HEAD_LENGTH = 8;
const PREFIX_LENGTH = PREFIX_BYTES.length;
// Content is only needed during encoding; allocating a buffer each time costs more than filling this one.
const scratch = new Uint8Array(64 * 1024);
const encoder = new TextEncoder();

/** Base64 digits of the first three bytes, `header_len` among them. */
const FIRST_GROUP = 4;

export interface M2MEncodeOptions {
  /** The kind of message. @default 'request' or 'response', by the shape of the message */
  readonly schema?: M2MSchema;
  /** @default none */
  readonly security?: M2MSecurity;
  /** @default DEFAULT_LIMITS */
  readonly limits?: Partial<Limits>;
  /** Whether to compress the payload with Brotli. @default true from 100 bytes on */
  readonly compress?: boolean;
  /** Prices for the cost estimate. @default DEFAULT_COST_TABLE */
  readonly costTable?: CostTable;
  /**
   * AEAD only, 12 bytes, for tests: a nonce used twice with the same key breaks the protection.
   * @default random
   */
  readonly nonce?: Uint8Array;
}

export interface M2MDecodeOptions {
  /**
   * Requires this protection of the frame and refuses any other.
   * @default accepts only frames without protection
   */
  readonly security?: M2MSecurity;
  /** @default DEFAULT_LIMITS */
  readonly limits?: Partial<Limits>;
}

export interface M2MMessage {
  readonly header: M2MHeader;
  /** The text exactly as it was encoded; JSON for every schema except 'custom'. */
  readonly json: string;
  /** The same as UTF-8. For an uncompressed payload, a view of the decoded frame. */
  readonly bytes: Uint8Array;
  /**
   * Parses the text, at each call. The result is not checked to be a `T`.
   *
   * @throws {ProtocolError} `bad_json`; with the schema 'custom' also the codes of exceeded limits.
   */
  value<T = unknown>(): T;
}

/**
 * Encodes a message in its binary form, prefix included.
 *
 * @param json JSON text, which is sent unchanged, or a value for `JSON.stringify`. With the schema 'custom',
 * any text.
 * @throws {ProtocolError} `bad_json`, `lone_surrogate`, `invalid_argument` for a value without a JSON form;
 * `unrepresentable` if the header cannot describe the message (a role other than the five known, a model or
 * id over 255 bytes); the codes of exceeded limits; `invalid_key`; `codec_not_loaded`.
 */
export function encodeM2M(json: string | object, options: M2MEncodeOptions = {}): Uint8Array<ArrayBuffer> {
  const body = packBody(json, options, PREFIX_LENGTH);
  body.set(PREFIX_BYTES);
  return body;
}

/** {@link encodeM2M} in the text form: the prefix and padded base64. */
export function encodeM2MText(json: string | object, options: M2MEncodeOptions = {}): string {
  const limits = limitsOf(options.limits);
  const text = Prefix.M2M + encodeBase64(packBody(json, options, 0));
  assertMessageLength(text.length, limits);
  return text;
}

/** {@link encodeM2M} without the prefix. */
export function encodeM2MBody(
  json: string | object,
  options: M2MEncodeOptions = {},
): Uint8Array<ArrayBuffer> {
  return packBody(json, options, 0);
}

/**
 * Decodes a frame: the binary form from bytes, the text form from a string. It returns a message only if that
 * is complete, authentic if required, and within all limits.
 *
 * @throws {ProtocolError} `unknown_prefix`; `bad_base64`; `truncated`, `trailing_bytes`, `bad_header`,
 * `bad_varint`, `unknown_schema`, `unknown_security_mode`; `security_required`, `authentication_failed`,
 * `invalid_key`; `bad_compression`, `bad_checksum`, `bad_utf8`; the codes of exceeded limits;
 * `codec_not_loaded`.
 */
export function decodeM2M(frame: Uint8Array | string, options: M2MDecodeOptions = {}): M2MMessage {
  const limits = limitsOf(options.limits);
  assertMessageLength(frame.length, limits);
  return unpackBody(typeof frame === 'string' ? bodyOfText(frame) : bodyOfFrame(frame), options, limits);
}

/**
 * Checks the protection of a binary frame, given without its prefix, and unpacks nothing.
 *
 * @returns the authenticated tail, decrypted with AEAD, for {@link decodeOpenedM2MBody}.
 * @throws {ProtocolError} `security_required`, `authentication_failed`, and for a malformed header.
 */
export function openM2MBody(body: Uint8Array, security: M2MSecurity): Uint8Array {
  return unprotect(body, readFixedHeader(body), security);
}

/** {@link decodeM2MBody} of a body that {@link openM2MBody} has opened. */
export function decodeOpenedM2MBody(body: Uint8Array, opened: Uint8Array, limits: Limits): M2MMessage {
  return unpackTail(readHeader(body), opened, limits);
}

/** {@link decodeM2M} for a binary frame without its prefix; nothing is copied. */
export function decodeM2MBody(body: Uint8Array, options: M2MDecodeOptions = {}): M2MMessage {
  const limits = limitsOf(options.limits);
  assertMessageLength(body.length, limits);
  return unpackBody(body, options, limits);
}

/**
 * Reads only the header of a frame. It does not decompress, decrypt or check the payload, so the result is
 * not authenticated. Of the text form it decodes only the header.
 *
 * @throws {ProtocolError} `unknown_prefix`, `bad_base64`, `truncated`, `bad_header`, `bad_varint`,
 * `bad_utf8`, `unknown_schema`, `unknown_security_mode`.
 */
export function readM2MHeader(frame: Uint8Array | string): M2MHeader {
  if (typeof frame !== 'string') return readHeader(bodyOfFrame(frame));
  const digits = digitsOf(frame);
  const first = decodeBase64(digits.slice(0, FIRST_GROUP));
  const headerLength = (first[0] ?? 0) | ((first[1] ?? 0) << 8);
  return readHeader(decodeBase64(digits.slice(0, Math.ceil(headerLength / 3) * FIRST_GROUP)));
}

/** {@link readM2MHeader} for a binary frame without its prefix. */
export function readM2MBodyHeader(body: Uint8Array): M2MHeader {
  return readHeader(body);
}

// --- encoding

/** Encodes a body after `room` bytes for the caller to fill in. */
function packBody(json: string | object, options: M2MEncodeOptions, room: number): Uint8Array<ArrayBuffer> {
  const { security } = options;
  const limits = limitsOf(options.limits);
  const text = typeof json === 'string' ? json : stringify(json);
  // UTF-8 never takes fewer bytes than the text has code units.
  assertMessageLength(text.length, limits);
  const fields = describe(text, options, limits);
  const content = encodeContent(text);
  assertMessageLength(content.length, limits);

  const compressed = options.compress ?? content.length >= COMPRESSION_THRESHOLD;
  const payload = compressed ? platform.brotliCompress(content, BROTLI_QUALITY) : content;
  const header = encodeHeader(fields, security?.mode ?? 'NONE', compressed);

  const tailAt = room + header.length;
  const frame = new Uint8Array(tailAt + TAIL_HEAD_LENGTH + payload.length + protectionLength(security));
  assertMessageLength(frame.length, limits);
  frame.set(header, room);
  const view = new DataView(frame.buffer);
  view.setUint32(tailAt, payload.length, true);
  view.setUint32(tailAt + 4, platform.crc32(content), true);
  frame.set(payload, tailAt + TAIL_HEAD_LENGTH);
  protect(frame.subarray(room), header.length, security, options.nonce);
  return frame;
}

function stringify(value: object): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    throw toProtocolError(cause, 'invalid_argument', 'the value cannot be written as JSON');
  }
  if (text === undefined) throw new ProtocolError('invalid_argument', 'the value has no JSON form');
  return text;
}

/** The header fields for `text`, after checking that it is valid. */
function describe(text: string, options: M2MEncodeOptions, limits: Limits): M2MFields {
  if (options.schema === 'custom') return { schema: 'custom', flags: 0 };
  const message = parseJson(text, limits);
  assertPairedEscapes(text);
  const schema = options.schema ?? detectSchema(message);
  return routingFields(message, schema, options.costTable ?? DEFAULT_COST_TABLE);
}

/** `text` in UTF-8, usually in a shared buffer: valid until the next call. */
function encodeContent(text: string): Uint8Array {
  assertWellFormed(text);
  if (text.length > scratch.length) return encodeUtf8(text);
  const { read, written } = encoder.encodeInto(text, scratch);
  return read === text.length ? scratch.subarray(0, written) : encodeUtf8(text);
}

// --- decoding

function unpackBody(body: Uint8Array, options: M2MDecodeOptions, limits: Limits): M2MMessage {
  const fixed = readFixedHeader(body);
  const tail = unprotect(body, fixed, options.security);
  return unpackTail(readHeader(body, fixed), tail, limits);
}

function unpackTail(header: M2MHeader, tail: Uint8Array, limits: Limits): M2MMessage {
  if (tail.length < TAIL_HEAD_LENGTH) {
    throw new ProtocolError(
      'truncated',
      `${tail.length} bytes follow the M2M header, but payload length and CRC need ${TAIL_HEAD_LENGTH}`,
    );
  }
  const view = new DataView(tail.buffer, tail.byteOffset, tail.length);
  // Not `subarray`, which for a Buffer would return another Buffer.
  const payload = new Uint8Array(
    tail.buffer,
    tail.byteOffset + TAIL_HEAD_LENGTH,
    tail.length - TAIL_HEAD_LENGTH,
  );
  const payloadLength = view.getUint32(0, true);
  if (payloadLength !== payload.length) {
    throw new ProtocolError(
      payloadLength > payload.length ? 'truncated' : 'trailing_bytes',
      `the M2M frame declares a payload of ${payloadLength} bytes, but has ${payload.length}`,
    );
  }
  const bytes = header.compressed ? platform.brotliDecompress(payload, limits.maxMessageSize) : payload;
  if (platform.crc32(bytes) !== view.getUint32(4, true)) {
    throw new ProtocolError('bad_checksum', 'the CRC of the M2M payload does not match its content');
  }
  const json = decodeUtf8(bytes);
  if (header.schema !== 'custom') assertJsonBounds(json, limits);
  return { header, json, bytes, value: <T>() => parseJson<T>(json, limits) };
}

function bodyOfFrame(frame: Uint8Array): Uint8Array {
  if (!isM2M(frame)) throw notM2M();
  return frame.subarray(PREFIX_LENGTH);
}

function bodyOfText(frame: string): Uint8Array {
  return decodeBase64(digitsOf(frame));
}

function digitsOf(frame: string): string {
  if (!isM2M(frame)) throw notM2M();
  return frame.slice(PREFIX_LENGTH);
}

function notM2M(): ProtocolError {
  return new ProtocolError('unknown_prefix', `the frame does not begin with ${Prefix.M2M}`);
}

// --- limits

const resolved = new WeakMap<Partial<Limits>, Limits>();

/** Resolves frozen limits, such as those of a session, only once per object. */
function limitsOf(limits: Partial<Limits> | undefined): Limits {
  if (limits === undefined) return DEFAULT_LIMITS;
  let known = resolved.get(limits);
  if (known === undefined) {
    known = resolveLimits(limits);
    if (Object.isFrozen(limits)) resolved.set(limits, known);
  }
  return known;
}

function assertMessageLength(length: number, limits: Limits): void {
  if (length > limits.maxMessageSize) {
    throw new ProtocolError(
      'message_too_large',
      `the message has ${length} bytes, at most ${limits.maxMessageSize} are allowed`,
    );
  }
}
