import {
  type AdminState,
  bucketsOf,
  type Figures,
  isUpstreamError,
  type Point,
  pointBefore,
  quantilesOf,
  upstreamSince,
} from '../../../server/src/operate/admin/figures.js';
import { byId, create } from '../shared/dom.js';
import { bytes, number } from '../shared/format.js';
import { amount, bound, percent, perSecond, rate, seconds } from './format.js';
import { spark } from './spark.js';
import type { Lines } from './trail.js';

const MINUTE_MS = 60_000;

interface Tile {
  readonly title: string;
  readonly value: string;
  readonly unit?: string;
  readonly rest: string;
  /** Comes before the rest, in the colour of trouble. */
  readonly bad?: string | undefined;
  readonly picture: SVGElement;
}

export interface Known {
  readonly state: AdminState;
  readonly figures: Figures;
  readonly now: Point;
  readonly points: readonly Point[];
  readonly lines: Lines;
}

export function showTiles(known: Known): void {
  const list = byId('tiles');
  if (list.childElementCount === 0) list.append(...tilesOf(known).map(() => create('div')));
  for (const [i, { title, value, unit, rest, bad, picture }] of tilesOf(known).entries()) {
    const tile = list.children[i];
    if (tile === undefined) continue;
    const text = [title, value, unit, bad, rest].join('\n');
    if (tile.getAttribute('data-text') !== text) {
      const after = unit === undefined ? [] : [' ', create('small', {}, unit)];
      const wrong = bad === undefined ? [] : [create('b', {}, bad), rest === '' ? '' : ' · '];
      tile.replaceChildren(
        create('dt', {}, title),
        create('dd', {}, value, ...after),
        create('dd', {}, ...wrong, rest),
        create('dd', { className: 'picture' }),
      );
      tile.setAttribute('data-text', text);
    }
    tile.lastElementChild?.replaceChildren(picture);
  }
}

function tilesOf({ state, figures: f, now, points, lines }: Known): Tile[] {
  const before = pointBefore(points, now, MINUTE_MS);
  const span = before === undefined ? 0 : (now.at - before.at) / 1000;
  const since = (of: (point: Point) => number) =>
    Math.max(0, of(now) - (before === undefined ? 0 : of(before)));
  const perSec = (of: (point: Point) => number) => (span === 0 ? undefined : since(of) / span);
  const [wire, content] = [perSec((point) => point.wire), perSec((point) => point.content)];
  const broken = f.resumed + f.lost + f.notResumed;
  return [
    {
      title: 'Sessions',
      value: number(f.connected),
      unit: 'live',
      rest: `${amount(f.suspended, 'away')} · ${amount(f.blocked, 'slow')} · ${amount(f.silent, 'silent')}`,
      picture: spark([
        ['accent', lines.live],
        ['notice', lines.away],
      ]),
    },
    requestsTile(
      now,
      before,
      perSec(({ requests }) => requests),
      since,
      lines,
    ),
    firstTile(state, now, before, lines),
    {
      title: 'Breaks, since start',
      value: broken === 0 ? 'None' : `${number(f.resumed)} of ${number(broken)}`,
      unit: broken === 0 ? 'decided yet' : 'came back',
      rest: `${amount(f.suspended, 'still away')} · ${amount(f.lost, 'never came back')} · ${amount(f.notResumed, 'too late')} · ${amount(f.left, f.left === 1 ? 'tab closed' : 'tabs closed')}`,
      picture: spark([
        ['notice', lines.cuts],
        ['accent', lines.backs],
      ]),
    },
    {
      title: 'Bytes, last minute',
      value: wire === undefined ? '–' : perSecond(bytes(Math.round(wire))),
      rest:
        wire === undefined || content === undefined || content === 0
          ? 'no content'
          : `${content > wire ? `${percent(1 - wire / content)} less than ` : 'instead of '}${perSecond(bytes(Math.round(content)))} uncompressed`,
      picture: spark([
        ['other', lines.content],
        ['accent', lines.wire],
      ]),
    },
  ];
}

function requestsTile(
  now: Point,
  before: Point | undefined,
  perSec: number | undefined,
  since: (of: (point: Point) => number) => number,
  lines: Lines,
): Tile {
  const asked = upstreamSince(now, before);
  const all = asked.reduce((sum, [, count]) => sum + count, 0);
  const errors = asked.filter(([key]) => isUpstreamError(key)).reduce((sum, [, count]) => sum + count, 0);
  const requests = since((point) => point.requests);
  const failed = Math.max(0, since((point) => point.failed) - errors);
  const ours = requests === 0 ? 'none in the last minute' : `${percent(failed / requests)} failed here`;
  const quiet =
    requests === 0 && now.requests > 0 ? `none in the last minute, ${number(now.requests)} before` : ours;
  return {
    title: 'Requests, last minute',
    value: perSec === undefined ? '–' : perSecond(rate(perSec)),
    bad: errors > 0 ? `${percent(errors / all)} upstream errors` : undefined,
    rest: quiet,
    picture: spark([
      ['accent', lines.requests],
      ['trouble', lines.errors],
    ]),
  };
}

function firstTile(state: AdminState, now: Point, before: Point | undefined, lines: Lines): Tile {
  const bounds = bucketsOf(state, undefined, 'request_first_part_seconds').map((each) => each.bound);
  const quantiles = (counts: readonly number[]) =>
    quantilesOf(bounds.map((each, i) => ({ bound: each, count: counts[i] ?? 0 })));
  const recent = now.first.map((count, i) => count - (before?.first[i] ?? 0));
  const replies = recent.reduce((sum, count) => sum + count, 0);
  const { p50, p95 } = quantiles(recent);
  return {
    title: 'First part, last minute',
    value: bound(p50),
    rest:
      replies === 0
        ? 'no replies have begun'
        : `95 % ${bound(p95)} · ${amount(replies, replies === 1 ? 'reply' : 'replies')}, errors left out`,
    picture: spark([
      [
        'accent',
        lines.first.map((counts) => (counts === null ? null : (quantiles(counts).p50?.seconds ?? null))),
      ],
    ]),
  };
}

/** Node, engine, transports and features of the server, as far as it has them. */
export function showServer({ state, figures, now, points }: Known): void {
  const { node, engine, features, metrics } = state;
  const one = (name: string) => metrics[name]?.[0]?.value;
  const before = pointBefore(points, now, MINUTE_MS);
  const http = one('http_streams');
  const nodes = one('cluster_nodes');
  const failedCalls = now.engineFailed - (before?.engineFailed ?? 0);
  const told: readonly (readonly [string, string | undefined])[] = [
    ['Node', node ?? undefined],
    ['Nodes', nodes === undefined ? undefined : number(nodes)],
    [
      'Engine',
      engine === null
        ? 'memory of this process'
        : `${engine === 'answers' ? 'answers' : 'does not answer'}${failedCalls > 0 ? `, ${amount(failedCalls, failedCalls === 1 ? 'call failed' : 'calls failed')}` : ''}`,
    ],
    [
      'Carried by',
      http === undefined
        ? 'WebSockets'
        : `${amount(Math.max(0, figures.connected - http), 'WebSockets')} · ${amount(http, 'HTTP')}`,
    ],
    ...Object.entries(figures.shown).map(([name, value]) => [capital(name), number(value)] as const),
    ['Event loop, p99', seconds(figures.loopLag)],
    ['Memory', figures.memory === undefined ? '–' : bytes(figures.memory)],
    ['Features', features.length === 0 ? 'none' : features.join(', ')],
  ];
  const entries = told.filter((each): each is readonly [string, string] => each[1] !== undefined);
  const text = entries.flat().join('\n');
  const list = byId('server');
  if (list.dataset['text'] === text) return;
  list.dataset['text'] = text;
  list.replaceChildren(
    ...entries.map(([term, value]) => create('div', {}, create('dt', {}, term), create('dd', {}, value))),
  );
}

const capital = (name: string) => name.charAt(0).toUpperCase() + name.slice(1).replaceAll('_', ' ');
