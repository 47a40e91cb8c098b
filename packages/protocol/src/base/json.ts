import { ProtocolError } from './errors.js';
import { DEFAULT_LIMITS, type Limits, statedJsonLimits } from './limits.js';

/**
 * JSON within bounds (wire document, section 3.8; docs/design/limits-and-security.md). One pass over the text, without recursion and before any
 * value is built, finds nesting, strings, arrays and totals beyond the limits; `JSON.parse` does the rest.
 * The pass does not judge grammar: up to the first error it sees exactly the structure that `JSON.parse`
 * sees, and after that error `JSON.parse` builds nothing.
 */

export type JsonLimits = Pick<
  Limits,
  'maxJsonDepth' | 'maxStringLength' | 'maxArrayLength' | 'maxJsonValues'
>;

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const LETTER_U = 0x75;

/**
 * Parses JSON text within limits. If a key occurs twice, the later value wins, as with `JSON.parse`.
 *
 * @param text JSON text; the caller has checked its size.
 * @returns the value, which is not checked to be a `T`.
 * @throws {ProtocolError} `bad_json`, `json_too_deep`, `string_too_long`, `array_too_long`,
 * `too_many_values`.
 */
export function parseJson<T = unknown>(text: string, limits: JsonLimits = DEFAULT_LIMITS): T {
  assertJsonBounds(text, limits);
  return parse(text);
}

export interface ContentOptions {
  /** Bytes that the peer has sent for the text. */
  readonly paid: number;
  /** Receives the bytes of memory that the value will take, about, before any of it is built. */
  readonly onMemory?: ((bytes: number) => void) | undefined;
}

/**
 * Parses the content of a message. Values are counted if the application has set limits; by default, memory is
 * charged in place of counts.
 *
 * @throws {ProtocolError} as {@link parseJson}; `too_many_values` if the value would take more memory than the message may
 * ({@link memoryOfContent}).
 */
export function parseContent<T = unknown>(
  text: string,
  limits: Limits,
  { paid, onMemory }: ContentOptions,
): T {
  const memory = scan(text, statedJsonLimits(limits), memoryOfContent(limits, paid));
  onMemory?.(memory);
  return parse(text);
}

/** The share of the message limit that any value may take, however few bytes the peer has sent for it. */
const UNPAID_PART = 1 / 2;
/** Bytes of memory for each byte that the peer has sent. */
const PAID_FACTOR = 32;
/** Times the message limit: the most that any value may take. */
const MOST_FACTOR = 2;

/** Bytes of memory that a parsed message may take. @param paid bytes that the peer has sent for it. */
export function memoryOfContent({ maxMessageSize }: Pick<Limits, 'maxMessageSize'>, paid: number): number {
  return Math.min(maxMessageSize * UNPAID_PART + PAID_FACTOR * paid, maxMessageSize * MOST_FACTOR);
}

function parse<T>(text: string): T {
  try {
    return JSON.parse(text) as T;
  } catch (cause) {
    throw new ProtocolError('bad_json', `${text.length} characters are not valid JSON`, { cause });
  }
}

/**
 * Checks the limits without building a value.
 *
 * Depth counts open arrays and objects. The length of a string is the UTF-8 bytes of its value, with escapes
 * resolved; a string that is the whole document is bounded only by the size of its message. The length of an
 * array is its number of elements. The number of values, including keys, is limited because a value may take
 * as little as two bytes of text but far more memory, and time to build.
 *
 * @throws {ProtocolError} `json_too_deep`, `string_too_long`, `array_too_long`, `too_many_values`.
 */
export function assertJsonBounds(text: string, limits: JsonLimits = DEFAULT_LIMITS): void {
  scan(text, limits, Infinity);
}

// Bytes of memory, as V8 takes it. The text of strings is not counted: it is bounded by the size of the message.
const ARRAY = 48;
const OBJECT = 56;
const ELEMENT = 8;
/** A number that is no small integer has an object of its own there. */
const PROPERTY = 16;
const STRING = 24;
/** A key that no object before had: the key, its place in a table and another shape of objects. */
const NEW_KEY = 112;
/** For the stack of what walks the value later: all levels of a document are open at once. */
const LEVEL = 4096;

/**
 * @param maxMemory bytes.
 * @returns bytes of memory of the value, up to the end of the document, or up to its first error.
 */
function scan(text: string, limits: JsonLimits, maxMemory: number): number {
  const { maxJsonDepth, maxStringLength, maxArrayLength, maxJsonValues } = limits;
  const keys = maxMemory === Infinity ? undefined : new SeenKeys(text);
  // Commas that each enclosing container may still have. An object may have any number, so `Infinity` marks
  // objects.
  const enclosing: number[] = [];
  let commas = Infinity;
  let depth = 0;
  let deepest = 0;
  // Values per comma in the innermost container: an element, or a key and its value.
  let step = 1;
  let values = 1;
  let memory = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE: {
        const end = endOfString(text, at + 1);
        if (end === -1) return memory;
        // A code unit takes at most three bytes, so nearly every string passes without being measured.
        if (depth > 0 && (end - at - 1) * 3 > maxStringLength) {
          const length = valueLength(text, at + 1, end);
          if (length > maxStringLength) {
            throw new ProtocolError(
              'string_too_long',
              `JSON holds a string of ${length} bytes, at most ${maxStringLength} are allowed`,
            );
          }
        }
        if (keys !== undefined) memory += keys.memoryOf(at + 1, end, step === 2);
        at = end;
        break;
      }
      case COMMA:
        if (--commas < 0) {
          throw new ProtocolError(
            'array_too_long',
            `JSON holds an array of more than the ${maxArrayLength} elements allowed`,
          );
        }
        values += step;
        memory += step === 1 ? ELEMENT : PROPERTY;
        break;
      case OPEN_ARRAY:
      case OPEN_OBJECT: {
        if (++depth > maxJsonDepth) {
          throw new ProtocolError('json_too_deep', `JSON is nested more than ${maxJsonDepth} levels deep`);
        }
        if (depth > deepest) {
          deepest = depth;
          memory += LEVEL;
        }
        enclosing.push(commas);
        const isArray = text.charCodeAt(at) === OPEN_ARRAY;
        commas = isArray && maxArrayLength !== Infinity ? maxArrayLength - 1 : MANY;
        if (!isArray) commas = Infinity;
        step = isArray ? 1 : 2;
        memory += isArray ? ARRAY : OBJECT;
        // An empty container adds no values.
        while (isBlank(text.charCodeAt(at + 1))) at++;
        const next = text.charCodeAt(at + 1);
        if (next !== CLOSE_ARRAY && next !== CLOSE_OBJECT) {
          values += step;
          memory += isArray ? ELEMENT : PROPERTY;
        }
        break;
      }
      case CLOSE_ARRAY:
      case CLOSE_OBJECT:
        if (depth === 0) return memory;
        depth--;
        commas = enclosing.pop() as number;
        step = commas === Infinity && depth > 0 ? 2 : 1;
        break;
      default:
        continue;
    }
    if (values > maxJsonValues) throw tooManyValues(maxJsonValues);
    if (memory > maxMemory) throw tooMuchMemory(maxMemory);
  }
  return memory;
}

/** More commas than a text can have. */
const MANY = Number.MAX_SAFE_INTEGER;

/** The keys of a document, some of which it has had before: objects of one shape share them. */
class SeenKeys {
  readonly #text: string;
  /** Where a key with this hash began last, plus one. Made for the first key of a long document; short ones cost little. */
  #places: Int32Array | undefined;

  constructor(text: string) {
    this.#text = text;
  }

  /** Bytes of memory for the string from `start` to before `end`. @param isInObject it may be a key. */
  memoryOf(start: number, end: number, isInObject: boolean): number {
    const text = this.#text;
    if (!isInObject || !isKey(text, end + 1)) return STRING;
    const length = end - start;
    if (text.length < SHORT || length > MAX_SHARED_KEY) return NEW_KEY + length;
    this.#places ??= new Int32Array(PLACES);
    let hash = length;
    for (let at = start; at < end; at++) hash = (Math.imul(hash, 31) + text.charCodeAt(at)) | 0;
    const place = (hash ^ (hash >>> 15)) & (PLACES - 1);
    const last = (this.#places[place] as number) - 1;
    this.#places[place] = start + 1;
    if (last === -1 || text.charCodeAt(last + length) !== QUOTE) return NEW_KEY + length;
    for (let i = 0; i < length; i++) {
      if (text.charCodeAt(last + i) !== text.charCodeAt(start + i)) return NEW_KEY + length;
    }
    return 0;
  }
}
const PLACES = 4096;
const MAX_SHARED_KEY = 128;
/** Characters of a document whose keys are not compared. */
const SHORT = 16 * 1024;

function isKey(text: string, after: number): boolean {
  while (isBlank(text.charCodeAt(after))) after++;
  return text.charCodeAt(after) === COLON;
}

/**
 * Refuses escapes of half a surrogate pair (`"\ud800"`): the text is well-formed, but the string
 * that a reader gets from it has no UTF-8 form.
 *
 * @throws {ProtocolError} `lone_surrogate`.
 */
export function assertPairedEscapes(text: string): void {
  if (!text.includes('\\u')) return;
  // The end of the escape of a high surrogate that still lacks its low one, or -1.
  let pendingEnd = -1;
  for (let at = text.indexOf('\\'); at !== -1; at = text.indexOf('\\', at)) {
    if (pendingEnd !== -1 && pendingEnd !== at) throw loneEscape();
    if (text.charCodeAt(at + 1) !== LETTER_U) {
      if (pendingEnd !== -1) throw loneEscape();
      at += 2;
      continue;
    }
    const unit = Number.parseInt(text.slice(at + 2, at + 6), 16);
    const isLow = unit >= 0xdc00 && unit <= 0xdfff;
    if (isLow !== (pendingEnd !== -1)) throw loneEscape();
    at += 6;
    pendingEnd = unit >= 0xd800 && unit <= 0xdbff ? at : -1;
  }
  if (pendingEnd !== -1) throw loneEscape();
}

/** The index of the quote that closes the string whose first character is at `start`, or -1. */
export function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start);
  while (end !== -1 && text.charCodeAt(end - 1) === BACKSLASH) {
    // Escaped if an odd number of backslashes precedes; they end at the previous quote at the
    // latest, so no backslash is ever counted twice.
    let first = end - 1;
    while (text.charCodeAt(first - 1) === BACKSLASH) first--;
    if ((end - first) % 2 === 0) break;
    end = text.indexOf('"', end + 1);
  }
  return end;
}

/** UTF-8 bytes of the string value whose source is `text` from `start` to before `end`. */
function valueLength(text: string, start: number, end: number): number {
  let bytes = 0;
  for (let at = start; at < end; at++) {
    let unit = text.charCodeAt(at);
    if (unit === BACKSLASH) {
      at++;
      if (text.charCodeAt(at) === LETTER_U) {
        unit = Number.parseInt(text.slice(at + 1, at + 5), 16);
        at += 4;
      }
    }
    // Each half of a surrogate pair counts two of the four bytes.
    bytes += unit < 0x80 ? 1 : unit < 0x800 || (unit >= 0xd800 && unit <= 0xdfff) ? 2 : 3;
  }
  return bytes;
}

function isBlank(unit: number): boolean {
  return unit === 0x20 || unit === 0x0a || unit === 0x0d || unit === 0x09;
}

function tooManyValues(limit: number): ProtocolError {
  return new ProtocolError(
    'too_many_values',
    `JSON holds more than the ${limit} values allowed, keys included`,
  );
}

function tooMuchMemory(limit: number): ProtocolError {
  return new ProtocolError(
    'too_many_values',
    `JSON would take more than the ${Math.floor(limit)} bytes of memory that the message may take once it is parsed`,
  );
}

function loneEscape(): ProtocolError {
  return new ProtocolError(
    'lone_surrogate',
    'JSON text escapes half of a surrogate pair, which has no UTF-8 form; repair it before sending',
  );
}
