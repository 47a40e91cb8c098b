import type { FrameEvent, RecordedField } from '@parlance/client/inspect';
import { copy } from '../shared/clipboard.js';
import { create } from '../shared/dom.js';
import { bytes, count, number } from '../shared/format.js';
import { HexView } from './hex.js';
import { type Row, sumOf } from './rows.js';
import { ARROWS, CODECS, clockOf, differenceText, labelOf, RULES, remarkOf, savedText } from './words.js';

/** Everything about one row: fields with their bytes, content, and why this codec. */

/** Fields that are shown at first: more of them take noticeable time. */
const MAX_FIELDS = 150;
const TABS = ['Fields', 'Content', 'Why this codec'] as const;
type Tab = (typeof TABS)[number];

/** A field on a line of its own. */
interface Line {
  readonly field: RecordedField;
  readonly depth: number;
  /** Its offset counts in decoded bytes, so that it has no place of its own in the frame. */
  readonly isInner: boolean;
  /** Bytes of the frame to light. */
  readonly range: readonly [start: number, end: number];
}

export class Details {
  readonly element = create('section', { className: 'details' });
  readonly #heading = create('h2', { tabIndex: -1 });
  readonly #summary = create('p', { className: 'summary', dir: 'auto' });
  readonly #facts = create('p', { className: 'facts' });
  readonly #back = create('button', { type: 'button', className: 'back' }, '← Frames');
  readonly #tabs = new Map<Tab, HTMLButtonElement>();
  readonly #panels = new Map<Tab, HTMLElement>();
  readonly #hex: HexView;
  #fieldRows: HTMLTableRowElement[] = [];
  #lines: Line[] = [];
  #row: Row | undefined;

  constructor(onBack: () => void) {
    this.#hex = new HexView({ onHover: (at) => this.#handleByte(at) });
    this.element.ariaLabel = 'Details of the frame';
    this.#back.addEventListener('click', onBack);
    const list = create('div', { className: 'tabs' });
    list.setAttribute('role', 'tablist');
    list.ariaLabel = 'What to show';
    const panels = TABS.map((name) => {
      const id = `pi-${name.toLowerCase().replaceAll(' ', '-')}`;
      const tab = create('button', { type: 'button', id: `${id}-tab` }, name);
      tab.setAttribute('role', 'tab');
      tab.setAttribute('aria-controls', id);
      tab.addEventListener('click', () => this.select(name));
      const panel = create('div', { id, className: 'panel', tabIndex: 0 });
      panel.setAttribute('role', 'tabpanel');
      panel.setAttribute('aria-labelledby', tab.id);
      this.#tabs.set(name, tab);
      this.#panels.set(name, panel);
      list.append(tab);
      return panel;
    });
    list.addEventListener('keydown', (event) => this.#handleKey(event));
    const head = create('div', { className: 'head' }, this.#back, this.#heading);
    this.element.append(head, this.#summary, this.#facts, list, ...panels);
    this.select('Fields');
  }

  select(name: Tab): void {
    for (const [each, tab] of this.#tabs) {
      const isSelected = each === name;
      tab.ariaSelected = String(isSelected);
      tab.tabIndex = isSelected ? 0 : -1;
      (this.#panels.get(each) as HTMLElement).hidden = !isSelected;
    }
  }

  focus(): void {
    this.#heading.focus();
  }

  /** @param origin of the times, in Unix milliseconds. */
  show(row: Row | undefined, origin: number): void {
    this.#row = row;
    const [first] = row?.entries ?? [];
    const event = first?.event;
    this.element.classList.toggle('none', event === undefined);
    const isFrame = event?.event === 'frame';
    (this.element.querySelector('.tabs') as HTMLElement).hidden = !isFrame;
    for (const panel of this.#panels.values()) panel.classList.toggle('off', !isFrame);
    if (first === undefined || event === undefined) {
      this.#heading.textContent = 'No frame is selected';
      this.#summary.textContent = 'Select a row to see its fields, its content and its bytes.';
      this.#facts.textContent = '';
      return;
    }
    const at = `${clockOf(first.at - origin)} s`;
    if (event.event !== 'frame') {
      this.#heading.textContent = '● the session';
      this.#summary.textContent = remarkOf(event).text;
      this.#facts.textContent = `${at} · ${event.time}`;
      return;
    }
    const runs = row === undefined || row.entries.length === 1 ? '' : ` ×${number(row.entries.length)}`;
    this.#heading.textContent = `${ARROWS[event.direction]} ${event.direction} · ${labelOf(event)}${runs}`;
    this.#summary.textContent = event.error === undefined ? event.summary : '';
    this.#facts.textContent = `${at} · connection ${event.connection} · ${factsOf(event)}`;
    this.#showFields(event);
    if (row !== undefined) this.#showContent(row, event);
    this.#showReason(event);
  }

  // --- fields and bytes

  #showFields(event: FrameEvent): void {
    const panel = this.#panels.get('Fields') as HTMLElement;
    this.#lines = [...linesOf(event.fields, 0, undefined)];
    const table = create('table', { className: 'fields' });
    table.ariaLabel = 'Fields';
    const heads = ['at', 'field', 'value', 'meaning'].map((head) => create('th', { scope: 'col' }, head));
    const body = create('tbody');
    table.append(create('thead', {}, create('tr', {}, ...heads)), body);
    this.#fieldRows = [];
    const add = (lines: readonly Line[]) => {
      for (const line of lines) {
        const row = fieldRow(line);
        this.#fieldRows.push(row);
        body.append(row);
      }
    };
    add(this.#lines.slice(0, MAX_FIELDS));
    table.addEventListener('pointermove', ({ target }) => this.#lightRow(target));
    table.addEventListener('pointerleave', () => this.#light(undefined));
    const rest = this.#lines.length - MAX_FIELDS;
    const more = create(
      'button',
      { type: 'button', className: 'plain', hidden: rest <= 0 },
      `Show ${number(rest)} more`,
    );
    more.addEventListener('click', () => {
      more.hidden = true;
      add(this.#lines.slice(MAX_FIELDS));
    });
    this.#hex.show(event.hex ?? '');
    const shown = (event.hex ?? '').length / 2;
    panel.replaceChildren(...problemsOf(event), table, more);
    if (shown > 0) {
      const of =
        shown < event.sizes.frame
          ? `the first ${count(shown, 'byte')} of ${number(event.sizes.frame)}`
          : count(shown, 'byte');
      const digits = (event.hex ?? '').replaceAll('x', '·');
      panel.append(titled(['Bytes ', create('small', {}, of)], 'Copy hex', digits), this.#hex.element);
    }
    this.#light(undefined);
  }

  #lightRow(target: EventTarget | null): void {
    const row = target instanceof Element ? target.closest('tr') : null;
    const index = row instanceof HTMLTableRowElement ? this.#fieldRows.indexOf(row) : -1;
    this.#light(index < 0 ? undefined : index, true);
  }

  /** The smallest field that has the byte. */
  #handleByte(at: number | undefined): void {
    let found: number | undefined;
    for (const [i, { range, isInner }] of this.#lines.entries()) {
      if (at !== undefined && !isInner && at >= range[0] && at < range[1]) found = i;
    }
    this.#light(found);
    if (found !== undefined) this.#fieldRows[found]?.scrollIntoView({ block: 'nearest' });
  }

  #light(index: number | undefined, scroll = false): void {
    for (const [i, row] of this.#fieldRows.entries()) row.classList.toggle('lit', i === index);
    this.#hex.light(index === undefined ? undefined : this.#lines[index]?.range, scroll);
  }

  // --- content

  #showContent(row: Row, event: FrameEvent): void {
    const panel = this.#panels.get('Content') as HTMLElement;
    const { text, content } = sumOf(row);
    if (text === '') {
      const why =
        event.sizes.body === undefined
          ? 'This frame has no content.'
          : 'The content is not text, or not complete in this frame.';
      panel.replaceChildren(create('p', {}, why));
      return;
    }
    const isWhole = content !== undefined && new TextEncoder().encode(text).length >= content;
    const parts = row.entries.length === 1 ? '' : ` in ${number(row.entries.length)} parts`;
    const of =
      content === undefined ? '' : `${bytes(content)}${parts}${isWhole ? '' : '; the beginning is shown'}`;
    panel.replaceChildren(
      titled(['Text ', create('small', {}, of)], 'Copy text', text),
      create('pre', { className: 'content', dir: 'auto' }, text),
    );
  }

  // --- why this codec

  #showReason(event: FrameEvent): void {
    const panel = this.#panels.get('Why this codec') as HTMLElement;
    const { codec, sizes, selection, direction, tokens } = event;
    if (codec === undefined) {
      panel.replaceChildren(create('p', {}, 'This frame has no body, so there is no codec.'));
      return;
    }
    const parts: Node[] = [
      create('h3', {}, codec),
      create('p', {}, CODECS[codec] ?? 'A codec that this page does not know.'),
    ];
    if (sizes.content !== undefined && sizes.body !== undefined && sizes.content > 0) {
      const many = tokens === undefined ? '' : `, ${count(tokens, 'token')}`;
      const difference = differenceText(sizes.body, sizes.content);
      const saved =
        sizes.body <= sizes.content
          ? `Saved: ${savedText(sizes.body, sizes.content)}, ${difference}.`
          : `That is ${difference} than the content.`;
      parts.push(create('p', {}, `The body has ${bytes(sizes.body)}${many}. ${saved}`));
    }
    if (selection === undefined) {
      const who =
        direction === 'sent'
          ? 'How this end chose the codec was not recorded for this frame.'
          : 'The other end chose this codec, and does not tell why.';
      parts.push(create('p', { className: 'muted' }, who));
    } else {
      const { rule, tried } = selection.reason;
      parts.push(create('p', {}, RULES[rule] ?? rule), candidates(tried, selection.algorithm));
    }
    panel.replaceChildren(...parts);
  }

  #handleKey(event: KeyboardEvent): void {
    const present = TABS.findIndex((name) => this.#tabs.get(name)?.ariaSelected === 'true');
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const next = TABS[(present + step + TABS.length) % TABS.length] as Tab;
    this.select(next);
    this.#tabs.get(next)?.focus();
  }

  /** The row that is shown. */
  get row(): Row | undefined {
    return this.#row;
  }

  showContentTab(): void {
    this.select('Content');
  }
}

/** A heading, and a button that copies what stands below it. */
function titled(title: readonly (Node | string)[], label: string, text: string): HTMLElement {
  const button = create('button', { type: 'button', className: 'plain' }, label);
  button.addEventListener('click', () => void copy(text, button));
  return create('div', { className: 'titled' }, create('h3', {}, ...title), button);
}

function factsOf({ sizes, codec, tokens, form }: FrameEvent): string {
  return [
    bytes(sizes.frame),
    form,
    ...(codec === undefined ? [] : [codec]),
    ...(tokens === undefined ? [] : [count(tokens, 'token')]),
  ].join(' · ');
}

function problemsOf({ error, warnings, missing, isCut, isReplayed, protection }: FrameEvent): HTMLElement[] {
  const texts = [
    ...(error === undefined ? [] : [`${error.code} at byte ${number(error.offset)}: ${error.message}`]),
    ...warnings.map(({ code, offset, message }) => `${code} at byte ${number(offset)}: ${message}`),
    ...(missing.length === 0 ? [] : [`Not loaded, so not decoded: ${missing.join(', ')}`]),
    ...(protection === undefined ? [] : [`Protected with ${protection}: the rest needs the key.`]),
    ...(isCut ? ['Not all fields are listed, so the bytes are not shown.'] : []),
    ...(isReplayed ? ['Written again after the session was resumed.'] : []),
  ];
  return texts.map((text, i) =>
    create('p', { className: i === 0 && error !== undefined ? 'problem' : 'muted' }, text),
  );
}

function* linesOf(
  fields: readonly RecordedField[],
  depth: number,
  outer: readonly [number, number] | undefined,
): Generator<Line> {
  for (const field of fields) {
    const range = outer ?? ([field.offset, field.offset + field.length] as const);
    yield { field, depth, isInner: outer !== undefined, range };
    yield* linesOf(
      field.children ?? [],
      depth + 1,
      outer ?? (field.standsForBytes === undefined ? undefined : range),
    );
  }
}

const MAX_DEPTH = 6;

function fieldRow({ field, depth, isInner }: Line): HTMLTableRowElement {
  const { name, value, offset, note, isSecret } = field;
  const named = create('td', { className: 'name' }, name);
  named.style.paddingInlineStart = `${0.5 + Math.min(MAX_DEPTH, depth) * 0.75}rem`;
  return create(
    'tr',
    { className: isSecret ? 'secret' : '' },
    create('td', { className: 'at' }, `${isInner ? '+' : ''}${offset}`),
    named,
    create('td', { className: 'value', dir: 'auto' }, value === undefined ? '' : String(value)),
    create('td', {}, note ?? ''),
  );
}

function candidates(
  tried: readonly {
    readonly algorithm: string;
    readonly bytes?: number | undefined;
    readonly estimated: boolean;
  }[],
  chosen: string,
): HTMLElement {
  const most = Math.max(1, ...tried.map((trial) => trial.bytes ?? 0));
  const rows = tried.map((trial) => {
    const fill = create('i');
    fill.style.width = `${((trial.bytes ?? 0) / most) * 100}%`;
    const bar = create('span', { className: 'bar' }, fill);
    bar.ariaHidden = 'true';
    const size =
      trial.bytes === undefined
        ? 'cannot carry it'
        : `${trial.estimated ? 'about ' : ''}${bytes(Math.round(trial.bytes))}`;
    return create(
      'tr',
      { className: trial.algorithm === chosen ? 'chosen' : '' },
      create('th', { scope: 'row' }, trial.algorithm, trial.algorithm === chosen ? ' ✓' : ''),
      create('td', {}, size),
      create('td', {}, bar),
    );
  });
  const table = create('table', { className: 'tried' });
  table.ariaLabel = 'Sizes of the body in each codec that was tried';
  table.append(create('tbody', {}, ...rows));
  return table;
}
