/** How an explanation words what it says. */

const grouped = new Intl.NumberFormat('en-US', { maximumFractionDigits: 6 });

/** `1,048,576`. */
export function number(value: number): string {
  return grouped.format(value);
}

/** `1 byte`, `2,310 bytes`. */
export function count(value: number, noun: string): string {
  return `${number(value)} ${noun}${value === 1 ? '' : 's'}`;
}

export function bytes(value: number): string {
  return count(value, 'byte');
}

/** A text in quotation marks, on one line. */
export function quoted(text: string): string {
  return `“${printable(text)}”`;
}

/** C0 and C1 controls, line separators, and what turns the direction of text around. */
const UNPRINTABLE = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;
const ESCAPES = new Map([
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
]);

/**
 * Text that somebody else chose, for a terminal or a log: characters that move the cursor, change
 * colours or reorder what is read become escapes, and it stays on one line.
 */
export function printable(text: string): string {
  return text.replace(
    UNPRINTABLE,
    (character) => ESCAPES.get(character) ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** `a, b, c`, or what stands for an empty list. */
export function list(names: readonly string[], none = 'none'): string {
  return names.length === 0 ? none : names.join(', ');
}

export function hex(value: number, digits = 2): string {
  return `0x${value.toString(16).padStart(digits, '0')}`;
}

/** `48 65 6c`. */
export function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join(' ');
}

type Part = string | false | undefined;

/** What there is of `parts`, with commas between. */
export function sentence(...parts: readonly Part[]): string {
  return parts.filter(Boolean).join(', ');
}

/** What there is of `parts`, which have commas of their own. */
export function clauses(...parts: readonly Part[]): string {
  return parts.filter(Boolean).join('; ');
}
