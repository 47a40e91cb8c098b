import uPlot from 'uplot';
import { create } from '../shared/dom.js';
import { bytes, number } from '../shared/format.js';
import type { Lines } from './trail.js';

/** Three charts over one time. Loaded once the figures are shown, with their library. */

export interface Charts {
  /** @param bounds of the buckets of {@link Lines.first}, in seconds. */
  show(lines: Lines, bounds: readonly number[]): void;
}

const HEIGHT = 170;
const HEAT_ROWS: readonly (readonly [bound: number, label: string])[] = [
  [0.05, '≤ 50 ms'],
  [0.25, '≤ 250 ms'],
  [1, '≤ 1 s'],
  [5, '≤ 5 s'],
  [30, '≤ 30 s'],
  [Infinity, 'more'],
];

interface Kind {
  readonly title: string;
  /** Class of its colour, and what it stands for. */
  readonly legend: readonly (readonly [string, string])[];
  readonly unit: (value: number) => string;
  readonly series: readonly { readonly label: string; readonly colour: string; readonly fill?: number }[];
  readonly values: (lines: Lines) => readonly (readonly (number | null)[])[];
  readonly hasMarks: boolean;
}

const KINDS: readonly Kind[] = [
  {
    title: 'Bytes per second',
    legend: [
      ['other', 'uncompressed'],
      ['accent', 'on the wire'],
      ['cut', 'lost'],
      ['back', 'back'],
    ],
    unit: (value) => bytes(Math.round(value)),
    series: [
      { label: 'uncompressed', colour: '--other' },
      { label: 'on the wire', colour: '--accent', fill: 0.15 },
    ],
    values: ({ content, wire }) => [content, wire],
    hasMarks: true,
  },
  {
    title: 'Sessions',
    legend: [
      ['accent', 'live'],
      ['notice', 'away'],
      ['cut', 'lost'],
      ['back', 'back'],
    ],
    unit: number,
    series: [
      { label: 'live', colour: '--accent', fill: 0.15 },
      { label: 'away', colour: '--notice', fill: 0.5 },
    ],
    values: ({ live, away }) => [live, away],
    hasMarks: true,
  },
  {
    title: 'Time to the first part',
    legend: [['accent', 'replies begun, stronger = more; errors left out']],
    unit: (value) => (value === 1 ? '1 reply' : `${number(value)} replies`),
    series: [{ label: '', colour: '--accent' }],
    values: ({ first }) => [first.map((counts) => counts?.reduce((sum, count) => sum + count, 0) ?? null)],
    hasMarks: false,
  },
];

/** Draws into `place`, and again when the colours of the page change. */
export function createCharts(place: HTMLElement): Charts {
  let drawings = KINDS.map((kind) => new Drawing(kind, place));
  let shown: Parameters<Charts['show']> | undefined;
  const begin = () => {
    for (const drawing of drawings) drawing.remove();
    drawings = KINDS.map((kind) => new Drawing(kind, place));
    if (shown !== undefined) show(...shown);
  };
  const show = (lines: Lines, bounds: readonly number[]) => {
    shown = [lines, bounds];
    for (const drawing of drawings) drawing.show(lines, bounds);
  };
  for (const query of ['(prefers-color-scheme: dark)', '(forced-colors: active)'])
    matchMedia(query).addEventListener('change', begin);
  return { show };
}

class Drawing {
  readonly #kind: Kind;
  readonly #section: HTMLElement;
  readonly #holder: HTMLElement;
  readonly #caption: HTMLElement;
  readonly #plot: uPlot;
  readonly #resizing: ResizeObserver;
  #lines: Lines | undefined;
  #heat: readonly (readonly number[] | null)[] = [];

  constructor(kind: Kind, place: HTMLElement) {
    this.#kind = kind;
    const legend = kind.legend.map(([name, text]) =>
      create('li', {}, create('i', { className: name }), text),
    );
    // Time runs from left to right in every language.
    this.#holder = create('div', { className: 'plot', dir: 'ltr', role: 'img' });
    this.#caption = create('p', { className: 'muted' });
    this.#section = create(
      'section',
      {},
      create('h2', {}, kind.title),
      create('ul', { className: 'legend' }, ...legend),
      this.#holder,
      this.#caption,
    );
    place.append(this.#section);
    this.#plot = new uPlot(this.#options(), [[]], this.#holder);
    this.#resizing = new ResizeObserver(() => this.#fit());
    this.#resizing.observe(this.#holder);
  }

  remove(): void {
    this.#resizing.disconnect();
    this.#plot.destroy();
    this.#section.remove();
  }

  show(lines: Lines, bounds: readonly number[]): void {
    this.#lines = lines;
    this.#heat = lines.first.map((counts) => (counts === null ? null : rowsOf(counts, bounds)));
    this.#plot.setData([[...lines.at], ...this.#kind.values(lines).map((values) => [...values])]);
    this.#say(this.#plot.cursor.idx ?? null);
  }

  #fit(): void {
    const width = this.#holder.clientWidth;
    if (width > 0 && width !== this.#plot.width) this.#plot.setSize({ width, height: HEIGHT });
  }

  /** The newest values, or those beneath the pointer, also for those who do not see the drawing. */
  #say(index: number | null): void {
    const lines = this.#lines;
    if (lines === undefined) return;
    const i = index ?? lines.at.length - 1;
    const at = lines.at[i];
    const values = this.#kind.values(lines).map((each, k) => {
      const value = each[i] ?? null;
      return `${value === null ? 'unknown' : this.#kind.unit(value)} ${this.#kind.series[k]?.label ?? ''}`.trim();
    });
    const text = `${at === undefined || index === null ? 'last' : timeOf(at, true)}: ${values.join(', ')}`;
    if (this.#caption.textContent !== text) this.#caption.textContent = text;
    this.#holder.ariaLabel = `${this.#kind.title}, ${text}`;
  }

  #options(): uPlot.Options {
    const { series, unit, hasMarks, title } = this.#kind;
    const colours = coloursOf(this.#holder);
    const isHeat = !hasMarks;
    const axis = { stroke: colours('--muted'), font: '11px system-ui, sans-serif', ticks: { show: false } };
    const line = { stroke: colours('--line'), width: 1 };
    return {
      width: Math.max(200, this.#holder.clientWidth),
      height: HEIGHT,
      padding: [hasMarks ? 18 : 6, 22, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: hasMarks } },
      scales: {
        x: { time: true, range: (_plot, min, max) => [Math.min(min ?? 0, (max ?? 0) - 60), max ?? 0] },
        y: {
          range: isHeat ? [0, HEAT_ROWS.length] : (_plot, _min, max) => [0, Math.max(1, (max ?? 0) * 1.1)],
        },
      },
      axes: [
        {
          ...axis,
          grid: { show: false },
          // Its first label stands below that of the other axis, not beside it.
          gap: 10,
          size: 31,
          space: 70,
          values: (_plot, splits) => splits.map((at) => timeOf(at, (splits[1] ?? 0) - (splits[0] ?? 0) < 60)),
        },
        {
          ...axis,
          grid: isHeat ? { show: false } : line,
          size: 62,
          space: 34,
          ...(isHeat
            ? {
                splits: () => HEAT_ROWS.map((_row, i) => i + 0.5),
                values: () => HEAT_ROWS.map(([, label]) => label),
              }
            : {
                incrs: title === 'Sessions' ? WHOLE : ROUND,
                values: (_plot: uPlot, splits: number[]) => splits.map(unit),
              }),
        },
      ],
      series: [
        {},
        ...series.map(({ colour, fill }): uPlot.Series => {
          if (isHeat) return { show: true, paths: () => null, points: { show: false } };
          const stroke = colours(colour);
          return {
            stroke,
            width: 1.5,
            points: { show: false },
            ...(fill !== undefined && { fill: faint(stroke, fill) }),
          };
        }),
      ],
      hooks: {
        setCursor: [({ cursor }) => this.#say(cursor.idx ?? null)],
        draw: [
          (plot) => (isHeat ? this.#drawHeat(plot, colours('--accent')) : this.#drawMarks(plot, colours)),
        ],
      },
    };
  }

  /** Above the lines: where connections were lost, and where they were back. */
  #drawMarks({ ctx, bbox, valToPos }: uPlot, colours: (name: string) => string): void {
    const lines = this.#lines;
    if (lines === undefined) return;
    const size = 5 * devicePixelRatio;
    for (const [counts, colour, tip] of [
      [lines.cuts, '--notice', 1],
      [lines.backs, '--accent', -1],
    ] as const) {
      ctx.fillStyle = colours(colour);
      for (const [i, count] of counts.entries()) {
        const at = lines.at[i];
        if (count === 0 || at === undefined) continue;
        const x = valToPos(at, 'x', true) + (tip === 1 ? -size : size);
        const y = bbox.top - size * 1.6;
        ctx.beginPath();
        ctx.moveTo(x - size, y - tip * size);
        ctx.lineTo(x + size, y - tip * size);
        ctx.lineTo(x, y + tip * size);
        ctx.fill();
      }
    }
  }

  #drawHeat({ ctx, bbox, valToPos }: uPlot, colour: string): void {
    const at = this.#lines?.at ?? [];
    const most = Math.max(1, ...this.#heat.flatMap((counts) => counts ?? []));
    ctx.save();
    ctx.fillStyle = colour;
    for (const [i, counts] of this.#heat.entries()) {
      const right = valToPos(at[i] ?? 0, 'x', true);
      const left = i === 0 ? bbox.left : valToPos(at[i - 1] ?? 0, 'x', true);
      for (const [row, count] of (counts ?? []).entries()) {
        const [top, bottom] = [valToPos(row + 1, 'y', true), valToPos(row, 'y', true)];
        ctx.globalAlpha = count === 0 ? 0.06 : 0.25 + 0.75 * (count / most);
        ctx.fillRect(left, top + 1, Math.max(1, right - left - (right - left > 3 ? 1 : 0)), bottom - top - 2);
      }
    }
    ctx.restore();
  }
}

const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5];
const ROUND = Array.from({ length: 12 }, (_unused, power) =>
  [1, 2, 5].map((first) => first * 10 ** power),
).flat();

const timeOf = (at: number, withSeconds: boolean): string =>
  new Date(at * 1000).toLocaleTimeString('en-GB', {
    hour: '2-digit',
    minute: '2-digit',
    ...(withSeconds && { second: '2-digit' }),
  });

function rowsOf(counts: readonly number[], bounds: readonly number[]): number[] {
  const rows = HEAT_ROWS.map(() => 0);
  for (const [i, count] of counts.entries()) {
    const row = HEAT_ROWS.findIndex(([most]) => (bounds[i] ?? Infinity) <= most);
    rows[row] = (rows[row] ?? 0) + count;
  }
  return rows;
}

/** Reads the colours of the page as a canvas knows them: at present, and of the present scheme. */
function coloursOf(place: HTMLElement): (name: string) => string {
  const probe = create('i', { hidden: true });
  place.append(probe);
  return (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
}

const faint = (colour: string, alpha: number): string =>
  colour.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);
