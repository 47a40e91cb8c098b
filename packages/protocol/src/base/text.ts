import { concatBytes } from './bytes.js';
import { ProtocolError } from './errors.js';

/**
 * Strict UTF-8 in both directions. `TextEncoder` would replace lone surrogates with U+FFFD and a plain
 * `TextDecoder` would drop a byte-order mark and patch bad bytes: all three change the sender's text, so none
 * of them happens here.
 */

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Encodes a well-formed string as UTF-8.
 *
 * @throws {ProtocolError} `lone_surrogate` if `text` has no UTF-8 form.
 */
export function encodeUtf8(text: string): Uint8Array<ArrayBuffer> {
  assertWellFormed(text);
  return text.length < LONG ? encoder.encode(text) : encodeLong(text);
}

/** UTF-16 units from which Node's `encode` measures a text first and takes two to three times as long. */
const LONG = 1024;
const LONG_SCRATCH = 1024 * 1024;
let longScratch: Uint8Array<ArrayBuffer> | undefined;

/** Encodes into a scratch buffer, and copies the result from there. */
function encodeLong(text: string): Uint8Array<ArrayBuffer> {
  longScratch ??= new Uint8Array(LONG_SCRATCH);
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  for (let rest = text; rest !== ''; ) {
    const { read, written } = encoder.encodeInto(rest, longScratch);
    pieces.push(longScratch.slice(0, written));
    rest = rest.slice(read);
  }
  return concatBytes(pieces);
}

/**
 * Decodes UTF-8 exactly; a leading byte-order mark stays part of the text.
 *
 * @throws {ProtocolError} `bad_utf8` if the bytes are not valid UTF-8.
 */
export function decodeUtf8(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (cause) {
    throw new ProtocolError('bad_utf8', `${bytes.length} bytes are not valid UTF-8`, { cause });
  }
}

/**
 * Refuses strings with a lone half of a surrogate pair: they have no UTF-8 form.
 *
 * @throws {ProtocolError} `lone_surrogate`.
 */
export function assertWellFormed(text: string): void {
  if (!isWellFormed(text)) {
    throw new ProtocolError(
      'lone_surrogate',
      'text holds half of a surrogate pair, which has no UTF-8 form; repair it before sending',
    );
  }
}

// Encoding into a scratch buffer counts bytes ten times as fast as a loop over the code units.
const scratch = new Uint8Array(4096);

/** The number of bytes of a well-formed `text` in UTF-8. */
export function utf8Length(text: string): number {
  let bytes = 0;
  for (let rest = text; rest !== ''; ) {
    const { read, written } = encoder.encodeInto(rest, scratch);
    bytes += written;
    rest = rest.slice(read);
  }
  return bytes;
}

// `String.prototype.isWellFormed` is in every supported runtime but not in the ES2023 library.
const isWellFormedNative = (String.prototype as { isWellFormed?: (this: string) => boolean }).isWellFormed;

function isWellFormed(text: string): boolean {
  if (isWellFormedNative !== undefined) return isWellFormedNative.call(text);
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0xd800 || unit > 0xdfff) continue;
    const next = text.charCodeAt(i + 1);
    if (unit > 0xdbff || !(next >= 0xdc00 && next <= 0xdfff)) return false;
    i++;
  }
  return true;
}

/** Cuts `text` to at most `maxBytes` of UTF-8, never inside a character. */
export function truncateUtf8(text: string, maxBytes: number): string {
  let bytes = 0;
  let cut = '';
  for (const character of text) {
    const point = character.codePointAt(0) as number;
    bytes += point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    if (bytes > maxBytes) break;
    cut += character;
  }
  return cut;
}

/** Cuts `text` to at most `maxLength` UTF-16 units, never inside a character; lone surrogates become U+FFFD. */
export function truncateUnits(text: string, maxLength: number): string {
  let cut = '';
  for (const character of text) {
    if (cut.length + character.length > maxLength) break;
    const unit = character.length === 1 ? character.charCodeAt(0) : 0;
    cut += unit >= 0xd800 && unit <= 0xdfff ? '\ufffd' : character;
  }
  return cut;
}
