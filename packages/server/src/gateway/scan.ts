/**
 * Finds the few fields of a request that a gateway decides by, without parsing the JSON: parsing 16 MiB of brackets takes
 * a second and 360 MB, and the upstream parses the body anyway. The scan is one pass over the bytes that builds
 * nothing. It checks structure, so that everybody who reads strict JSON sees the same keys in it, but leaves it to
 * the upstream to judge numbers and the inside of strings.
 */

/** `malformed`: not the text of one JSON object. `beyond_limits`: given up, so that nothing is known. */
export type ScanFault = 'malformed' | 'beyond_limits';

/** Keys of the object itself that equal a name without regard to case and escapes. */
export interface FoundKey {
  readonly count: number;
  /** All of them are written exactly like the name. */
  readonly isExact: boolean;
  /** One of them at least is. */
  readonly hasExact: boolean;
  /** The bytes of the last one's value, of those that are written exactly like the name if there are any. */
  readonly value: Uint8Array;
}

export interface ScanResult<Name extends string> {
  /** What was found before a fault. */
  readonly found: ReadonlyMap<Name, FoundKey>;
  readonly fault: ScanFault | undefined;
}

/**
 * Values that a request may have, keys included: far more than are parsed elsewhere, as counting them is all that
 * they cost, and a request for embeddings may have 300,000 token IDs.
 */
export const MAX_SCANNED_VALUES = 512 * 1024;
/** Levels of nesting, which is more than most readers take. */
export const MAX_SCANNED_DEPTH = 512;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** What may come next. */
const VALUE = 0;
/** Behind `[`. */
const VALUE_OR_CLOSE = 1;
const KEY = 2;
/** Behind `{`. */
const KEY_OR_CLOSE = 3;
const AFTER_KEY = 4;
const AFTER_VALUE = 5;

/** Bytes that numbers and literals are made of. */
const IS_SCALAR = Uint8Array.from({ length: 256 }, (_, byte) =>
  /[-+.0-9A-Za-z]/.test(String.fromCharCode(byte)) ? 1 : 0,
);

/** Bytes of a string that are looked at one by one before its end is searched for. */
const SHORT = 256;

/** Scans are synchronous, so one stack serves all: which of the containers around the present one are arrays. */
const enclosing = new Uint8Array(MAX_SCANNED_DEPTH + 1);

/** @param names ASCII in lower case. */
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
  /** A known key of the object itself, until its value is complete. */
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
            // An escape makes a key longer than its name.
            isExact = key !== undefined && at - start === key.length && isLower(json, start, at);
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
    // Most strings are short, and a search takes as long to begin as to look at some dozens of bytes.
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

/** Whether the string from `start` to before `end` is `name`, without regard to case and escapes. */
function equalsFolded(json: Uint8Array, start: number, end: number, name: string): boolean {
  let at = start;
  for (let i = 0; i < name.length; i++) {
    if (at >= end) return false;
    let unit = json[at++] as number;
    if (unit === BACKSLASH) {
      // No other escape stands for anything that a name is made of.
      if (json[at] !== 0x75 /* u */ || at + 5 > end) return false;
      unit = 0;
      for (let digit = at + 1; digit < at + 5; digit++) unit = unit * 16 + hexDigit(json[digit] as number);
      at += 5;
    }
    if (unit >= 0x41 && unit <= 0x5a) unit += 0x20;
    if (unit !== name.charCodeAt(i)) return false;
  }
  return at === end;
}

/** `NaN` if the byte is not a digit. */
function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : Number.NaN;
}

function isLower(json: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const byte = json[at] as number;
    if (byte >= 0x41 && byte <= 0x5a) return false;
  }
  return true;
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The text of a JSON string with its quotes; `undefined` if it is not one. */
export function readText(quoted: Uint8Array): string | undefined {
  try {
    const text: unknown = JSON.parse(decoder.decode(quoted));
    return typeof text === 'string' ? text : undefined;
  } catch {
    return undefined;
  }
}
