import { create, draw } from '../shared/dom.js';
import { bytes } from '../shared/format.js';
import { bothWays, NO_TOTAL, sumOf, type Total, type TurnTraffic } from './traffic.js';

/** The bytes of a conversation as it grows, three ways. The table beside it has the same figures for screen readers. */
export interface Curve {
  show(turns: readonly TurnTraffic[]): void;
}

const [WIDTH, HEIGHT, TOP, BOTTOM] = [320, 132, 14, 18];
/** Where the lines end at most: their labels stand beside them. */
const END = 222;
const LINES = [
  ['gzip', 'gzip of answers'],
  ['gzipBoth', 'gzip of both'],
  ['socket', 'this socket'],
] as const satisfies readonly (readonly [keyof Total, string])[];
/** Height of a label, in units of the drawing. */
const LABEL = 13;

export function createCurve(place: Element): Curve {
  const svg = draw('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, 'aria-hidden': 'true' });
  const axis = draw('path', { class: 'axis', d: `M0 ${HEIGHT - BOTTOM}H${END}` });
  const scale = draw('text', { class: 'scale', x: 0, y: 10 });
  const turnsLabel = draw('text', { class: 'scale', x: END, y: HEIGHT - 4, 'text-anchor': 'end' });
  const lines = LINES.map(([name, label]) => {
    const line = draw('path', { class: `line ${name}` });
    const end = draw('circle', { class: `end ${name}`, r: 3 });
    const text = draw('text', { class: `label ${name}`, x: END + 8 });
    text.textContent = label;
    return { name, line, end, text };
  });
  svg.append(axis, scale, turnsLabel, ...lines.flatMap(({ line, end, text }) => [line, end, text]));
  const figure = create('figure', { className: 'curve' });
  figure.append(svg);
  place.append(figure);

  return {
    show(turns) {
      const sums = cumulate(turns);
      const last = sums.at(-1) as Total;
      const most = Math.max(1, ...LINES.map(([name]) => last[name]));
      const x = (i: number) => 4 + (i / Math.max(1, turns.length)) * (END - 4);
      const y = (value: number) => HEIGHT - BOTTOM - (value / most) * (HEIGHT - BOTTOM - TOP);
      scale.textContent = bytes(most);
      turnsLabel.textContent = `${turns.length} ${turns.length === 1 ? 'turn' : 'turns'}`;
      const places = placesOf(LINES.map(([name]) => y(last[name])));
      for (const [i, { name, line, end, text }] of lines.entries()) {
        const points = sums.map((sum, turn) => `${x(turn).toFixed(1)} ${y(sum[name]).toFixed(1)}`);
        line.setAttribute('d', `M${points.join('L')}`);
        end.setAttribute('cx', x(turns.length).toFixed(1));
        end.setAttribute('cy', y(last[name]).toFixed(1));
        text.setAttribute('y', (places[i] as number).toFixed(1));
      }
    },
  };
}

/** Sums after each turn, from nothing on. */
function cumulate(turns: readonly TurnTraffic[]): Total[] {
  const sums = [NO_TOTAL];
  for (const turn of turns) sums.push(sumOf(sums.at(-1) as Total, bothWays(turn)));
  return sums;
}

/** Heights of the labels beside the ends of their lines, so that none covers another. */
function placesOf(ends: readonly number[]): number[] {
  const order = ends.map((end, i) => ({ end, i })).sort((a, b) => b.end - a.end);
  const places = ends.map(() => 0);
  let lowest = HEIGHT - BOTTOM;
  for (const { end, i } of order) {
    const place = Math.min(lowest, end + 4);
    places[i] = place;
    lowest = place - LABEL;
  }
  // If they were pushed beyond the top, all of them move down.
  const beyond = Math.max(0, TOP - 2 - Math.min(...places));
  return places.map((place) => place + beyond);
}
