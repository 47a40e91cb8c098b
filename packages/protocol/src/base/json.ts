import { ProtocolError } from './errors.js';
import { DEFAULT_LIMITS, type Limits } from './limits.js';

/**
 * JSON within bounds (wire document, section 3.8). One pass over the text, without recursion and before any
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
 * @param onValues receives the number of values and keys before any of them is built.
 * @returns the value, which is not checked to be a `T`.
 * @throws {ProtocolError} `bad_json`, `json_too_deep`, `string_too_long`, `array_too_long`,
 * `too_many_values`.
 */
export function parseJson<T = unknown>(
  text: string,
  limits: JsonLimits = DEFAULT_LIMITS,
  onValues?: (values: number) => void,
): T {
  const values = assertJsonBounds(text, limits);
  onValues?.(values);
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
 * @returns values and keys up to the end of the document, or up to its first error.
 * @throws {ProtocolError} `json_too_deep`, `string_too_long`, `array_too_long`, `too_many_values`.
 */
export function assertJsonBounds(text: string, limits: JsonLimits = DEFAULT_LIMITS): number {
  const { maxJsonDepth, maxStringLength, maxArrayLength, maxJsonValues } = limits;
  // Commas that each enclosing container may still have. An object may have any number, so `Infinity` marks
  // objects.
  const enclosing: number[] = [];
  let commas = Infinity;
  let depth = 0;
  // Values per comma in the innermost container: an element, or a key and its value.
  let step = 1;
  let values = 1;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE: {
        const end = endOfString(text, at + 1);
        if (end === -1) return values;
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
        if (values > maxJsonValues) throw tooManyValues(maxJsonValues);
        break;
      case OPEN_ARRAY:
      case OPEN_OBJECT: {
        if (++depth > maxJsonDepth) {
          throw new ProtocolError('json_too_deep', `JSON is nested more than ${maxJsonDepth} levels deep`);
        }
        enclosing.push(commas);
        const isArray = text.charCodeAt(at) === OPEN_ARRAY;
        commas = isArray ? Math.min(maxArrayLength - 1, Number.MAX_SAFE_INTEGER) : Infinity;
        step = isArray ? 1 : 2;
        // An empty container adds no values.
        while (isBlank(text.charCodeAt(at + 1))) at++;
        const next = text.charCodeAt(at + 1);
        if (next !== CLOSE_ARRAY && next !== CLOSE_OBJECT) values += step;
        if (values > maxJsonValues) throw tooManyValues(maxJsonValues);
        break;
      }
      case CLOSE_ARRAY:
      case CLOSE_OBJECT:
        if (depth === 0) return values;
        depth--;
        commas = enclosing.pop() as number;
        step = commas === Infinity ? 2 : 1;
        break;
    }
  }
  return values;
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

function loneEscape(): ProtocolError {
  return new ProtocolError(
    'lone_surrogate',
    'JSON text escapes half of a surrogate pair, which has no UTF-8 form; repair it before sending',
  );
}
