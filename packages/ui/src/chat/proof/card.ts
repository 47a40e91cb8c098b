import { create, descriptions, draw } from '../../shared/dom.js';
import { count, duration, number } from '../../shared/format.js';
import type { Turn } from '../conversation.js';
import { type Break, type Reading, verdictOf } from './reading.js';
import { countsOf } from './words.js';

export { createCurve } from '../curve.js';
export { lostIn } from './lost.js';

/** The history of an answer, drawn and in words. Loaded with the first answer. */

const [WIDTH, HEIGHT] = [1000, 12];

/** Fills the card again. */
export function fillCard(card: HTMLElement, turn: Turn): void {
  const { reading } = turn;
  card.dataset['verdict'] = verdictOf(reading);
  card.replaceChildren(
    create('h4', {}, 'What happened to this answer'),
    lanesOf(reading),
    create('p', { className: 'verdict' }, sentenceOf(reading)),
    create('dl', {}, ...descriptions(factsOf(turn))),
  );
}

function sentenceOf(reading: Reading): string {
  const { chunks, of } = countsOf(reading);
  switch (verdictOf(reading)) {
    case 'whole':
      return 'All that the server wrote has come, in order, each piece once.';
    case 'missing':
      return `${count(of - chunks, 'piece')} that the server wrote ${of - chunks === 1 ? 'has' : 'have'} not come.`;
    case 'twice':
      return `${count(chunks - of, 'piece')} more came than the server wrote.`;
    case 'changed':
      return 'As many pieces came as the server wrote, but at least one of them is not as it was written.';
    default:
      return reading.written === undefined
        ? 'The server has not said what it wrote, or does not know it any more. So it is not known whether anything is missing.'
        : 'This page has not seen the beginning of this answer. So it is not known whether anything is missing.';
  }
}

function factsOf({ reading, question }: Turn): [string, Node | string][] {
  const { end, written, breaks } = reading;
  const { chunks, of } = countsOf(reading);
  const pieces =
    written === undefined
      ? `you read ${number(chunks)}`
      : `the server wrote ${number(of)} · you read ${number(chunks)} · missing ${number(Math.max(0, of - chunks))} · too many ${number(Math.max(0, chunks - of))}`;
  return [
    ['Pieces', pieces],
    ['SHA-256', sumsOf(end?.sha256, written?.sha256)],
    ['Breaks', breaks.length === 0 ? 'none' : create('ul', {}, ...breaks.map(itemOf))],
    [
      'Asked',
      question === undefined
        ? 'in another tab'
        : 'once; after a break, the page reads on and asks nothing again',
    ],
  ];
}

function itemOf({ what, from, to, caught }: Break): HTMLElement {
  const said = `${duration(from)} after the question: ${what}, ${duration(to - from)}`;
  return create('li', {}, caught === 0 ? said : `${said}; then ${count(caught, 'piece')} at once`);
}

function sumsOf(here: string | undefined, there: string | undefined): HTMLElement {
  const code = (sum: string) => create('code', { title: sum }, `${sum.slice(0, 8)}…${sum.slice(-8)}`);
  if (here !== undefined && here === there) return create('span', {}, code(here), ' at the server and here');
  return create(
    'span',
    {},
    ...(there === undefined ? ['not known at the server'] : [code(there), ' at the server']),
    ' · ',
    ...(here === undefined ? ['not known here'] : [code(here), ' here']),
  );
}

/** Two lanes over the same time: the breaks are gaps in the second one. */
function lanesOf(reading: Reading): HTMLElement {
  const { from = 0, to, breaks, written } = reading;
  const ms = written?.ms;
  const last = Math.max(1, to, ms?.[1] ?? 0);
  const bar = (kind: string, begin: number, end: number) => {
    const [x, width] = [begin, Math.max(2, end - begin)].map((each) => (each / last) * WIDTH) as [
      number,
      number,
    ];
    return draw('rect', { class: kind, x, y: 1, width, height: HEIGHT - 2 });
  };
  const lane = (...bars: SVGElement[]) => {
    const svg = draw('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none' });
    svg.append(...bars);
    return svg;
  };
  const read: SVGElement[] = [];
  let at = from;
  for (const gap of breaks) {
    if (gap.from > at) read.push(bar('read', at, gap.from));
    read.push(bar('away', Math.max(at, gap.from), gap.to));
    at = Math.max(at, gap.to);
  }
  read.push(bar('read', Math.min(at, to), to));
  const figure = create('div', { className: 'lanes', role: 'img', ariaLabel: describe(reading) });
  figure.append(
    create('span', {}, 'The model wrote'),
    ms === undefined ? create('span', {}, 'not known') : lane(bar('wrote', ms[0], ms[1])),
    create('span', {}, 'You read'),
    lane(...read),
    create('span'),
    create('span', { className: 'scale' }, create('span', {}, '0 s'), create('span', {}, duration(last))),
  );
  return figure;
}

function describe({ from = 0, to, breaks, written }: Reading): string {
  const wrote = written?.ms;
  const gaps = breaks.map((gap) => `${gap.what} from ${duration(gap.from)} to ${duration(gap.to)}`);
  return [
    wrote === undefined
      ? 'When the model wrote is not known.'
      : `The model wrote from ${duration(wrote[0])} to ${duration(wrote[1])}.`,
    `You read from ${duration(from)} to ${duration(to)}${gaps.length === 0 ? '' : `, but for: ${gaps.join('; ')}`}.`,
  ].join(' ');
}
