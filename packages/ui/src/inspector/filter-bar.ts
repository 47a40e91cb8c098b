import { create } from '../shared/dom.js';
import { number } from '../shared/format.js';
import { type Filter, NO_FILTER } from './filter.js';
import { clockOf } from './words.js';

/** The filters of the table: words, kinds of frames, a stream, and a time. */
export class FilterBar {
  readonly element = create('form', { className: 'filter' });
  readonly #words = create('input', {
    type: 'search',
    placeholder: 'Filter: chunk, #3, CONTEXT',
    autocomplete: 'off',
    spellcheck: false,
  });
  readonly #joins = create('input', { type: 'checkbox', checked: true });
  readonly #housekeeping = create('input', { type: 'checkbox' });
  readonly #chips = create('span', { className: 'chips' });
  readonly #count = create('output');
  readonly #onChange: (filter: Filter) => void;
  #filter = NO_FILTER;
  #begin = 0;

  constructor(onChange: (filter: Filter) => void) {
    this.#onChange = onChange;
    this.#words.ariaLabel = 'Filter';
    this.#words.title = 'Words of a frame, #3 for a stream, 1.5s-2s for a time';
    this.element.append(
      this.#words,
      create('label', {}, this.#joins, 'join chunks'),
      create('label', {}, this.#housekeeping, 'acks, credit, pings'),
      this.#chips,
      this.#count,
    );
    this.element.addEventListener('submit', (event) => event.preventDefault());
    this.element.addEventListener('input', () => this.#read());
  }

  get filter(): Filter {
    return this.#filter;
  }

  /** @param change replaces these members of the filter. */
  change(change: Partial<Filter>): void {
    this.#filter = { ...this.#filter, ...change };
    if (change.words !== undefined) this.#words.value = change.words.join(' ');
    this.#showChips();
    this.#onChange(this.#filter);
  }

  reset(): void {
    this.change({ words: [], lane: undefined, range: undefined });
  }

  focus(): void {
    this.#words.focus();
  }

  /** @param begin of the record, in Unix milliseconds. */
  show({
    frames,
    all,
    begin,
  }: {
    readonly frames: number;
    readonly all: number;
    readonly begin: number;
  }): void {
    this.#begin = begin;
    this.#count.textContent = `${frames === all ? '' : `${number(frames)} of `}${number(all)} ${all === 1 ? 'frame' : 'frames'}`;
  }

  #read(): void {
    const words: string[] = [];
    let range = this.#filter.range;
    for (const word of this.#words.value.toLowerCase().split(/\s+/)) {
      const [, from, to] = /^([\d.]+)s?-([\d.]+)s$/.exec(word) ?? [];
      if (from !== undefined && to !== undefined)
        range = { from: this.#begin + Number(from) * 1000, to: this.#begin + Number(to) * 1000 };
      else if (word !== '') words.push(word);
    }
    const [joins, housekeeping] = [this.#joins.checked, this.#housekeeping.checked];
    this.#filter = { ...this.#filter, words, range, joins, housekeeping };
    this.#showChips();
    this.#onChange(this.#filter);
  }

  #showChips(): void {
    const { lane, range } = this.#filter;
    const chip = (label: string, change: Partial<Filter>) => {
      const made = create('button', { type: 'button', className: 'chip' }, `${label} ×`);
      made.ariaLabel = `Do not restrict to ${label}`;
      made.addEventListener('click', () => this.change(change));
      return made;
    };
    this.#chips.replaceChildren(
      ...(lane === undefined
        ? []
        : [
            chip(lane === 'session' ? 'the session' : lane === 0 ? 'messages' : `stream ${lane}`, {
              lane: undefined,
            }),
          ]),
      ...(range === undefined
        ? []
        : [
            chip(`${clockOf(range.from - this.#begin)} to ${clockOf(range.to - this.#begin)} s`, {
              range: undefined,
            }),
          ]),
    );
  }
}
