import { Prefix } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import { DEFAULT_LIMITS, type Limits } from '../../base/limits.js';
import { decodeUtf8 } from '../../base/text.js';
import { decodeBase64, encodeBase64 } from '../base64.js';
import { assertMessageSize, encodeMessage, stripPrefix } from './text-form.js';

/**
 * Dictionary (compression document, section 5.6): eight common pieces of chat JSON become one byte each, from
 * 0x80 up. The document provides no way to write any other byte above 0x7F, so only ASCII content can be
 * encoded.
 */

export interface DictionaryOptions {
  readonly limits?: Partial<Limits> | undefined;
}

const FIRST_CODE = 0x80;
const QUOTE = 0x22;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

export const PATTERNS = [
  '{"role":"user","content":"',
  '{"role":"assistant","content":"',
  '{"role":"system","content":"',
  '"}',
  '"},',
  '"}]',
  '{"messages":[',
  '{"model":"',
].map((pattern) => Uint8Array.from(pattern, (character) => character.charCodeAt(0)));

interface Entry {
  readonly pattern: Uint8Array;
  readonly code: number;
}

/** Longest first: no pattern begins inside another, so the longest match is always the best. */
const ENTRIES: readonly Entry[] = PATTERNS.map((pattern, code) => ({
  pattern,
  code: FIRST_CODE + code,
})).sort((a, b) => b.pattern.length - a.pattern.length);
const AT_BRACE = ENTRIES.filter(({ pattern }) => pattern[0] === OPEN_BRACE);
const AT_QUOTE = ENTRIES.filter(({ pattern }) => pattern[0] === QUOTE);

/** The number of bytes that each byte stands for; 0 if it is not a code. */
const DECODED_LENGTHS = Uint8Array.from({ length: 0x100 }, (_, byte) =>
  byte < FIRST_CODE ? 1 : (PATTERNS[byte - FIRST_CODE]?.length ?? 0),
);

/**
 * @throws {ProtocolError} `unrepresentable` if `text` is not ASCII; `message_too_large`, `lone_surrogate`.
 */
export function encodeDictionary(text: string, { limits }: DictionaryOptions = {}): string {
  const wire = Prefix.DICTIONARY + encodeBase64(encodeDictionaryBody(encodeMessage(text, limits)));
  assertMessageSize(wire, limits);
  return wire;
}

/**
 * @throws {ProtocolError} `unknown_prefix`, `bad_base64`, `bad_compression`, `message_too_large`,
 * `decompressed_too_large`.
 */
export function decodeDictionary(wire: string, { limits }: DictionaryOptions = {}): string {
  assertMessageSize(wire, limits);
  return decodeUtf8(decodeDictionaryBody(decodeBase64(stripPrefix(wire, Prefix.DICTIONARY)), limits));
}

/**
 * Replaces the patterns in ASCII bytes by their codes. The result is never longer than the input.
 *
 * @throws {ProtocolError} `unrepresentable` if a byte is above 0x7F.
 */
export function encodeDictionaryBody(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const body = new Uint8Array(bytes.length);
  let length = 0;
  for (let at = 0; at < bytes.length; ) {
    const byte = bytes[at]!;
    if (byte >= FIRST_CODE) {
      throw new ProtocolError(
        'unrepresentable',
        `the dictionary codec only carries ASCII, and byte ${at} is 0x${byte.toString(16)}; use another codec`,
      );
    }
    // Check two bytes first: few positions match both, so few need a lookup.
    const next = bytes[at + 1];
    let entry: Entry | undefined;
    if (byte === QUOTE && next === CLOSE_BRACE) entry = entryAt(bytes, at, AT_QUOTE);
    else if (byte === OPEN_BRACE && next === QUOTE) entry = entryAt(bytes, at, AT_BRACE);
    if (entry === undefined) {
      body[length++] = byte;
      at++;
    } else {
      body[length++] = entry.code;
      at += entry.pattern.length;
    }
  }
  return body.slice(0, length);
}

/**
 * Replaces the codes by their patterns.
 *
 * @returns ASCII bytes.
 * @throws {ProtocolError} `bad_compression` if a byte is not a code, `decompressed_too_large`.
 */
export function decodeDictionaryBody(
  body: Uint8Array,
  limits: Partial<Limits> = DEFAULT_LIMITS,
): Uint8Array<ArrayBuffer> {
  const limit = limits.maxMessageSize ?? DEFAULT_LIMITS.maxMessageSize;
  // A byte may stand for up to 31, so compute the size before allocating anything.
  let size = 0;
  for (let at = 0; at < body.length; at++) {
    const length = DECODED_LENGTHS[body[at]!]!;
    if (length === 0) {
      throw new ProtocolError(
        'bad_compression',
        `0x${body[at]!.toString(16)} is not a code of the dictionary`,
      );
    }
    size += length;
  }
  if (size > limit) {
    throw new ProtocolError(
      'decompressed_too_large',
      `dictionary data expands to ${size} bytes, the limit is ${limit}`,
    );
  }
  const bytes = new Uint8Array(size);
  let to = 0;
  for (let at = 0; at < body.length; at++) {
    const byte = body[at]!;
    if (byte < FIRST_CODE) {
      bytes[to++] = byte;
      continue;
    }
    const pattern = PATTERNS[byte - FIRST_CODE]!;
    for (let i = 0; i < pattern.length; i++) bytes[to++] = pattern[i]!;
  }
  return bytes;
}

function entryAt(bytes: Uint8Array, at: number, entries: readonly Entry[]): Entry | undefined {
  for (const entry of entries) {
    const { pattern } = entry;
    let matched = 2;
    while (matched < pattern.length && bytes[at + matched] === pattern[matched]) matched++;
    if (matched === pattern.length) return entry;
  }
  return undefined;
}
