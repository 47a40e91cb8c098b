import { ProtocolError } from '../../base/errors.js';
import type { LosslessJson } from './lossless-json.js';

/**
 * The canonical JSON for AVP's model and tokenizer hashes, as Python writes it with
 * `json.dumps(value, sort_keys=True, separators=(',', ':'))`. Keys are in code point order, there are no
 * spaces, everything except printable ASCII is escaped, integers are exact, and floats are written like
 * Python's.
 */
export function canonicalJson(value: LosslessJson): string {
  switch (typeof value) {
    case 'string':
      return quoted(value);
    case 'bigint':
    case 'boolean':
      return String(value);
    case 'number':
      return pythonFloat(value);
    default:
      if (value === null) return 'null';
      if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
      return `{${[...(value as ReadonlyMap<string, LosslessJson>)]
        .sort(([a], [b]) => compareCodePoints(a, b))
        .map(([key, member]) => `${quoted(key)}:${canonicalJson(member)}`)
        .join(',')}}`;
  }
}

const SHORT_ESCAPES: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\b': '\\b',
  '\f': '\\f',
};

/** A JSON string in ASCII; a character above U+FFFF becomes two escapes, one for each UTF-16 unit. */
export function quoted(text: string): string {
  const escaped = text.replace(
    /["\\]|[^ -~]/g,
    (unit) => SHORT_ESCAPES[unit] ?? `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  return `"${escaped}"`;
}

/**
 * A float as Python's `repr` writes it: the shortest digits that read back equal, as in JavaScript, but with
 * a decimal point in whole numbers, and with an exponent of at least two digits below 10^-4 or from
 * 10^16 up.
 */
export function pythonFloat(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value < 0 ? '-Infinity' : 'Infinity';
  if (value === 0) return Object.is(value, -0) ? '-0.0' : '0.0';
  const [mantissa = '', exponentText = ''] = value.toExponential().split('e');
  const exponent = Number(exponentText);
  if (exponent < -4 || exponent >= 16) {
    const digits = String(Math.abs(exponent)).padStart(2, '0');
    return `${mantissa}e${exponent < 0 ? '-' : '+'}${digits}`;
  }
  // JavaScript writes no exponent in this range, only below 10^-6 and from 10^21 up.
  const plain = String(value);
  return plain.includes('.') ? plain : `${plain}.0`;
}

/** Converts a safe integer for canonical JSON. @throws {ProtocolError} `invalid_argument`. */
export function exactInteger(value: number): bigint {
  if (!Number.isSafeInteger(value)) {
    throw new ProtocolError('invalid_argument', `${value} is not a whole number within ±(2^53 − 1)`);
  }
  return BigInt(value);
}

/**
 * Orders strings by Unicode code point, as Python and UTF-8 do. JavaScript's order is by UTF-16 unit, which
 * puts everything above U+FFFF before U+E000.
 */
export function compareCodePoints(a: string, b: string): number {
  const shorter = Math.min(a.length, b.length);
  let at = 0;
  while (at < shorter && a.charCodeAt(at) === b.charCodeAt(at)) at++;
  if (at === shorter) return a.length - b.length;
  // After an equal high surrogate, compare the code points that the two units complete.
  if (at > 0 && (a.charCodeAt(at - 1) & 0xfc00) === 0xd800) {
    const difference = codePoint(a, at - 1) - codePoint(b, at - 1);
    if (difference !== 0) return difference;
  }
  return codePoint(a, at) - codePoint(b, at);
}

function codePoint(text: string, at: number): number {
  return text.codePointAt(at) as number;
}
