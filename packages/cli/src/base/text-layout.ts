const segments = new Intl.Segmenter('en', { granularity: 'grapheme' });
const WIDE =
  /\p{Extended_Pictographic}|\p{Script=Han}|\p{Script=Hangul}|\p{Script=Hiragana}|\p{Script=Katakana}|[\uff01-\uff60\u3000-\u303f]/u;
const PLAIN = /^[\x20-\x7e]*$/;

/** `1 reply`, `1,234 replies`. @param many @default `one` with an s */
export function count(value: number, one: string, many = `${one}s`): string {
  return `${value.toLocaleString('en')} ${value === 1 ? one : many}`;
}

/** Width in terminal columns of a text without control characters. */
export function widthOf(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const { segment } of segments.segment(text)) width += widthOfCharacter(segment);
  return width;
}

function widthOfCharacter(character: string): number {
  if (/^\p{Mn}+$/u.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}

/** At most `width` columns of a text, with an ellipsis if it was longer. */
export function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  return `${take(text, Math.max(0, width - 1))}…`;
}

/** The beginning of a text that fits `width` columns. */
function take(text: string, width: number): string {
  let taken = '';
  let left = width;
  for (const { segment } of segments.segment(text)) {
    left -= widthOfCharacter(segment);
    if (left < 0) break;
    taken += segment;
  }
  return taken;
}

export function pad(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - widthOf(text)));
}

/** Breaks a text into lines of at most `width` columns, between words if possible. */
export function wrap(text: string, width: number): string[] {
  if (!Number.isFinite(width)) return [text];
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    const joined = line === '' ? word : `${line} ${word}`;
    if (widthOf(joined) <= width) {
      line = joined;
      continue;
    }
    if (line !== '') lines.push(line);
    line = word;
    while (widthOf(line) > width) {
      const part = take(line, Math.max(1, width)) || line.slice(0, 1);
      lines.push(part);
      line = line.slice(part.length);
    }
  }
  lines.push(line);
  return lines;
}
