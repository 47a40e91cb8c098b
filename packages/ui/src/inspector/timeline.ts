import { create } from '../shared/dom.js';
import { count, duration } from '../shared/format.js';
import type { LaneName } from './filter.js';
import type { Lane, Lanes } from './lanes.js';

/** When each stream did what, and when there was no connection. */

const LANE_HEIGHT = 18;
const MAX_LANES = 6;
const AXIS_HEIGHT = 20;
/** A shorter drag is a click. */
const MIN_BRUSH = 6;

export interface TimelineEvents {
  /** @param range in Unix milliseconds; `undefined` for all of the record. */
  onRange(range: { readonly from: number; readonly to: number } | undefined): void;
  onLane(lane: LaneName): void;
}

const COLORS = ['sent', 'received', 'faint', 'gap', 'line', 'text', 'failed', 'chosen'] as const;
type Palette = Readonly<Record<(typeof COLORS)[number], string>>;

export class Timeline {
  readonly element: HTMLElement;
  readonly #canvas = create('canvas');
  readonly #spacer = create('div');
  readonly #brush = create('div', { className: 'brush', hidden: true });
  readonly #probes: readonly HTMLElement[];
  readonly #lanes: Lanes;
  #begin = 0;
  #end = 0;
  #chosen: LaneName | undefined;
  #isDue = false;

  constructor(lanes: Lanes, { onRange, onLane }: TimelineEvents) {
    this.#lanes = lanes;
    this.#canvas.setAttribute('role', 'img');
    this.#probes = COLORS.map((name) => create('i', { className: `probe ${name}`, hidden: true }));
    this.element = create(
      'section',
      { className: 'timeline', tabIndex: 0 },
      this.#canvas,
      this.#spacer,
      this.#brush,
      ...this.#probes,
    );
    this.element.ariaLabel = 'Time line';
    this.element.addEventListener('scroll', () => this.#schedule());
    new ResizeObserver(() => this.#schedule()).observe(this.element);
    for (const query of ['(prefers-color-scheme: dark)', '(forced-colors: active)'])
      matchMedia(query).addEventListener('change', () => this.#schedule());
    this.#watchBrush(onRange, onLane);
  }

  /** @param chosen the lane that is emphasized. */
  show(begin: number, end: number, chosen: LaneName | undefined): void {
    this.#begin = begin;
    this.#end = end;
    this.#chosen = chosen;
    const lanes = Math.max(1, this.#lanes.all.length);
    this.#spacer.style.height = `${lanes * LANE_HEIGHT}px`;
    this.element.style.height = `${Math.min(MAX_LANES, lanes) * LANE_HEIGHT + AXIS_HEIGHT + 8}px`;
    const { gaps, all } = this.#lanes;
    const streams = all.filter(({ name }) => typeof name === 'number').length;
    const lost = gaps.length === 0 ? '' : `, without a connection ${count(gaps.length, 'time')}`;
    this.#canvas.ariaLabel = `${count(streams, 'stream')} over ${duration(end - begin)}${lost}`;
    this.#schedule();
  }

  /** Scrolls the lane into view. */
  reveal(name: LaneName): void {
    const index = this.#lanes.all.findIndex((lane) => lane.name === name);
    const top = index * LANE_HEIGHT;
    const height = this.element.clientHeight - AXIS_HEIGHT - LANE_HEIGHT;
    if (top < this.element.scrollTop || top > this.element.scrollTop + height)
      this.element.scrollTop = top - height / 2;
  }

  #schedule(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      this.#draw();
    });
  }

  get #labelWidth(): number {
    return this.element.clientWidth < 560 ? 84 : 152;
  }

  get #span(): number {
    return Math.max(1, this.#end - this.#begin);
  }

  #x(at: number): number {
    const width = this.element.clientWidth - this.#labelWidth - 16;
    return this.#labelWidth + ((at - this.#begin) / this.#span) * width;
  }

  #at(x: number): number {
    const width = this.element.clientWidth - this.#labelWidth - 16;
    return this.#begin + ((x - this.#labelWidth) / width) * this.#span;
  }

  #palette(): Palette {
    return Object.fromEntries(
      COLORS.map((name, i) => [name, getComputedStyle(this.#probes[i] as HTMLElement).color]),
    ) as Palette;
  }

  #draw(): void {
    const { clientWidth: width, clientHeight: height, scrollTop } = this.element;
    const context = this.#canvas.getContext('2d');
    if (context === null || width === 0) return;
    const ratio = devicePixelRatio;
    this.#canvas.width = Math.round(width * ratio);
    this.#canvas.height = Math.round(height * ratio);
    this.#canvas.style.height = `${height}px`;
    this.#canvas.style.marginBottom = `-${height}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const palette = this.#palette();
    const room = height - AXIS_HEIGHT;
    context.font = `12px ${getComputedStyle(this.#probes[0] as HTMLElement).fontFamily}`;
    context.textBaseline = 'middle';
    this.#drawGaps(context, palette, room);
    context.save();
    context.beginPath();
    context.rect(0, 0, width, room);
    context.clip();
    const first = Math.max(0, Math.floor((scrollTop - 4) / LANE_HEIGHT));
    const shown = this.#lanes.all.slice(first, first + Math.ceil(room / LANE_HEIGHT) + 1);
    for (const [i, lane] of shown.entries()) {
      this.#drawLane(context, palette, lane, 4 + (first + i + 0.5) * LANE_HEIGHT - scrollTop);
    }
    context.restore();
    this.#drawAxis(context, palette, room + AXIS_HEIGHT / 2);
  }

  #drawGaps(context: CanvasRenderingContext2D, palette: Palette, room: number): void {
    for (const { from, to } of this.#lanes.gaps) {
      const [left, right] = [this.#x(Math.max(from, this.#begin)), this.#x(to ?? this.#end)];
      context.fillStyle = palette.gap;
      context.globalAlpha = 0.18;
      context.fillRect(left, 0, Math.max(2, right - left), room);
      context.globalAlpha = 1;
      context.fillRect(left, 0, 1, room);
      context.fillRect(Math.max(left + 1, right), 0, 1, room);
      const text = `suspended ${duration((to ?? this.#end) - from)}`;
      if (context.measureText(text).width + 8 < right - left) context.fillText(text, left + 5, 12);
    }
  }

  #drawLane(context: CanvasRenderingContext2D, palette: Palette, lane: Lane, y: number): void {
    const isChosen = lane.name === this.#chosen;
    if (isChosen) {
      context.fillStyle = palette.chosen;
      context.globalAlpha = 0.15;
      context.fillRect(0, y - LANE_HEIGHT / 2, this.element.clientWidth, LANE_HEIGHT);
      context.globalAlpha = 1;
    }
    context.fillStyle = isChosen ? palette.text : palette.faint;
    context.fillText(fitted(context, lane.label, this.#labelWidth - 24), 16, y);
    if (lane.name !== 'session' && lane.name !== 0) {
      context.fillStyle = palette.line;
      context.fillRect(this.#x(lane.begin), y - 1.5, this.#x(lane.end) - this.#x(lane.begin), 3);
    }
    for (const { at, direction, isStrong, isFailed } of lane.ticks) {
      if (at < this.#begin) continue;
      context.fillStyle = isFailed ? palette.failed : palette[direction];
      const half = isStrong ? 7 : 4;
      context.fillRect(this.#x(at) - (isStrong ? 1.5 : 0.5), y - half, isStrong ? 3 : 1.5, 2 * half);
    }
  }

  #drawAxis(context: CanvasRenderingContext2D, palette: Palette, y: number): void {
    const width = this.element.clientWidth - this.#labelWidth;
    const step = stepOf(this.#span, Math.max(2, Math.floor(width / 110)));
    context.fillStyle = palette.faint;
    for (let ms = 0; ms <= this.#span; ms += step) {
      const text = `${(ms / 1000).toFixed(step < 100 ? 2 : step < 1000 ? 1 : 0)} s`;
      const x = this.#x(this.#begin + ms);
      if (x + context.measureText(text).width < this.element.clientWidth) context.fillText(text, x, y);
    }
  }

  #watchBrush(onRange: TimelineEvents['onRange'], onLane: TimelineEvents['onLane']): void {
    const { element } = this;
    let from: number | undefined;
    const placeOf = ({ clientX }: PointerEvent) =>
      Math.min(
        element.clientWidth - 16,
        Math.max(this.#labelWidth, clientX - element.getBoundingClientRect().left),
      );
    element.addEventListener('pointerdown', (event) => {
      if (event.button !== 0 || event.pointerType === 'touch') return;
      from = placeOf(event);
      element.setPointerCapture(event.pointerId);
    });
    element.addEventListener('pointermove', (event) => {
      if (from === undefined) return;
      const to = placeOf(event);
      this.#brush.hidden = Math.abs(to - from) < MIN_BRUSH;
      this.#brush.style.left = `${Math.min(from, to)}px`;
      this.#brush.style.width = `${Math.abs(to - from)}px`;
    });
    element.addEventListener('pointerup', (event) => {
      if (from === undefined) return;
      const [left, right] = [Math.min(from, placeOf(event)), Math.max(from, placeOf(event))];
      from = undefined;
      this.#brush.hidden = true;
      if (right - left >= MIN_BRUSH) onRange({ from: this.#at(left), to: this.#at(right) });
    });
    element.addEventListener('pointercancel', () => {
      from = undefined;
      this.#brush.hidden = true;
    });
    element.addEventListener('click', ({ clientY, detail }) => {
      if (detail > 1) return onRange(undefined);
      const y = clientY - element.getBoundingClientRect().top + element.scrollTop - 4;
      const lane = this.#lanes.all[Math.floor(y / LANE_HEIGHT)];
      if (lane !== undefined && this.#brush.hidden) onLane(lane.name);
    });
  }
}

function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > width) length--;
  return `${text.slice(0, length)}…`;
}

/** A round number of milliseconds, so that at most `most` steps fit. */
function stepOf(span: number, most: number): number {
  const least = span / most;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least) ?? least;
}
