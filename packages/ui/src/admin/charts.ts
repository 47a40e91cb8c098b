/** Drawings of the newest figures. Captions beside them say the same to screen readers. */

const NAMESPACE = 'http://www.w3.org/2000/svg';
const [WIDTH, HEIGHT] = [400, 110];
/** Points that are kept: four minutes at one each 2 s. */
const POINTS = 120;

export interface Chart<Point> {
  readonly element: SVGElement;
  add(point: Point): void;
}

/** Bytes, on a logarithmic scale, so that both lines are readable. */
export function createWireChart(): Chart<{ readonly wire: number; readonly content: number }> {
  const points: { readonly wire: number; readonly content: number }[] = [];
  const svg = lineFrame();
  const content = line('content');
  const wire = line('wire');
  svg.append(content, wire);
  return {
    element: svg,
    add(point) {
      keep(points, point);
      const logs = points.map((each) => ({ wire: logOf(each.wire), content: logOf(each.content) }));
      const top = Math.max(1, ...logs.flatMap((each) => [each.wire, each.content]));
      const bottom = Math.min(top - 1, ...logs.flatMap((each) => [each.wire, each.content]));
      const y = (value: number) => 6 + ((top - value) / (top - bottom)) * (HEIGHT - 12);
      content.setAttribute('d', pathOf(logs.map((each) => y(each.content))));
      wire.setAttribute('d', pathOf(logs.map((each) => y(each.wire))));
    },
  };
}

const logOf = (value: number) => Math.log10(Math.max(1, value));

/** Two areas, one upon the other. */
export function createSessionsChart(): Chart<{ readonly connected: number; readonly suspended: number }> {
  const points: { readonly connected: number; readonly suspended: number }[] = [];
  const svg = lineFrame();
  const connected = line('connected');
  const suspended = line('suspended');
  svg.append(connected, suspended);
  return {
    element: svg,
    add(point) {
      keep(points, point);
      const top = Math.max(1, ...points.map((each) => each.connected + each.suspended));
      const y = (value: number) => HEIGHT - (value / top) * (HEIGHT - 8);
      connected.setAttribute('d', areaOf(points.map((each) => y(each.connected + each.suspended))));
      suspended.setAttribute('d', areaOf(points.map((each) => y(each.suspended))));
    },
  };
}

/** Upper bounds of the rows, in seconds. */
const ROWS: readonly (readonly [bound: number, label: string])[] = [
  [0.05, '50 ms'],
  [0.25, '250 ms'],
  [1, '1 s'],
  [5, '5 s'],
  [30, '30 s'],
  [Infinity, 'more'],
];
const COLUMNS = 40;
const LABELS = 44;

/** How many replies began within which time, in each interval: the more, the darker. */
export function createHeatMap(): Chart<readonly { readonly bound: number; readonly count: number }[]> {
  const columns: number[][] = [];
  const svg = frame();
  const [width, height] = [(WIDTH - LABELS) / COLUMNS, HEIGHT / ROWS.length];
  const cells = ROWS.map((_, row) =>
    Array.from({ length: COLUMNS }, (_unused, column) => {
      const place = { x: LABELS + column * width, y: HEIGHT - (row + 1) * height };
      return draw('rect', { class: 'cell', ...place, width: width - 1, height: height - 1 });
    }),
  );
  const labels = ROWS.map(([, label], row) => {
    const text = draw('text', { class: 'scale', x: 0, y: HEIGHT - row * height - 5 });
    text.textContent = label;
    return text;
  });
  svg.append(...cells.flat(), ...labels);
  return {
    element: svg,
    add(buckets) {
      columns.push(sumsOf(buckets));
      if (columns.length > COLUMNS) columns.shift();
      const most = Math.max(1, ...columns.flat());
      for (const [row, each] of cells.entries()) {
        for (const [index, cell] of each.entries()) {
          const count = columns[index - COLUMNS + columns.length]?.[row] ?? 0;
          cell.setAttribute('fill-opacity', count === 0 ? '0.06' : (0.2 + 0.8 * (count / most)).toFixed(2));
        }
      }
    },
  };
}

function sumsOf(buckets: readonly { readonly bound: number; readonly count: number }[]): number[] {
  const sums = ROWS.map(() => 0);
  for (const { bound, count } of buckets) {
    const row = ROWS.findIndex(([most]) => bound <= most);
    sums[row] = (sums[row] ?? 0) + count;
  }
  return sums;
}

function keep<Point>(points: Point[], point: Point): void {
  points.push(point);
  if (points.length > POINTS) points.shift();
}

/** The newest point is at the right edge. */
function pathOf(heights: readonly number[]): string {
  const x = (i: number) => WIDTH - ((heights.length - 1 - i) / (POINTS - 1)) * WIDTH;
  return `M${heights.map((y, i) => `${x(i).toFixed(1)} ${y.toFixed(1)}`).join('L')}`;
}

function areaOf(heights: readonly number[]): string {
  const left = WIDTH - ((heights.length - 1) / (POINTS - 1)) * WIDTH;
  return `${pathOf(heights)}L${WIDTH} ${HEIGHT}L${left.toFixed(1)} ${HEIGHT}Z`;
}

function frame(): SVGElement {
  const svg = draw('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, 'aria-hidden': 'true' });
  svg.append(draw('path', { class: 'axis', d: `M0 ${HEIGHT}H${WIDTH}` }));
  return svg;
}

/** It has the height that the page gives it, at any width. */
function lineFrame(): SVGElement {
  const svg = frame();
  svg.setAttribute('class', 'lines');
  svg.setAttribute('preserveAspectRatio', 'none');
  return svg;
}

const line = (name: string) => draw('path', { class: `line ${name}` });

function draw(tag: string, attributes: Readonly<Record<string, string | number>>): SVGElement {
  const element = document.createElementNS(NAMESPACE, tag) as SVGElement;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}
