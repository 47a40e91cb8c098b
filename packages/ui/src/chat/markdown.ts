import createDOMPurify, { type Config } from 'dompurify';
import { Marked, type Token, type TokensList } from 'marked';
import { copy as copyText } from '../shared/clipboard.js';
import { create } from '../shared/dom.js';
import { icon } from '../shared/icons.js';
import { segmentsOf } from './markdown-bounds.js';
import { EXTRAS, escapeHtml } from './markdown-extras.js';

/** Markdown of a model as elements. Loaded when the first answer arrives. */

/** A paragraph, list, table or the like. */
export interface Block {
  readonly source: string;
  /** `undefined` if it is shown as it was written. */
  readonly tokens: readonly Token[] | undefined;
}

export interface Blocks {
  readonly blocks: readonly Block[];
  /** Whether a block refers to a link that another one defines. */
  readonly hasLinks: boolean;
}

/** How a block is shown. */
export interface Showing {
  /** Its text may become longer. */
  readonly isGrowing: boolean;
  /** Something that it needs has been loaded: it can be shown better now. */
  onLoaded(): void;
}

const marked = new Marked({
  extensions: EXTRAS,
  gfm: true,
  breaks: true,
  renderer: {
    // A model's HTML is text about HTML: it is shown and never interpreted.
    html: ({ text }) => escapeHtml(text),
    // An image would tell another server that, and when, this answer is read.
    image: ({ href, text }) => `<a href="${escapeHtml(href)}">${escapeHtml(text || href)}</a>`,
  },
});

const purify = createDOMPurify(window);
const ALLOWED = {
  ALLOWED_TAGS: [
    ...['p', 'br', 'hr', 'strong', 'em', 'del', 'code', 'pre', 'a', 'blockquote', 'ul', 'ol', 'li', 'input'],
    ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'table', 'thead', 'tbody', 'tr', 'th', 'td', 'span', 'sup'],
  ],
  ALLOWED_ATTR: ['href', 'title', 'align', 'start', 'class', 'type', 'checked', 'disabled'],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  // With a pattern for addresses, every other attribute has to match it as well, unless it is listed here.
  ADD_URI_SAFE_ATTR: ['align', 'start', 'type'],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true as const,
} satisfies Config;

const FORMULA = {
  USE_PROFILES: { mathMl: true },
  FORBID_ATTR: ['style', 'href'],
  RETURN_DOM_FRAGMENT: true as const,
} satisfies Config;

/** Divides a text into its blocks. A fence that is not closed yet is a code block to the end. */
export function blocksOf(text: string): Blocks {
  const blocks: { source: string; tokens: Token[] | undefined }[] = [];
  let hasLinks = false;
  for (const { text: piece, isPlain } of segmentsOf(text)) {
    if (isPlain) {
      blocks.push({ source: piece, tokens: undefined });
      continue;
    }
    const tokens: TokensList = marked.lexer(piece);
    hasLinks ||= Object.keys(tokens.links).length > 0;
    for (const token of tokens) {
      const last = blocks.at(-1);
      if (token.type === 'space' && last !== undefined) last.source += token.raw;
      else blocks.push({ source: token.raw, tokens: [token] });
    }
  }
  return { blocks, hasLinks };
}

export function render({ source, tokens }: Block, showing: Showing): DocumentFragment {
  if (tokens === undefined) {
    const plain = document.createDocumentFragment();
    plain.append(create('p', { className: 'plain', dir: 'auto' }, source.trimEnd()));
    return plain;
  }
  const fragment = purify.sanitize(marked.parser([...tokens]), ALLOWED);
  for (const link of fragment.querySelectorAll('a')) {
    if (!link.hasAttribute('href')) continue;
    link.target = '_blank';
    link.rel = 'noreferrer noopener';
  }
  for (const box of fragment.querySelectorAll('input')) {
    box.closest('li')?.classList.add('task');
    if (box.type !== 'checkbox') box.remove();
    else box.replaceWith(box.checked ? '☑' : '☐');
  }
  for (const heading of fragment.querySelectorAll('h1, h2, h3, h4, h5, h6')) {
    // Its words are still to come, or the answer was stopped before them.
    if (heading.textContent?.trim() === '') heading.remove();
    else heading.replaceWith(levelled(heading));
  }
  if (!showing.isGrowing) dropEmptyEnds(fragment);
  for (const table of fragment.querySelectorAll('table')) scrollable(table);
  for (const pre of fragment.querySelectorAll('pre')) pre.replaceWith(codeBlock(pre, showing));
  for (const formula of fragment.querySelectorAll<HTMLElement>('span.maths')) showFormula(formula, showing);
  for (const reference of fragment.querySelectorAll('sup.note-reference')) linkNote(reference);
  return fragment;
}

/** The last item of a list whose words have not come, and a list that has no other. */
function dropEmptyEnds(fragment: DocumentFragment): void {
  // Lists within come after those around them.
  for (const list of [...fragment.querySelectorAll('ol, ul')].reverse()) {
    const last = list.lastElementChild;
    if (last?.textContent?.trim() === '') last.remove();
    if (list.childElementCount === 0) list.remove();
  }
}

/** The answer is within a third level already, and models skip levels. */
function levelled(heading: Element): HTMLElement {
  const level = create('h4', { className: `depth-${heading.tagName.slice(1)}` });
  level.append(...heading.childNodes);
  return level;
}

function scrollable(table: HTMLTableElement): void {
  for (const head of table.querySelectorAll('th')) {
    if (head.textContent === '') head.replaceWith(create('td'));
    else head.scope = 'col';
  }
  for (const each of table.querySelectorAll('[class]')) each.removeAttribute('class');
  const box = create('div', { className: 'table', tabIndex: 0, role: 'group', ariaLabel: 'Table' });
  table.replaceWith(box);
  box.append(table);
}

function codeBlock(pre: HTMLElement, showing: Showing): HTMLElement {
  const text = pre.textContent ?? '';
  const language = /language-([\w+#.-]+)/.exec(pre.querySelector('code')?.className ?? '')?.[1] ?? '';
  const copy = create('button', {
    type: 'button',
    className: 'copy',
    ariaLabel: 'Copy code',
    title: 'Copy code',
  });
  copy.append(icon('copy'));
  copy.addEventListener('click', () => void copyText(text.replace(/\n$/, ''), copy));
  const wrap = create('button', {
    type: 'button',
    ariaLabel: 'Wrap lines',
    title: 'Wrap lines',
    ariaPressed: 'false',
  });
  wrap.append(icon('wrap'));
  const label = language === '' ? 'Code' : `Code in ${language}`;
  const head = create('div', { className: 'code-head' }, create('span', {}, language || 'text'), wrap, copy);
  const code = create('code', {}, ...wordsOfCode(text, language, showing));
  const box = create(
    'div',
    { className: 'code', dir: 'ltr' },
    head,
    create('pre', { tabIndex: 0, role: 'group', ariaLabel: label }, code),
  );
  wrap.addEventListener('click', () => {
    wrap.ariaPressed = String(box.classList.toggle('wrapped'));
  });
  return box;
}

/** UTF-16 units of code that are coloured; while it grows, it is coloured with each paint. */
const MAX_COLOURED = 30_000;
const MAX_GROWING = 3_000;

let highlighter: Pick<typeof import('./highlight.js'), 'isKnown' | 'highlight'> | undefined;
let maths: Pick<typeof import('./maths.js'), 'mathsOf'> | undefined;

function wordsOfCode(text: string, language: string, { isGrowing, onLoaded }: Showing): (Node | string)[] {
  if (language === '' || text.length > (isGrowing ? MAX_GROWING : MAX_COLOURED)) return [text];
  if (highlighter !== undefined)
    return [highlighter.isKnown(language) ? highlighter.highlight(text, language) : text];
  import('./highlight.js').then(
    ({ isKnown, highlight }) => {
      highlighter = { isKnown, highlight };
      onLoaded();
    },
    (error: unknown) => console.info('code is shown without colours:', error),
  );
  return [text];
}

/** Until it can be shown, and if it is not valid, it is text. */
function showFormula(formula: HTMLElement, { onLoaded }: Showing): void {
  const tex = formula.textContent ?? '';
  const shown = maths?.mathsOf(tex, formula.classList.contains('display'));
  if (shown !== undefined) formula.replaceChildren(purify.sanitize(shown, FORMULA));
  else formula.replaceChildren(create('code', {}, tex));
  if (maths !== undefined) return;
  import('./maths.js').then(
    ({ mathsOf }) => {
      maths = { mathsOf };
      onLoaded();
    },
    (error: unknown) => console.info('formulas are shown as text:', error),
  );
}

function linkNote(reference: Element): void {
  const label = reference.textContent ?? '';
  const button = create('button', { type: 'button', ariaLabel: `Footnote ${label}` }, label);
  button.addEventListener('click', () => {
    const notes = button.closest('answer-text')?.querySelectorAll('.note-text > sup:first-child') ?? [];
    const note = [...notes].find(({ textContent }) => textContent === label)?.parentElement;
    note?.scrollIntoView({ block: 'nearest' });
  });
  reference.replaceChildren(button);
}
