/**
 * Base64 (RFC 4648 section 4, standard alphabet with padding) for platforms without one that is both fast and
 * strict.
 */

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const PAD = 0x3d;
/** Marks a character in `values` that is not a digit; the value of a digit never has this bit. */
const NO_DIGIT = 0x80;

const digits = Uint8Array.from(ALPHABET, (digit) => digit.charCodeAt(0));
const values = new Uint8Array(0x80).fill(NO_DIGIT);
for (let value = 0; value < ALPHABET.length; value++) values[digits[value] as number] = value;

const ascii = new TextDecoder();

export function encodeBase64(bytes: Uint8Array): string {
  const whole = bytes.length - (bytes.length % 3);
  const text = new Uint8Array(Math.ceil(bytes.length / 3) * 4);
  let to = 0;
  let from = 0;
  for (; from < whole; from += 3) {
    const group = (bytes[from]! << 16) | (bytes[from + 1]! << 8) | bytes[from + 2]!;
    text[to++] = digits[group >> 18]!;
    text[to++] = digits[(group >> 12) & 0x3f]!;
    text[to++] = digits[(group >> 6) & 0x3f]!;
    text[to++] = digits[group & 0x3f]!;
  }
  if (from < bytes.length) {
    const two = from + 1 < bytes.length;
    const group = (bytes[from]! << 16) | (two ? bytes[from + 1]! << 8 : 0);
    text[to++] = digits[group >> 18]!;
    text[to++] = digits[(group >> 12) & 0x3f]!;
    text[to++] = two ? digits[(group >> 6) & 0x3f]! : PAD;
    text[to++] = PAD;
  }
  return ascii.decode(text);
}

/** The bytes, or `undefined` if `text` is not exactly what {@link encodeBase64} writes. */
export function decodeBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  const length = text.length;
  if (length % 4 !== 0) return undefined;
  if (length === 0) return new Uint8Array(0);
  const padding = text.charCodeAt(length - 1) !== PAD ? 0 : text.charCodeAt(length - 2) !== PAD ? 1 : 2;
  const bytes = new Uint8Array((length / 4) * 3 - padding);
  const whole = padding === 0 ? length : length - 4;
  // `seen` collects the bits of every character and value, so that a single test at the end shows whether any
  // was out of range.
  let seen = 0;
  let to = 0;
  for (let from = 0; from < whole; from += 4) {
    const a = text.charCodeAt(from);
    const b = text.charCodeAt(from + 1);
    const c = text.charCodeAt(from + 2);
    const d = text.charCodeAt(from + 3);
    const first = values[a & 0x7f]!;
    const second = values[b & 0x7f]!;
    const third = values[c & 0x7f]!;
    const fourth = values[d & 0x7f]!;
    seen |= a | b | c | d | first | second | third | fourth;
    bytes[to++] = (first << 2) | (second >> 4);
    bytes[to++] = (second << 4) | (third >> 2);
    bytes[to++] = (third << 6) | fourth;
  }
  if (padding > 0) {
    const a = text.charCodeAt(whole);
    const b = text.charCodeAt(whole + 1);
    const c = padding === 1 ? text.charCodeAt(whole + 2) : 0x41;
    const first = values[a & 0x7f]!;
    const second = values[b & 0x7f]!;
    const third = values[c & 0x7f]!;
    seen |= a | b | c | first | second | third;
    // In canonical base64 the unused bits are zero.
    if ((padding === 1 ? third & 0x03 : second & 0x0f) !== 0) return undefined;
    bytes[to++] = (first << 2) | (second >> 4);
    if (padding === 1) bytes[to++] = (second << 4) | (third >> 2);
  }
  return seen < 0x80 ? bytes : undefined;
}
