import { ProtocolError } from '../../base/errors.js';
import { encodeUtf8 } from '../../base/text.js';

/** Fields of a form, as in the common frameworks. */
export const MAX_FIELDS = 1_000;
/** Bytes of the heads of all fields together: names, file names and types. */
export const MAX_HEADS = 256 * 1024;

/**
 * Counts the fields of a form while it passes by, in pieces of any size. Parsers take the time of the event loop and
 * memory for each field, and a form that is compressed has hundreds of thousands of them for a few bytes. It finds at least
 * the fields that any parser finds.
 */
export interface FormBounds {
  /** Must be called with each piece before a parser gets it. @returns the bound that the form exceeds. */
  push(piece: Uint8Array): string | undefined;
}

/**
 * The bounds of a body with this content type; `undefined` if it is not a form.
 *
 * @throws {ProtocolError} `bad_message` for a form whose boundary parsers may read differently.
 */
export function formBoundsOf(type: string | undefined): FormBounds | undefined {
  if (type === undefined || !IS_FORM.test(type)) return undefined;
  // Several types in one header: parsers choose one of them.
  if (type.includes(',')) throw new ProtocolError('bad_message', 'the content type of a form is ambiguous');
  if (!/multipart\/form-data/i.test(type)) return new PairBounds();
  const stated = type.split(';').flatMap((each) => BOUNDARY.exec(each.trim())?.slice(1) ?? []);
  const boundary = stated[0];
  if (stated.length !== 1 || boundary === undefined || !PLAIN.test(boundary)) {
    throw new ProtocolError('bad_message', 'the boundary of the form is not plain');
  }
  return new PartBounds(boundary.replaceAll('"', ''));
}

const IS_FORM = /multipart\/form-data|application\/x-www-form-urlencoded/i;
const BOUNDARY = /^boundary\s*=\s*(.*)$/i;
const PLAIN = /^(?:[\w'()+.:=?/-]{1,70}|"[\w'()+.:=?/-]{1,70}")$/;

const FIELDS = `at most ${MAX_FIELDS} fields`;
const HEADS = `at most ${MAX_HEADS} bytes of names in a form`;

const AMPERSAND = 0x26;

class PairBounds implements FormBounds {
  #fields = 1;

  push(piece: Uint8Array): string | undefined {
    for (let at = piece.indexOf(AMPERSAND); at >= 0; at = piece.indexOf(AMPERSAND, at + 1)) {
      if (++this.#fields > MAX_FIELDS) return FIELDS;
    }
    return undefined;
  }
}

const CR = 0x0d;
const LF = 0x0a;

class PartBounds implements FormBounds {
  readonly #delimiter: Uint8Array;
  /** How many bytes of a delimiter are left if the next byte differs, for each number of them that have passed. */
  readonly #rests: Uint8Array;
  /** Bytes of a delimiter that have passed. */
  #matched = 0;
  #delimiters = 0;
  /** Between a delimiter and an empty line. */
  #isHead = false;
  /** Bytes of an empty line that have passed. */
  #ended = 0;
  #heads = 0;

  constructor(boundary: string) {
    this.#delimiter = encodeUtf8(`--${boundary}`);
    this.#rests = restsOf(this.#delimiter);
  }

  push(piece: Uint8Array): string | undefined {
    const delimiter = this.#delimiter;
    const rests = this.#rests;
    let matched = this.#matched;
    for (const byte of piece) {
      if (this.#isHead) {
        if (++this.#heads > MAX_HEADS) return HEADS;
        this.#passHead(byte);
      }
      while (matched > 0 && byte !== delimiter[matched]) matched = rests[matched] as number;
      if (byte !== delimiter[matched] || ++matched < delimiter.length) continue;
      matched = 0;
      this.#isHead = true;
      this.#ended = 0;
      // One follows the last field.
      if (++this.#delimiters > MAX_FIELDS + 1) return FIELDS;
    }
    this.#matched = matched;
    return undefined;
  }

  #passHead(byte: number): void {
    const isNext = byte === (this.#ended % 2 === 0 ? CR : LF);
    this.#ended = isNext ? this.#ended + 1 : byte === CR ? 1 : 0;
    if (this.#ended === 4) this.#isHead = false;
  }
}

/** The search of Knuth, Morris and Pratt never goes back in a piece, so no content makes it slow. */
function restsOf(pattern: Uint8Array): Uint8Array {
  const rests = new Uint8Array(pattern.length);
  for (let at = 1, rest = 0; at < pattern.length; at++) {
    rests[at] = rest;
    while (rest > 0 && pattern[at] !== pattern[rest]) rest = rests[rest] as number;
    if (pattern[at] === pattern[rest]) rest++;
  }
  return rests;
}
