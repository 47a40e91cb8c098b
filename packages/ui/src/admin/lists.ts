import {
  type AdminState,
  isUpstreamError,
  type Point,
  pointBefore,
  upstreamSince,
} from '../../../server/src/operate/admin/figures.js';
import { byId, create } from '../shared/dom.js';
import { number } from '../shared/format.js';

/** Who was refused, and what upstreams have answered. */

export function showRefused({ metrics }: AdminState): void {
  const refused = [
    ...(metrics['sessions_refused_total'] ?? []).map(({ labels, value }) => ({
      text: `${labels['code']} ${labels['close_code']}`,
      value,
    })),
    ...(metrics['rate_limited_total'] ?? []).map(({ labels, value }) => ({
      text: `limit ${labels['limit']}`,
      value,
    })),
  ].filter(({ value }) => value > 0);
  refused.sort((a, b) => b.value - a.value);
  const items = refused.map(({ text, value }) => create('li', {}, create('span', {}, text), number(value)));
  byId('refused').replaceChildren(
    ...(items.length > 0 ? items : [create('li', { className: 'muted' }, 'Nothing since the start.')]),
  );
}

/** By status and model; nothing before the first request to an upstream. */
export function showUpstream(now: Point, points: readonly Point[]): void {
  const list = byId('upstream');
  const known = Object.keys(now.upstream).sort();
  if (list.parentElement !== null) list.parentElement.hidden = known.length === 0;
  const recent = new Map(upstreamSince(now, pointBefore(points, now, 60_000)));
  const all = [...recent.values()].reduce((sum, count) => sum + count, 0);
  list.replaceChildren(
    ...known.map((key) => {
      const count = recent.get(key) ?? 0;
      const meter = create('i');
      // The policy of the page forbids styles in markup, and not those of scripts.
      meter.style.inlineSize = `${all === 0 ? 0 : (count / all) * 100}%`;
      const item = create(
        'li',
        {
          className: isUpstreamError(key) ? 'bad' : '',
          title: `${number(now.upstream[key] ?? 0)} since the start`,
        },
        create('span', {}, key.replace(/^failed/, 'no answer')),
        create('span', { className: 'meter' }, meter),
        create('span', {}, number(count)),
      );
      return item;
    }),
  );
}
