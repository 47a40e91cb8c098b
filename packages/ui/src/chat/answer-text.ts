import { create } from '../shared/dom.js';

/** An answer as it is written: its Markdown, and marks where something happened to the connection. */

type Markdown = typeof import('./markdown.js');

let markdown: Markdown | undefined;
let loading: Promise<Markdown | undefined> | undefined;

/** Loads what shows Markdown. Without it, answers are plain text. */
export function loadMarkdown(): Promise<Markdown | undefined> {
  loading ??= import('./markdown.js').then(
    ({ blocksOf, render }) => {
      markdown = { blocksOf, render };
      return markdown;
    },
    (error: unknown) => {
      loading = undefined;
      console.info('answers are shown as plain text:', error);
      return undefined;
    },
  );
  return loading;
}

interface Shown {
  readonly element: HTMLElement;
  /** Where its source begins in the answer. */
  readonly start: number;
  source: string;
  /** Its text could become longer when it was shown. */
  isGrowing: boolean;
}

interface Mark {
  readonly element: HTMLElement;
  /** The block that it is in, and how much of the text of this block comes before it. */
  readonly block: number;
  readonly offset: number;
}

/** Of a link or a footnote. */
const DEFINITION = /^ {0,3}(?:[>*+-] *)*\[[^\]\n]+\]:/m;
/** How long a page in the background may show an old text. */
const BACKGROUND_MS = 250;

export class AnswerText extends HTMLElement {
  #source = '';
  #blocks: Shown[] = [];
  #marks: Mark[] = [];
  #isDue = false;
  #isPlain = false;
  #isComplete = false;

  /** The text that the model wrote. */
  get source(): string {
    return this.#source;
  }

  set source(text: string) {
    if (text === this.#source) return;
    if (!text.startsWith(this.#source)) this.#clear();
    this.#source = text;
    this.#isComplete = false;
    this.#paintSoon();
  }

  /** Shows at once what is due, and links whose addresses came at the end. */
  complete(): void {
    this.#isComplete = true;
    this.#paint();
  }

  /** Marks the place after the last word that is shown. */
  mark(element: HTMLElement): void {
    this.#paint();
    const block = Math.max(0, this.#blocks.length - 1);
    const shown = this.#blocks[block]?.element;
    this.#marks.push({ element, block, offset: shown === undefined ? 0 : lengthOf(shown) });
    this.#placeMarks(block);
  }

  #clear(): void {
    this.#blocks = [];
    this.#marks = [];
    this.replaceChildren();
  }

  #paintSoon(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    const paint = () => {
      if (this.#isDue) this.#paint();
    };
    if (document.hidden) setTimeout(paint, BACKGROUND_MS);
    else requestAnimationFrame(paint);
  }

  #paint(): void {
    this.#isDue = false;
    if (this.#source === '') return;
    if (markdown === undefined) this.#paintPlain();
    else this.#paintBlocks(markdown);
  }

  #paintPlain(): void {
    const element = this.#blocks[0]?.element ?? this.#append(0).element;
    this.#isPlain = true;
    element.classList.add('plain');
    element.textContent = this.#source;
    this.#placeMarks(0);
    void loadMarkdown().then((loaded) => {
      if (loaded !== undefined) this.#paintSoon();
    });
  }

  /** Only the last block can change as the text grows, and what follows it is new. */
  #paintBlocks({ blocksOf, render }: Markdown): void {
    if (this.#isPlain) {
      this.#isPlain = false;
      this.#blocks = [];
      this.replaceChildren();
    }
    // A definition at the end changes blocks before it.
    const isChanged = this.#isComplete && DEFINITION.test(this.#source);
    const first = isChanged ? 0 : Math.max(0, this.#blocks.length - 1);
    const from = this.#blocks[first]?.start ?? 0;
    const { blocks, hasLinks } = blocksOf(this.#source.slice(from));
    let start = from;
    for (const [i, block] of blocks.entries()) {
      const shown = this.#blocks[first + i] ?? this.#append(start);
      start += block.source.length;
      const isGrowing = !this.#isComplete && i === blocks.length - 1;
      // Long code gets its colours at its end, and a list loses an item without words.
      const isSettled =
        shown.isGrowing && !isGrowing && /^(?:code|list)$/.test(block.tokens?.[0]?.type ?? '');
      if (shown.source === block.source && !isSettled && !(this.#isComplete && hasLinks)) continue;
      shown.source = block.source;
      shown.isGrowing = isGrowing;
      const show = () => {
        shown.element.replaceChildren(render(block, { isGrowing, onLoaded }));
        this.#placeMarks(first + i);
      };
      const onLoaded = () => {
        if (shown.source === block.source && shown.element.isConnected) show();
      };
      show();
    }
    for (const { element } of this.#blocks.splice(first + blocks.length)) element.remove();
  }

  #append(start: number): Shown {
    const shown: Shown = {
      element: create('div', { className: 'block', dir: 'auto' }),
      start,
      source: '',
      isGrowing: false,
    };
    this.#blocks.push(shown);
    this.append(shown.element);
    return shown;
  }

  #placeMarks(index: number): void {
    const block = this.#blocks[index]?.element;
    for (const mark of this.#marks) {
      if (mark.block !== index) continue;
      if (block === undefined) this.prepend(mark.element);
      else place(mark, block);
    }
  }
}

customElements.define('answer-text', AnswerText);

function place({ element, offset }: Mark, block: HTMLElement): void {
  element.remove();
  // A list, a table or a heading that began with the loss comes after it.
  if (offset === 0) return block.prepend(element);
  let left = offset;
  const texts = textsOf(block);
  for (let text = texts.nextNode() as Text | null; text !== null; text = texts.nextNode() as Text | null) {
    const visible = visibleIn(text);
    if (left > visible) {
      left -= visible;
      continue;
    }
    // There is no place for it between cells.
    const table = text.parentElement?.closest('.table');
    if (table) table.after(element);
    else text.splitText(indexAfter(text, left)).before(element);
    return;
  }
  block.append(element);
}

/** Characters but for white space, whose amount changes while Markdown grows. */
function lengthOf(block: HTMLElement): number {
  const texts = textsOf(block);
  let length = 0;
  while (texts.nextNode() !== null) length += visibleIn(texts.currentNode as Text);
  return length;
}

function visibleIn({ data }: Text): number {
  return data.replace(/\s+/gu, '').length;
}

/** The place in a text after this many visible characters. */
function indexAfter({ data }: Text, visible: number): number {
  let left = visible;
  let index = 0;
  for (; index < data.length && left > 0; index++) if (/\S/u.test(data[index] as string)) left--;
  return index;
}

/** The texts of the model, without those of the page. */
function textsOf(block: HTMLElement): TreeWalker {
  return document.createTreeWalker(block, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT, (node) => {
    if (node instanceof Text) return NodeFilter.FILTER_ACCEPT;
    return (node as Element).matches('.code-head, .mark, math, .note-reference')
      ? NodeFilter.FILTER_REJECT
      : NodeFilter.FILTER_SKIP;
  });
}
