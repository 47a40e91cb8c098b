import type { SessionMark, SessionTimeline } from '../../../server/src/operate/admin/figures.js';
import { create, draw } from '../shared/dom.js';
import { bytes, count, duration, number } from '../shared/format.js';
import { percent } from './format.js';

/** The life of one session: when a connection carried it, and when it was asked something. */

const WIDTH = 1000;

export function timelineOf({ session, now, marks, dropped }: SessionTimeline): HTMLElement[] {
  const span = Math.max(1, now - session.since);
  const x = (at: number) => Math.min(WIDTH, Math.max(0, ((at - session.since) / span) * WIDTH));
  const svg = draw('svg', {
    class: 'timeline',
    viewBox: `0 0 ${WIDTH} 22`,
    preserveAspectRatio: 'none',
    'aria-hidden': 'true',
  });
  svg.append(draw('rect', { class: 'live', x: 0, y: 3, width: WIDTH, height: 9 }));
  const gaps = marks.flatMap(({ what, at, awayMs = 0 }) =>
    what === 'back' && awayMs > 0 ? [[at - awayMs, at] as const] : [],
  );
  if (session.awaySince !== null) gaps.push([session.awaySince, now]);
  for (const [from, to] of gaps)
    svg.append(
      draw('rect', { class: 'away', x: x(from), y: 3, width: Math.max(3, x(to) - x(from)), height: 9 }),
    );
  for (const { what, at } of marks) {
    if (what === 'request')
      svg.append(
        draw('rect', { class: 'request', x: Math.min(WIDTH - 3, x(at)), y: 14, width: 3, height: 7 }),
      );
  }
  const wire = session.received + session.sent;
  const saved = session.content > wire ? `${percent(1 - wire / session.content)} less than uncompressed` : '';
  const facts = [
    session.id,
    session.address,
    ...Object.entries(session.labels).map((each) => each.join(' ')),
    `${bytes(wire)} in all`,
    saved,
  ];
  return [
    create('div', { className: 'drawing' }, svg),
    create('ol', { className: 'marks' }, ...wordsOf(marks, dropped, session.awaySince, now)),
    create('p', { className: 'muted' }, facts.filter((text) => text !== '').join(' · ')),
  ];
}

function wordsOf(
  marks: readonly SessionMark[],
  dropped: number,
  awaySince: number | null,
  now: number,
): HTMLElement[] {
  const requests = marks.filter(({ what }) => what === 'request');
  const said = marks
    .filter(({ what }) => what !== 'request')
    .map(({ what, at, awayMs = 0 }): Said => {
      if (what === 'opened') return [at, what, ''];
      return [at, awayMs > 0 ? `back after ${duration(awayMs)}` : 'moved to a new connection', 'notice'];
    });
  const last = requests.at(-1);
  if (last !== undefined) said.push([last.at, `last of ${count(requests.length, 'request')}`, '']);
  if (awaySince !== null) said.push([awaySince, `lost, away for ${duration(now - awaySince)}`, 'notice']);
  const items = said.sort(([a], [b]) => a - b).map((each) => item(...each));
  if (dropped > 0)
    items.push(create('li', { className: 'muted' }, `${number(dropped)} older marks are not kept`));
  return items;
}

type Said = [at: number, text: string, className: string];

function item(at: number, text: string, className: string): HTMLElement {
  const time = create(
    'time',
    { dateTime: new Date(at).toISOString() },
    new Date(at).toLocaleTimeString('en-GB'),
  );
  return create('li', { className }, time, ` ${text}`);
}
