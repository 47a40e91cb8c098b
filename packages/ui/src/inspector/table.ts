import { create } from '../shared/dom.js';
import { number } from '../shared/format.js';
import { type Row, sumOf } from './rows.js';
import { isFailure } from './store.js';
import { ARROWS, clockOf, labelOf, remarkOf, savedPercent, spokenOf } from './words.js';

/** Height of a row in CSS pixels, as in the style sheet. */
const ROW_HEIGHT = 28;
/** Rows above and below those that are seen. */
const MARGIN = 8;
/** Most rows that are in the page at a time. */
const MAX_ROWS = 90;
/** Distance from the end within which the table follows it, in CSS pixels. */
const AT_END = 20;
/** Text of a run that is looked at for its line, and what fits into it, in UTF-16 units. */
const RUN_TEXT = 12_000;
const LINE_TEXT = 300;

const HEADS = ['time', 'frame', 'codec', 'wire', 'content', 'saved', 'what it says'] as const;

export interface TableEvents {
  onSelect(row: Row): void;
}

/** The frames as a table of which only the visible rows exist. */
export class Table {
  readonly element: HTMLElement;
  readonly #table = create('table', { className: 'frames', tabIndex: 0, id: 'pi-frames' });
  readonly #body = create('tbody');
  readonly #before = spacer();
  readonly #after = spacer();
  readonly #shown = new Map<number, HTMLTableRowElement>();
  /** The content of each row in the page, to leave rows alone that have not changed. */
  readonly #keys = new WeakMap<HTMLTableRowElement, string>();
  readonly #onSelect: (row: Row) => void;
  #rows: readonly Row[] = [];
  #origin = 0;
  #selected: number | undefined;
  #follows = true;

  constructor({ onSelect }: TableEvents) {
    this.#onSelect = onSelect;
    as('grid', this.#table);
    this.#table.setAttribute('aria-label', 'Frames');
    const heads = HEADS.map((head) =>
      as('columnheader', create('th', { scope: 'col', className: classOf(head) }, head)),
    );
    const head = as('row', create('tr', {}, ...heads));
    head.setAttribute('aria-rowindex', '1');
    this.#body.append(this.#before, this.#after);
    this.#table.append(as('rowgroup', create('thead', {}, head)), as('rowgroup', this.#body));
    this.element = create('div', { className: 'scroll' }, this.#table);
    this.element.addEventListener('scroll', () => {
      const { scrollHeight, scrollTop, clientHeight } = this.element;
      this.#follows = scrollHeight - scrollTop - clientHeight < AT_END;
      this.#paint();
    });
    this.#table.addEventListener('keydown', (event) => this.#handleKey(event));
    this.#body.addEventListener('click', ({ target }) => {
      const row = target instanceof Element ? target.closest('tr[data-number]') : null;
      if (row instanceof HTMLElement) this.#select(this.#indexOf(Number(row.dataset['number'])));
    });
    new ResizeObserver(() => this.#paint()).observe(this.element);
  }

  /**
   * @param origin of the times, in Unix milliseconds.
   * @param gone rows that have disappeared above: the visible rows stay where they are.
   */
  show(rows: readonly Row[], origin: number, gone = 0): void {
    this.#rows = rows;
    this.#origin = origin;
    this.#table.setAttribute('aria-rowcount', String(rows.length + 1));
    const keeps = !this.#follows && gone > 0;
    const top = this.element.scrollTop;
    this.#paint();
    if (this.#follows) this.element.scrollTop = this.element.scrollHeight;
    else if (keeps) this.element.scrollTop = Math.max(0, top - gone * ROW_HEIGHT);
    this.#paint();
  }

  get selected(): number | undefined {
    return this.#selected;
  }

  /** Marks a row, and brings it into view. */
  reveal(index: number): void {
    const row = this.#rows[index];
    if (row === undefined) return;
    this.#selected = row.number;
    this.#follows = false;
    this.#intoView(index);
    this.#paint();
  }

  clear(): void {
    this.#selected = undefined;
    this.#follows = true;
    this.element.scrollTop = 0;
  }

  focus(): void {
    this.#table.focus();
  }

  #indexOf(number: number | undefined): number {
    return this.#rows.findIndex((row) => row.number === number);
  }

  #select(index: number): void {
    const row = this.#rows[Math.max(0, Math.min(this.#rows.length - 1, index))];
    if (row === undefined) return;
    this.reveal(this.#rows.indexOf(row));
    this.#onSelect(row);
  }

  #handleKey(event: KeyboardEvent): void {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW_HEIGHT) - 2);
    const at = this.#indexOf(this.#selected);
    const targets: Readonly<Record<string, number>> = {
      ArrowUp: at < 0 ? this.#rows.length - 1 : at - 1,
      ArrowDown: at + 1,
      PageUp: at - page,
      PageDown: at + page,
      Home: 0,
      End: this.#rows.length - 1,
    };
    const target = targets[event.key];
    if (target === undefined) return;
    event.preventDefault();
    this.#select(target);
  }

  #intoView(index: number): void {
    const { element } = this;
    const head = this.#table.tHead?.offsetHeight ?? 0;
    const top = index * ROW_HEIGHT;
    if (top < element.scrollTop) element.scrollTop = top;
    const bottom = top + ROW_HEIGHT + head - element.clientHeight;
    if (bottom > element.scrollTop) element.scrollTop = bottom;
  }

  #paint(): void {
    const { scrollTop, clientHeight } = this.element;
    const count = Math.min(MAX_ROWS, Math.ceil(clientHeight / ROW_HEIGHT) + 2 * MARGIN);
    const last = Math.max(0, this.#rows.length - count);
    const first = Math.min(last, Math.max(0, Math.floor(scrollTop / ROW_HEIGHT) - MARGIN));
    const visible = this.#rows.slice(first, first + count);
    const numbers = new Set(visible.map(({ number }) => number));
    for (const [number, row] of this.#shown) {
      if (numbers.has(number)) continue;
      row.remove();
      this.#shown.delete(number);
    }
    let previous: HTMLTableRowElement = this.#before;
    for (const [i, row] of visible.entries()) {
      const element = this.#shown.get(row.number) ?? as('row', create('tr', { id: `pi-row-${row.number}` }));
      this.#shown.set(row.number, element);
      this.#fill(element, row, first + i);
      if (previous.nextElementSibling !== element) previous.after(element);
      previous = element;
    }
    setHeight(this.#before, first);
    setHeight(this.#after, this.#rows.length - first - visible.length);
    const active = this.#selected === undefined ? undefined : this.#shown.get(this.#selected);
    if (active === undefined) this.#table.removeAttribute('aria-activedescendant');
    else this.#table.setAttribute('aria-activedescendant', active.id);
  }

  #fill(element: HTMLTableRowElement, row: Row, index: number): void {
    const isSelected = row.number === this.#selected;
    const key = `${index} ${row.entries.length} ${this.#origin} ${isSelected}`;
    if (this.#keys.get(element) === key) return;
    this.#keys.set(element, key);
    element.dataset['number'] = String(row.number);
    element.setAttribute('aria-rowindex', String(index + 2));
    element.setAttribute('aria-selected', String(isSelected));
    element.replaceChildren(...cellsOf(row, this.#origin));
    element.className = moodOf(row);
  }
}

/** The style sheet lays rows out as grids, which may take away the roles that elements have by themselves. */
function as<E extends HTMLElement>(role: string, element: E): E {
  element.setAttribute('role', role);
  return element;
}

function spacer(): HTMLTableRowElement {
  const row = create('tr', { className: 'spacer' });
  row.setAttribute('aria-hidden', 'true');
  row.append(create('td'));
  return row;
}

function setHeight(row: HTMLTableRowElement, rows: number): void {
  row.hidden = rows === 0;
  (row.firstElementChild as HTMLElement).style.height = `${rows * ROW_HEIGHT}px`;
}

function classOf(head: (typeof HEADS)[number]): string {
  return head === 'what it says' ? 'says' : head;
}

function moodOf({ entries }: Row): string {
  const { event } = entries[0] ?? {};
  if (event === undefined) return '';
  if (event.event !== 'frame') return `remark ${remarkOf(event).mood}`;
  return `${event.direction}${isFailure(event) ? ' failed' : ''}`;
}

function cellsOf(row: Row, origin: number): HTMLElement[] {
  const [first] = row.entries;
  if (first === undefined) return [];
  const { at, event } = first;
  const cell = (className: string, ...content: (Node | string)[]) =>
    as('gridcell', create('td', { className }, ...content));
  const time = cell('time', clockOf(at - origin));
  if (event.event !== 'frame') {
    return [time, cell('said', `● ${remarkOf(event).text}`)];
  }
  const { wire, content, text, codec, again } = sumOf(row, RUN_TEXT);
  const runs = row.entries.length > 1 ? ` ×${row.entries.length}` : '';
  const says =
    runs === ''
      ? (event.error?.message ?? event.summary)
      : spokenOf(text).replaceAll(/\s+/g, ' ').slice(0, LINE_TEXT);
  return [
    time,
    cell('frame', `${ARROWS[event.direction]} ${labelOf(event)}${runs}`),
    cell('codec', codec ?? ''),
    cell('wire', number(wire)),
    cell('content', content === undefined ? '' : number(content)),
    cell('saved', ...savedBar(wire, content)),
    cell('says', ...(again > 0 ? [create('em', {}, 'again')] : []), says),
  ];
}

/** A bar and its figure; nothing if the content is not known or empty. */
function savedBar(wire: number, content: number | undefined): Node[] {
  if (content === undefined || content === 0) return [];
  const percent = savedPercent(wire, content);
  if (percent < 0) return [create('span', {}, `−${number(-percent)}\u00a0%`)];
  const fill = create('i');
  fill.style.width = `${percent}%`;
  const bar = create('span', { className: 'bar' }, fill);
  bar.ariaHidden = 'true';
  return [bar, create('span', {}, `${percent}\u00a0%`)];
}
