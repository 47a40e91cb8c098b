/** Phrases that explanations are made of. */

const grouped = new Intl.NumberFormat('en-US', { maximumFractionDigits: 6 });

/** `1,048,576`. */
export function number(value: number): string {
  return grouped.format(value);
}

/** `1 token`, `2,310 tokens`. */
export function count(value: number, noun: string): string {
  return `${number(value)} ${noun}${value === 1 ? '' : 's'}`;
}

export function byteCount(value: number): string {
  return count(value, 'byte');
}

/** A text in quotation marks, on one line. */
export function quoted(text: string): string {
  return `“${printable(text)}”`;
}

/** C0 and C1 controls, line separators, and characters that change the direction of text. */
const UNPRINTABLE = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;
const ESCAPES = new Map([
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
]);

/**
 * Makes foreign text safe for a terminal or a log: characters that move the cursor, change colours or
 * reorder text become escapes, and the result is one line.
 */
export function printable(text: string): string {
  return text.replace(
    UNPRINTABLE,
    (character) => ESCAPES.get(character) ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** `a, b, c`, or `none` if the list is empty. */
export function list(names: readonly string[], none = 'none'): string {
  return names.length === 0 ? none : names.join(', ');
}

export function hex(value: number, digits = 2): string {
  return `0x${value.toString(16).padStart(digits, '0')}`;
}

type Part = string | false | undefined;

/** Joins the parts that are set with commas. */
export function sentence(...parts: readonly Part[]): string {
  return parts.filter(Boolean).join(', ');
}

/** Joins the parts that are set with semicolons, as they may contain commas. */
export function clauses(...parts: readonly Part[]): string {
  return parts.filter(Boolean).join('; ');
}
