import type { TokenizerAndRendererExtension, Tokens } from 'marked';

/** Formulas and footnotes, which are not part of GitHub's Markdown but of what models write. */

/** UTF-16 units of a formula; longer ones are shown as they were written. */
const MAX_FORMULA = 2_000;
const MAX_LABEL = 40;

interface Formula extends Tokens.Generic {
  readonly text: string;
}

/** `open` and `close` around a formula, without a blank line in it. */
function formula(
  name: string,
  level: 'block' | 'inline',
  open: string,
  close: string,
): TokenizerAndRendererExtension {
  const isDisplayed = open !== '\\(';
  return {
    name,
    level,
    start: (source) => {
      const at = source.indexOf(open);
      return at < 0 ? undefined : at;
    },
    tokenizer(source) {
      if (!source.startsWith(open)) return undefined;
      const end = source.indexOf(close, open.length);
      if (end < 0 || end > MAX_FORMULA) return undefined;
      const text = source.slice(open.length, end);
      if (text.trim() === '' || /\n[ \t]*\n/.test(text)) return undefined;
      const after = end + close.length;
      // A block ends with its line.
      const rest =
        level === 'block' ? /^[ \t]*(?:\n+|$)/.exec(source.slice(after, after + MAX_FORMULA)) : [''];
      if (rest === null) return undefined;
      return { type: name, raw: source.slice(0, after) + rest[0], text: text.trim() };
    },
    renderer: ({ text }) =>
      `<span class="${isDisplayed ? 'maths display' : 'maths'}">${escapeHtml((text as Formula['text']) ?? '')}</span>`,
  };
}

const LABEL = `\\[\\^([^\\]\\s]{1,${MAX_LABEL}})\\]`;
const REFERENCE = new RegExp(`^${LABEL}(?!:)`);
const NOTE = new RegExp(`^${LABEL}:[ \\t]*([^\\n]*(?:\\n(?![ \\t]*(?:\\n|\\[\\^))[^\\n]+)*)(?:\\n+|$)`);

const reference: TokenizerAndRendererExtension = {
  name: 'footnoteReference',
  level: 'inline',
  start: (source) => {
    const at = source.indexOf('[^');
    return at < 0 ? undefined : at;
  },
  tokenizer(source) {
    const found = REFERENCE.exec(source);
    return found === null ? undefined : { type: 'footnoteReference', raw: found[0], label: found[1] };
  },
  renderer: ({ label }) => `<sup class="note-reference">${escapeHtml(String(label))}</sup>`,
};

const note: TokenizerAndRendererExtension = {
  name: 'footnote',
  level: 'block',
  start: (source) => {
    const at = source.indexOf('\n[^');
    return at < 0 ? undefined : at + 1;
  },
  tokenizer(source) {
    const found = NOTE.exec(source);
    if (found === null) return undefined;
    const [raw, label, text = ''] = found;
    return { type: 'footnote', raw, label, tokens: this.lexer.inlineTokens(text) };
  },
  renderer({ label, tokens = [] }) {
    return `<p class="note-text"><sup>${escapeHtml(String(label))}</sup> ${this.parser.parseInline(tokens)}</p>`;
  },
};

export const EXTRAS: TokenizerAndRendererExtension[] = [
  formula('formulaBlock', 'block', '\\[', '\\]'),
  formula('formulaDollars', 'block', '$$', '$$'),
  formula('formulaDisplayed', 'inline', '\\[', '\\]'),
  formula('formulaDisplayedDollars', 'inline', '$$', '$$'),
  formula('formulaInline', 'inline', '\\(', '\\)'),
  reference,
  note,
];

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
