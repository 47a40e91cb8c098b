/**
 * Orders strings by Unicode code point, as Python and UTF-8 do. JavaScript's own order is by UTF-16
 * unit, which puts everything beyond U+FFFF before U+E000.
 */
export function compareCodePoints(a: string, b: string): number {
  const shorter = Math.min(a.length, b.length);
  let at = 0;
  while (at < shorter && a.charCodeAt(at) === b.charCodeAt(at)) at++;
  if (at === shorter) return a.length - b.length;
  // Behind an equal high surrogate, what differs is whether and how it is completed.
  if (at > 0 && (a.charCodeAt(at - 1) & 0xfc00) === 0xd800) {
    const difference = codePoint(a, at - 1) - codePoint(b, at - 1);
    if (difference !== 0) return difference;
  }
  return codePoint(a, at) - codePoint(b, at);
}

function codePoint(text: string, at: number): number {
  return text.codePointAt(at) as number;
}
