/**
 * The bounds of the text that is parsed as Markdown. The parser takes quadratic time for some texts and recurses for
 * each level of a quote or a list, and a model may send any text. So the paragraphs, lists and tables that are over a
 * bound are shown as they were written.
 */

/** A piece of a text, between blank lines. */
export interface Segment {
  readonly text: string;
  /** It is over a bound. */
  readonly isPlain: boolean;
}

/** UTF-16 units of lines without a blank line between them; code between fences is not counted. */
export const MAX_LENGTH = 20_000;
/** Characters of these lines that may begin or end something, line ends included. */
export const MAX_DELIMITERS = 2_000;
/** Spaces and tabs in a row. */
export const MAX_BLANKS = 200;
/** Quotes and lists that begin within one line. */
export const MAX_DEPTH = 32;

const DELIMITER = /[*_~`[\]!<>&\\\n]/g;
const BLANKS = new RegExp(`[ \\t]{${MAX_BLANKS + 1}}`);
const FENCE = /^ {0,3}(?:(`{3,})[^`]*|(~{3,}).*)$/;
/** Markers of quotes and lists, one after the other. */
const NESTED = new RegExp(`^(?:[ \\t]*(?:>|(?:[-*+]|\\d{1,9}[.)])(?=[ \\t]|$))){${MAX_DEPTH + 1}}`);

/** Divides a text. Its pieces together are the text; pieces that are parsed are as long as they can be. */
export function segmentsOf(text: string): Segment[] {
  const segments: Segment[] = [];
  const add = (from: number, to: number, isPlain: boolean) => {
    const last = segments.at(-1);
    const piece = text.slice(from, to);
    if (last?.isPlain === false && !isPlain)
      segments[segments.length - 1] = { text: last.text + piece, isPlain };
    else if (piece !== '') segments.push({ text: piece, isPlain });
  };
  /** The fence that closes the code that the line is in. */
  let fence: string | undefined;
  let start = 0;
  let length = 0;
  let delimiters = 0;
  let isPlain = false;
  let isBlank = false;
  for (let at = 0; at < text.length; ) {
    const newline = text.indexOf('\n', at);
    const end = newline < 0 ? text.length : newline + 1;
    const line = text.slice(at, newline < 0 ? end : newline);
    if (fence !== undefined) {
      const closing = line.trim();
      const isClosed =
        closing.length >= fence.length && closing === (fence[0] as string).repeat(closing.length);
      if (isClosed && /^ {0,3}\S/.test(line)) fence = undefined;
    } else if (line.trim() === '') {
      isBlank = true;
    } else {
      if (isBlank) {
        add(start, at, isPlain);
        [start, length, delimiters, isPlain] = [at, 0, 0, false];
      }
      isBlank = false;
      const opened = FENCE.exec(line);
      fence = opened?.[1] ?? opened?.[2];
      length += line.length;
      delimiters += line.match(DELIMITER)?.length ?? 0;
      delimiters++;
      isPlain ||=
        length > MAX_LENGTH || delimiters > MAX_DELIMITERS || BLANKS.test(line) || NESTED.test(line);
    }
    at = end;
  }
  add(start, text.length, isPlain);
  return segments;
}
