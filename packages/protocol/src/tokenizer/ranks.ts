import { ProtocolError } from '../base/errors.js';
import { MAX_SHORT } from './short-key.js';
import type { TokenList } from './token-table.js';

/**
 * Reads the ordinary tokens of a vocabulary, in the order of their ranks, from the formats in which they are
 * published, and writes the format over which their hash is defined.
 */

/** The byte that a character stands for in llama3-tokenizer-js; printable ones stand for themselves. */
const BYTE_OF_CHARACTER = byteOfCharacter();

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const SEXTETS = new Uint8Array(128).fill(0xff);
for (let i = 0; i < BASE64.length; i++) SEXTETS[BASE64.charCodeAt(i)] = i;

const NEWLINE = 0x0a;
const SPACE = 0x20;
const PADDING = 0x3d;
const LONGEST = 255;

/**
 * Reads the format of js-tiktoken: `! 0 IQ== Ig== …`, the rank of the first token and then all tokens in
 * base64.
 *
 * @throws {ProtocolError} `vocabulary_mismatch` if the data has another format.
 */
export function parsePackedRanks(text: string): TokenList {
  if (!text.startsWith('! 0 ')) throw malformed('does not begin with "! 0 "');
  return parseBase64(new TextEncoder().encode(text), 4, false);
}

/**
 * Reads the format of a `.tiktoken` file, and of Llama 3's `tokenizer.model`: `IQ== 0`, one token per line.
 *
 * @throws {ProtocolError} `vocabulary_mismatch` if the data has another format.
 */
export function parseTiktokenFile(file: Uint8Array): TokenList {
  return parseBase64(file, 0, true);
}

/**
 * Reads the format of llama3-tokenizer-js: one string per token, one character per byte.
 *
 * @throws {ProtocolError} `vocabulary_mismatch` if the data has another format.
 */
export function parseByteCharacters(tokens: readonly string[]): TokenList {
  let size = 0;
  for (const token of tokens) size += token.length;
  const bytes = new Uint8Array(size + MAX_SHORT);
  const offsets = new Uint32Array(tokens.length + 1);
  let at = 0;
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i] as string;
    if (token.length === 0 || token.length > LONGEST) throw malformed(`token ${i} has ${token.length} bytes`);
    for (let k = 0; k < token.length; k++) {
      const byte = BYTE_OF_CHARACTER[token.charCodeAt(k)];
      if (byte === undefined || byte > 0xff)
        throw malformed(`token ${i} holds a character that stands for no byte`);
      bytes[at++] = byte;
    }
    offsets[i + 1] = at;
  }
  return { bytes, offsets };
}

/** Writes a list of tokens as a `.tiktoken` file. */
export function writeTiktokenFile({ bytes, offsets }: TokenList): Uint8Array {
  const alphabet = new TextEncoder().encode(BASE64);
  // Base64 takes at most 4/3 of each token plus 4 bytes; rank and separators take at most 9.
  const file = new Uint8Array(Math.ceil(bytes.length / 3) * 4 + offsets.length * 13);
  const digits = new Uint8Array(8).fill(0x30);
  let significant = digits.length - 1;
  let out = 0;
  let at = 0;
  for (let rank = 1; rank < offsets.length; rank++) {
    const end = offsets[rank] as number;
    for (; at < end; at += 3) {
      const left = end - at;
      const bits =
        ((bytes[at] as number) << 16) |
        ((left > 1 ? (bytes[at + 1] as number) : 0) << 8) |
        (left > 2 ? (bytes[at + 2] as number) : 0);
      file[out++] = alphabet[bits >> 18] as number;
      file[out++] = alphabet[(bits >> 12) & 63] as number;
      file[out++] = left > 1 ? (alphabet[(bits >> 6) & 63] as number) : PADDING;
      file[out++] = left > 2 ? (alphabet[bits & 63] as number) : PADDING;
    }
    at = end;
    file[out++] = SPACE;
    for (let i = significant; i < digits.length; i++) file[out++] = digits[i] as number;
    file[out++] = NEWLINE;
    // Counts the next rank in decimal.
    let digit = digits.length - 1;
    for (; digits[digit] === 0x39; digit--) digits[digit] = 0x30;
    digits[digit] = (digits[digit] as number) + 1;
    if (digit < significant) significant = digit;
  }
  return file.subarray(0, out);
}

/**
 * Reads base64 tokens from `from` on, each followed by a space or, if `hasRanks`, by a rank and a newline.
 */
function parseBase64(text: Uint8Array, from: number, hasRanks: boolean): TokenList {
  const bytes = new Uint8Array(Math.ceil((text.length * 3) / 4) + MAX_SHORT);
  // A token takes at least four characters and a separator.
  const offsets = new Uint32Array(Math.ceil(text.length / 5) + 2);
  let count = 0;
  let out = 0;
  let at = from;
  while (at < text.length) {
    const start = out;
    let bits = 0;
    let pending = 0;
    for (; at < text.length; at++) {
      const character = text[at] as number;
      if (character === PADDING) continue;
      const sextet = character < 128 ? (SEXTETS[character] as number) : 0xff;
      if (sextet === 0xff) break;
      bits = (bits << 6) | sextet;
      pending += 6;
      if (pending >= 8) {
        pending -= 8;
        bytes[out++] = bits >> pending;
        bits &= (1 << pending) - 1;
      }
    }
    if (out === start || out - start > LONGEST) throw malformed(`token ${count} has ${out - start} bytes`);
    offsets[++count] = out;
    if (hasRanks) while (at < text.length && text[at] !== NEWLINE) at++;
    else if (at < text.length && text[at] !== SPACE) throw malformed(`token ${count} is not base64`);
    at++;
  }
  return { bytes: bytes.slice(0, out + MAX_SHORT), offsets: offsets.slice(0, count + 1) };
}

function byteOfCharacter(): Uint16Array {
  const bytes = new Uint16Array(0x200).fill(0xffff);
  let next = 0x100;
  for (let byte = 0; byte < 0x100; byte++) {
    const isPrintable =
      (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
    bytes[isPrintable ? byte : next++] = byte;
  }
  return bytes;
}

function malformed(what: string): ProtocolError {
  return new ProtocolError('vocabulary_mismatch', `the rank data ${what}; is another version installed?`);
}
