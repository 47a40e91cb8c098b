import { ProtocolError } from '../../base/errors.js';
import { compareCodePoints } from './code-points.js';
import type { LosslessJson } from './lossless-json.js';

/**
 * The canonical JSON behind AVP's model and tokenizer hashes: what Python writes with
 * `json.dumps(value, sort_keys=True, separators=(',', ':'))`. Keys in code point order, no spaces,
 * everything but printable ASCII escaped, integers exact, floats as Python spells them.
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

/** A JSON string in ASCII; what lies beyond U+FFFF becomes two escapes, one for each UTF-16 unit. */
export function quoted(text: string): string {
  const escaped = text.replace(
    /["\\]|[^ -~]/g,
    (unit) => SHORT_ESCAPES[unit] ?? `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  return `"${escaped}"`;
}

/**
 * A float as Python's `repr` writes it: the shortest digits that read back equal, as in JavaScript,
 * but with a point in whole numbers, and with an exponent of two digits below 10^-4 and from 10^16.
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
  // In this range JavaScript writes no exponent, except below 10^-6, which is out of it.
  const plain = String(value);
  return plain.includes('.') ? plain : `${plain}.0`;
}

/** A whole number that fits exactly, for canonical JSON. @throws {ProtocolError} `invalid_argument`. */
export function exactInteger(value: number): bigint {
  if (!Number.isSafeInteger(value)) {
    throw new ProtocolError('invalid_argument', `${value} is no whole number that is known exactly`);
  }
  return BigInt(value);
}
