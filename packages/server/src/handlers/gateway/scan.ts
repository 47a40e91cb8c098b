/**
 * Finds the few fields that the gateway bases decisions on without parsing the JSON: parsing 16 MiB of brackets takes
 * a second and 360 MB, and the upstream parses the body anyway. The scan is a single pass over the bytes and allocates
 * nothing per value. It checks the structure, so that every strict JSON parser sees the same keys, but does not validate
 * numbers or the content of strings.
 */

/** `malformed`: not one JSON object. `beyond_limits`: the scan gave up, so the fields are unknown. */
export type ScanFault = 'malformed' | 'beyond_limits';

/** Top-level keys that equal a name if case (that of Unicode, as some readers ignore it) and escapes are ignored. */
export interface FoundKey {
  readonly count: number;
  /** All of them are spelled exactly like the name. */
  readonly isExact: boolean;
  /** At least one of them is spelled exactly like the name. */
  readonly hasExact: boolean;
  /** Bytes of the value: that of the last exact key, or of the last key if none is exact. */
  readonly value: Uint8Array;
}

export interface ScanResult<Name extends string> {
  /** Keys found before a fault. */
  readonly found: ReadonlyMap<Name, FoundKey>;
  readonly fault: ScanFault | undefined;
}

/**
 * Most values of a request, including keys. Far more than where JSON is parsed, because here they are only counted;
 * a request for embeddings may have 300,000 token IDs.
 */
export const MAX_SCANNED_VALUES = 512 * 1024;
/** Deepest nesting; more than most parsers accept. */
export const MAX_SCANNED_DEPTH = 512;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Tokens that may come next. */
const VALUE = 0;
/** After `[`. */
const VALUE_OR_CLOSE = 1;
const KEY = 2;
/** After `{`. */
const KEY_OR_CLOSE = 3;
const AFTER_KEY = 4;
const AFTER_VALUE = 5;

/** Bytes of numbers and literals. */
const IS_SCALAR = Uint8Array.from({ length: 256 }, (_, byte) =>
  /[-+.0-9A-Za-z]/.test(String.fromCharCode(byte)) ? 1 : 0,
);

/** Bytes of a string to check one by one before searching for its end. */
const SHORT = 256;

/** Which of the enclosing containers are arrays. One stack serves all scans, as they are synchronous. */
const enclosing = new Uint8Array(MAX_SCANNED_DEPTH + 1);

/** @param names keys to find, in lower-case ASCII. */
export function scanObject<Name extends string>(json: Uint8Array, names: readonly Name[]): ScanResult<Name> {
  const found = new Map<Name, FoundKey>();
  const fault = scan(json, names, (name, isExact, start, end) => {
    const before = found.get(name);
    found.set(name, {
      count: (before?.count ?? 0) + 1,
      isExact: isExact && before?.isExact !== false,
      hasExact: isExact || before?.hasExact === true,
      value: before?.hasExact === true && !isExact ? before.value : json.subarray(start, end),
    });
  });
  return { found, fault };
}

function scan<Name extends string>(
  json: Uint8Array,
  names: readonly Name[],
  onMember: (name: Name, isExact: boolean, start: number, end: number) => void,
): ScanFault | undefined {
  const { length } = json;
  let isArray = 0;
  let depth = 0;
  let values = 0;
  let expected = VALUE;
  /** A matching top-level key, until its value is complete. */
  let key: Name | undefined;
  let isExact = false;
  let valueAt = 0;

  for (let at = 0; at < length; at++) {
    const byte = json[at] as number;
    switch (byte) {
      case 0x20:
      case 0x0a:
      case 0x0d:
      case 0x09:
        at = endOfBlanks(json, at) - 1;
        continue;
      case 0x2c /* , */:
        if (expected !== AFTER_VALUE || depth === 0) return 'malformed';
        expected = isArray === 1 ? VALUE : KEY;
        continue;
      case 0x3a /* : */:
        if (expected !== AFTER_KEY) return 'malformed';
        expected = VALUE;
        continue;
      case 0x5d /* ] */:
      case 0x7d /* } */:
        {
          const empty = isArray === 1 ? VALUE_OR_CLOSE : KEY_OR_CLOSE;
          if (depth === 0 || (expected !== AFTER_VALUE && expected !== empty)) return 'malformed';
          if ((byte === 0x5d) !== (isArray === 1)) return 'malformed';
          isArray = enclosing[depth--] as number;
          expected = AFTER_VALUE;
          break;
        }
      case 0x5b /* [ */:
      case 0x7b /* { */:
        if (expected > VALUE_OR_CLOSE || (depth === 0 && byte === 0x5b)) return 'malformed';
        if (++values > MAX_SCANNED_VALUES || depth === MAX_SCANNED_DEPTH) return 'beyond_limits';
        if (depth === 1) valueAt = at;
        enclosing[++depth] = isArray;
        isArray = byte === 0x5b ? 1 : 0;
        expected = isArray === 1 ? VALUE_OR_CLOSE : KEY_OR_CLOSE;
        continue;
      case QUOTE: {
        const isKey = expected === KEY || expected === KEY_OR_CLOSE;
        if (depth === 0 || (!isKey && expected > VALUE_OR_CLOSE)) return 'malformed';
        if (++values > MAX_SCANNED_VALUES) return 'beyond_limits';
        const start = at + 1;
        at = endOfString(json, start);
        if (at === -1) return 'malformed';
        if (isKey) {
          if (depth === 1) {
            key = names.find((name) => equalsFolded(json, start, at, name));
            isExact = key !== undefined && equals(json, start, at, key);
          }
          expected = AFTER_KEY;
          continue;
        }
        if (depth === 1) valueAt = start - 1;
        expected = AFTER_VALUE;
        break;
      }
      default:
        if (depth === 0 || expected > VALUE_OR_CLOSE || IS_SCALAR[byte] !== 1) return 'malformed';
        if (++values > MAX_SCANNED_VALUES) return 'beyond_limits';
        if (depth === 1) valueAt = at;
        at = endOfScalar(json, at) - 1;
        expected = AFTER_VALUE;
    }
    // A value is complete.
    if (depth === 1 && key !== undefined) {
      onMember(key, isExact, valueAt, at + 1);
      key = undefined;
    }
  }
  return depth === 0 && expected === AFTER_VALUE ? undefined : 'malformed';
}

function endOfBlanks(json: Uint8Array, start: number): number {
  const { length } = json;
  let at = start;
  while (at < length) {
    const byte = json[at] as number;
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) break;
    at++;
  }
  return at;
}

function endOfScalar(json: Uint8Array, start: number): number {
  const { length } = json;
  let at = start;
  while (at < length) {
    const byte = json[at] as number;
    if ((byte < 0x30 || byte > 0x39) && IS_SCALAR[byte] !== 1) break;
    at++;
  }
  return at;
}

/** The index of the quote that closes the string whose first byte is at `start`, or -1. */
function endOfString(json: Uint8Array, start: number): number {
  const { length } = json;
  let at = start;
  for (;;) {
    // Most strings are short, and starting a search costs as much as checking some dozens of bytes.
    const near = Math.min(at + SHORT, length);
    while (at < near) {
      const byte = json[at];
      if (byte === QUOTE) return at;
      at += byte === BACKSLASH ? 2 : 1;
    }
    if (at >= length) return -1;
    const quote = json.indexOf(QUOTE, at);
    if (quote === -1) return -1;
    // Escaped if an odd number of backslashes precedes; those before `at` are in pairs.
    let first = quote;
    while (first > at && json[first - 1] === BACKSLASH) first--;
    if ((quote - first) % 2 === 0) return quote;
    at = quote + 1;
  }
}

/**
 * Characters outside ASCII that some way to ignore case takes for letters of ASCII: the simple and the full folding of
 * Unicode (Go's `encoding/json` has the simple one), and comparing in upper case or in lower case, as Java does.
 */
const FOLDED: ReadonlyMap<number, string> = new Map([
  [0x017f, 's'],
  [0x212a, 'k'],
  [0x0130, 'i'],
  [0x0131, 'i'],
  [0x00df, 'ss'],
  [0x1e9e, 'ss'],
  [0xfb00, 'ff'],
  [0xfb01, 'fi'],
  [0xfb02, 'fl'],
  [0xfb03, 'ffi'],
  [0xfb04, 'ffl'],
  [0xfb05, 'st'],
  [0xfb06, 'st'],
]);

/** Whether the string between `start` and `end` equals `name` if case and escapes are ignored. */
function equalsFolded(json: Uint8Array, start: number, end: number, name: string): boolean {
  let at = start;
  let matched = 0;
  while (at < end && matched < name.length) {
    let unit = json[at++] as number;
    if (unit === BACKSLASH) {
      // Other escapes never stand for a character of a name.
      if (json[at] !== 0x75 /* u */ || at + 5 > end) return false;
      unit = 0;
      for (let digit = at + 1; digit < at + 5; digit++) unit = unit * 16 + hexDigit(json[digit] as number);
      at += 5;
    } else if (unit >= 0x80) {
      // No character of four bytes folds to ASCII.
      const more = unit >= 0xe0 ? 2 : 1;
      unit &= more === 2 ? 0x0f : 0x1f;
      for (let i = 0; i < more; i++) unit = (unit << 6) | ((json[at++] as number) & 0x3f);
    }
    if (unit >= 0x41 && unit <= 0x5a) unit += 0x20;
    if (unit === name.charCodeAt(matched)) {
      matched++;
      continue;
    }
    const letters = FOLDED.get(unit);
    if (letters === undefined || !name.startsWith(letters, matched)) return false;
    matched += letters.length;
  }
  return at === end && matched === name.length;
}

function equals(json: Uint8Array, start: number, end: number, name: string): boolean {
  if (end - start !== name.length) return false;
  for (let i = 0; i < name.length; i++) if (json[start + i] !== name.charCodeAt(i)) return false;
  return true;
}

/** `NaN` if the byte is not a digit. */
function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : Number.NaN;
}

/** The bytes of each element of a JSON array; none of any other value. @param json must have been scanned without a fault. */
export function* elementsOf(json: Uint8Array): Generator<Uint8Array> {
  if (json[0] !== 0x5b /* [ */) return;
  let depth = 0;
  let start = 1;
  for (let at = 0; at < json.length; at++) {
    switch (json[at]) {
      case QUOTE:
        at = endOfString(json, at + 1);
        break;
      case 0x5b /* [ */:
      case 0x7b /* { */:
        depth++;
        break;
      case 0x5d /* ] */:
      case 0x7d /* } */:
        depth--;
        break;
      case 0x2c /* , */:
        if (depth !== 1) break;
        yield json.subarray(start, at);
        start = at + 1;
    }
  }
  yield json.subarray(start, json.length - 1);
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Decodes a JSON string with its quotes; `undefined` if it is not a string. */
export function readText(quoted: Uint8Array): string | undefined {
  try {
    const text: unknown = JSON.parse(decoder.decode(quoted));
    return typeof text === 'string' ? text : undefined;
  } catch {
    return undefined;
  }
}
