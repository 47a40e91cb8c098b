import { toHex } from '../base/bytes.js';
import type { EncodingName } from '../base/constants.js';
import { decodeUtf8 } from '../base/text.js';
import { getEncoding } from '../codec/vocabulary/load.js';
import type { Encoding } from '../tokenizer/encoding.js';
import { decodeTokenIds, encodeTokenIds } from '../tokenizer/varints.js';
import { decodeLossily, validUtf8Length } from './content.js';
import type { FieldReader } from './field-reader.js';
import { catchFault, Fault } from './report.js';
import { byteCount, count, quoted } from './wording.js';

/** IDs listed one by one. */
const MAX_LISTED = 40;

/**
 * Reads token IDs as varints (compression document, section 5.4.4), up to the end.
 *
 * @param name the vocabulary; without it, IDs stay numbers.
 * @param isPart the tokens may begin or end inside a character.
 */
export function readTokenIds(reader: FieldReader, name: EncodingName | undefined, isPart: boolean): string {
  const { report, rest, offset: start } = reader;
  report.body = rest.length;
  const encoding = name === undefined ? undefined : getEncoding(name);
  if (name !== undefined && encoding === undefined) report.missing.add(name);
  let ids: Uint32Array = new Uint32Array(0);
  const refused = catchFault(() => {
    ids = decodeTokenIds(rest, report.limits.maxMessageSize);
  });
  listIds(reader, encoding);
  if (refused !== undefined) throw new Fault(refused.error, start + placeOfVarint(rest, refused.error.code));
  report.tokens = ids.length;
  const tokens = count(ids.length, 'token');
  if (encoding === undefined) return `${tokens} of ${name ?? "the session's vocabulary"}`;
  return readText(reader, encoding, ids, isPart, start);
}

function listIds(reader: FieldReader, encoding: Encoding | undefined): void {
  const { bytes } = reader;
  const wantsText = (reader.report.options.preview ?? 0) > 0;
  reader.group('token IDs', () => {
    for (let i = 1; i <= MAX_LISTED; i++) {
      const length = varintLength(bytes, reader.offset);
      if (length === 0) return;
      const [id] = decodeTokenIds(reader.take(`token ${i}`, length)) as unknown as [number];
      reader.annotate(id, wantsText && encoding !== undefined ? textOf(encoding, id) : undefined);
    }
    const more = endOfWhole(bytes, reader.offset) - reader.offset;
    if (more === 0) return;
    reader.take('more tokens', more);
    reader.note('not listed one by one');
  });
}

function readText(
  reader: FieldReader,
  encoding: Encoding,
  ids: Uint32Array,
  isPart: boolean,
  start: number,
): string {
  const { report } = reader;
  const maxBytes = report.limits.maxMessageSize;
  const lengthOf = (count: number) => encoding.byteLength(ids.subarray(0, count), { maxBytes });
  const offsetOf = (index: number) => start + encodeTokenIds(ids, index).length;
  let content: Uint8Array = new Uint8Array(0);
  const refused = catchFault(() => {
    content = encoding.decodeBytes(ids, { maxBytes });
  });
  if (refused !== undefined) {
    const index = firstIndex(ids.length, (i) => catchFault(() => void lengthOf(i + 1)) !== undefined);
    throw new Fault(refused.error, offsetOf(index));
  }
  report.content = content.length;
  const fault = isPart ? undefined : catchFault(() => void decodeUtf8(content));
  if (fault !== undefined) {
    const byte = validUtf8Length(content);
    throw new Fault(fault.error, offsetOf(firstIndex(ids.length, (i) => lengthOf(i + 1) > byte)));
  }
  report.preview = report.show(decodeLossily(content));
  return `${count(ids.length, 'token')} for ${byteCount(content.length)} of text`;
}

function textOf(encoding: Encoding, id: number): string {
  let content: Uint8Array = new Uint8Array(0);
  const unknown = catchFault(() => {
    content = encoding.decodeBytes([id]);
  });
  if (unknown !== undefined) return 'not in this vocabulary';
  const isText = catchFault(() => void decodeUtf8(content)) === undefined;
  return isText ? quoted(decodeLossily(content)) : `part of a character: ${toHex(content, ' ')}`;
}

/** Offset of the varint that the refusal is about. */
function placeOfVarint(bytes: Uint8Array, code: string): number {
  if (code === 'message_too_large') return 0;
  if (code === 'bad_varint') return endOfWhole(bytes, 0);
  let at = bytes.length;
  while (at > 0 && (bytes[at - 1] as number) >= 0x80) at--;
  return at;
}

/** End of the valid varints that begin at `at`. */
function endOfWhole(bytes: Uint8Array, at: number): number {
  let end = at;
  for (let length = varintLength(bytes, end); length > 0; length = varintLength(bytes, end)) end += length;
  return end;
}

const MAX_VARINT_BYTES = 5;

/** Bytes of the varint at an offset; 0 if it is not a 32-bit varint in its shortest form. */
function varintLength(bytes: Uint8Array, at: number): number {
  for (let i = 0; i < MAX_VARINT_BYTES; i++) {
    const byte = bytes[at + i];
    if (byte === undefined) return 0;
    if (byte >= 0x80) continue;
    const isShortest = i === 0 || byte !== 0;
    return isShortest && (i < MAX_VARINT_BYTES - 1 || byte <= 0x0f) ? i + 1 : 0;
  }
  return 0;
}

/** The first of `length` indices for which `holds` is true; it must then be true for all later ones. */
function firstIndex(length: number, holds: (index: number) => boolean): number {
  let [low, high] = [0, length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
