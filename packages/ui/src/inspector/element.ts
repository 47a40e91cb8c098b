import type { FrameEvent, InspectionEvent } from '@parlance/client/inspect';
import { create } from '../shared/dom.js';
import { saveCapture } from './capture.js';
import { Details } from './details.js';
import { type Filter, type LaneName, laneOf, NO_FILTER } from './filter.js';
import { FilterBar } from './filter-bar.js';
import { Lanes } from './lanes.js';
import { type Row, Rows } from './rows.js';
import { MAX_FRAMES, Store } from './store.js';
import { Table } from './table.js';
import { Tiles } from './tiles.js';
import { Timeline } from './timeline.js';

/** Events that wait while the inspector is paused. */
const MAX_HELD = MAX_FRAMES;

/**
 * `<parlance-inspector>`: shows the events of a session as a time line, a table and the details of a frame. It keeps
 * the newest 5,000 frames, and has 90 rows in the page at most. Its style sheet is `inspector.css`.
 */
export class ParlanceInspector extends HTMLElement {
  /** The watched source, and the controls that change it. */
  readonly source = create('div', { className: 'source' });
  /** Shown in place of an empty record. */
  readonly welcome = create('section', { className: 'welcome' });
  /** Called with a file that the user has chosen or dropped. */
  onOpen: ((file: File) => void) | undefined;
  /** Called when the user has deleted the record. */
  onClear: (() => void) | undefined;

  readonly #store = new Store();
  readonly #rows = new Rows(NO_FILTER);
  readonly #lanes = new Lanes();
  readonly #tiles = new Tiles();
  readonly #table = new Table({ onSelect: (row) => this.#select(row) });
  readonly #details = new Details(() => this.#showFrames());
  readonly #timeline = new Timeline(this.#lanes, {
    onRange: (range) => this.#bar.change({ range }),
    onLane: (lane) => this.#bar.change({ lane: lane === this.#bar.filter.lane ? undefined : lane }),
  });
  readonly #bar = new FilterBar((filter) => this.#applyFilter(filter));
  readonly #pause = button('Pause', () => this.#togglePause());
  readonly #save = button('Save', () => void this.#saveAll());
  readonly #clear = button('Clear', () => {
    this.clear();
    this.onClear?.();
  });
  readonly #file = create('input', { type: 'file', accept: '.jsonl,.ndjson,.json,.txt', hidden: true });
  /** Set while paused. */
  #held: InspectionEvent[] | undefined;
  #isDue = false;
  #gone = 0;
  /** Finds the frame to show once it is there. */
  #wanted: ((event: FrameEvent) => boolean) | undefined;

  connectedCallback(): void {
    this.ownerDocument.addEventListener('keydown', this.#onKey);
    if (this.childElementCount > 0) return;
    const open = button('Open…', () => this.#file.click());
    this.#file.ariaLabel = 'Capture to open';
    this.#file.addEventListener('change', () => {
      const [file] = this.#file.files ?? [];
      this.#file.value = '';
      if (file !== undefined) this.onOpen?.(file);
    });
    const tools = create(
      'div',
      { className: 'tools' },
      this.#pause,
      this.#clear,
      this.#save,
      open,
      this.#file,
    );
    const title = create('h1', {}, 'Parlance ', create('span', {}, 'inspector'));
    const frames = create('section', { className: 'list' }, this.#bar.element, this.#table.element);
    frames.ariaLabel = 'Frames';
    const panes = create('div', { className: 'panes' }, frames, this.#details.element);
    this.append(
      create('header', {}, title, this.source, tools),
      create('main', {}, this.welcome, this.#tiles.element, this.#timeline.element, panes),
    );
    this.addEventListener('dragover', (event) => event.preventDefault());
    this.addEventListener('drop', (event) => {
      event.preventDefault();
      const [file] = event.dataTransfer?.files ?? [];
      if (file !== undefined) this.onOpen?.(file);
    });
    this.#details.show(undefined, 0);
    this.#paint();
  }

  disconnectedCallback(): void {
    this.ownerDocument.removeEventListener('keydown', this.#onKey);
  }

  /** Keys count here, and where nothing has the focus. */
  readonly #onKey = (event: KeyboardEvent) => {
    const { target } = event;
    if (target instanceof Node && (this.contains(target) || target === this.ownerDocument.body))
      this.#handleKey(event);
  };

  /** Whether something is being recorded. */
  set isLive(isLive: boolean) {
    this.dataset['live'] = String(isLive);
    this.#schedule();
  }

  add(events: readonly InspectionEvent[]): void {
    if (this.#held !== undefined) {
      this.#held.push(...events);
      if (this.#held.length > MAX_HELD) this.#held.splice(0, this.#held.length - MAX_HELD);
      this.#pause.textContent = `Resume (${this.#held.length})`;
      return;
    }
    const lost = this.#store.add(events);
    const { entries, begin } = this.#store;
    const added = entries.slice(Math.max(0, entries.length - events.length));
    if (lost > 0) {
      this.#gone += this.#rows.drop(entries[0]);
      this.#lanes.drop(begin);
    }
    this.#rows.add(added);
    this.#lanes.add(added);
    this.#schedule();
  }

  clear(): void {
    this.#store.clear();
    this.#lanes.clear();
    this.#held = this.#held && [];
    this.#wanted = undefined;
    this.#table.clear();
    this.#bar.reset();
    this.#details.show(undefined, 0);
    this.#showFrames();
    this.#schedule();
  }

  /** Shows the stream of the first frame for which `test` is true, now or as soon as it arrives. */
  find(test: (event: FrameEvent) => boolean): void {
    this.#wanted = test;
    this.#schedule();
  }

  /** Whether anything is recorded. */
  get isEmpty(): boolean {
    return this.#store.entries.length === 0;
  }

  #schedule(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      this.#paint();
    });
  }

  #paint(): void {
    const { begin, end, totals, dropped } = this.#store;
    this.dataset['state'] = this.isEmpty ? 'empty' : 'filled';
    for (const each of [this.#clear, this.#save]) each.disabled = this.isEmpty;
    this.#pause.disabled = this.dataset['live'] !== 'true' && this.#held === undefined;
    this.#tiles.show(totals, dropped);
    this.#timeline.show(begin, end, this.#bar.filter.lane);
    this.#findWanted();
    this.#table.show(this.#rows.all, begin, this.#gone);
    this.#gone = 0;
    this.#bar.show({ frames: this.#rows.frames, all: totals.frames - dropped, begin });
    // A run may have grown.
    const index = this.#rows.indexOf(this.#table.selected ?? -1);
    const row = this.#rows.all[index];
    if (row !== undefined && row === this.#details.row && row.entries.length !== this.#shownEntries)
      this.#open(row);
  }

  #shownEntries = 0;

  #open(row: Row): void {
    this.#shownEntries = row.entries.length;
    this.#details.show(row, this.#store.begin);
  }

  #findWanted(): void {
    const test = this.#wanted;
    if (test === undefined) return;
    const found = this.#store.entries.find(({ event }) => event.event === 'frame' && test(event));
    if (found === undefined || found.event.event !== 'frame') return;
    this.#wanted = undefined;
    this.#showLane(laneOf(found.event));
  }

  #select(row: Row): void {
    this.#open(row);
    this.dataset['view'] = 'details';
  }

  /** Where only one of them has room, shows the frames in place of the details. */
  #showFrames(): void {
    if (this.dataset['view'] !== 'details') return;
    this.dataset['view'] = 'frames';
    this.#table.focus();
  }

  #applyFilter(filter: Filter): void {
    this.#rows.rebuild(this.#store.entries, filter);
    const index = this.#rows.indexOf(this.#table.selected ?? -1);
    if (index >= 0) this.#table.show(this.#rows.all, this.#store.begin);
    if (index >= 0) this.#table.reveal(index);
    this.#schedule();
  }

  #showLane(lane: LaneName): void {
    this.#bar.change({ lane, words: [] });
    this.#timeline.reveal(lane);
    const [row] = this.#rows.all;
    if (row === undefined) return;
    this.#table.show(this.#rows.all, this.#store.begin);
    this.#table.reveal(0);
    this.#open(row);
  }

  #handleKey(event: KeyboardEvent): void {
    const { key, target, altKey, ctrlKey, metaKey } = event;
    if (altKey || ctrlKey || metaKey) return;
    const isTyping = target instanceof HTMLInputElement && target.type !== 'checkbox';
    if (key === 'Escape') return this.#escape();
    if (isTyping || target instanceof HTMLSelectElement || this.isEmpty) return;
    if (key === '/') this.#bar.focus();
    else if (key === 'c') this.#details.showContentTab();
    else if (key === 'ArrowRight' || key === 'ArrowLeft') this.#step(key === 'ArrowRight' ? 1 : -1);
    else return;
    event.preventDefault();
  }

  #step(by: number): void {
    const lanes = this.#lanes.all;
    const present = lanes.findIndex(({ name }) => name === this.#bar.filter.lane);
    const next = lanes[present < 0 ? (by > 0 ? 0 : lanes.length - 1) : present + by];
    if (next !== undefined) this.#showLane(next.name);
  }

  /** Takes back one thing: the details, where they cover the frames, or the filter. */
  #escape(): void {
    if (this.dataset['view'] === 'details' && getComputedStyle(this.#table.element).visibility === 'hidden')
      return this.#showFrames();
    this.#bar.reset();
    this.#table.focus();
  }

  #togglePause(): void {
    const held = this.#held;
    this.#held = held === undefined ? [] : undefined;
    this.#pause.textContent = held === undefined ? 'Resume' : 'Pause';
    if (held !== undefined) this.add(held);
  }

  async #saveAll(): Promise<void> {
    this.#save.disabled = true;
    await saveCapture(this.#store.entries.map(({ event }) => event));
    this.#save.disabled = this.isEmpty;
  }
}

function button(label: string, run: () => void): HTMLButtonElement {
  const made = create('button', { type: 'button' }, label);
  made.addEventListener('click', run);
  return made;
}

customElements.define('parlance-inspector', ParlanceInspector);
