import type { ClientSession } from '@parlance/client';
import { createChart } from './chart.js';
import { byId, create, descriptions } from './dom.js';
import { bytes, difference, SAME } from './format.js';
import type { Comparison, Traffic, TurnTraffic } from './traffic.js';

/** The panel next to the conversation: negotiated values and traffic. */
export interface Panel {
  /** @param resumed how often the session was resumed. */
  showSession(session: ClientSession, server: string, resumed: number): void;
  /** Updates the figures with the next animation frame. */
  showTraffic(traffic: Traffic): void;
}

/** Turns listed in the table; the totals include all turns. */
const LISTED = 6;

export function createPanel(): Panel {
  const panel = byId<HTMLDetailsElement>('panel');
  const wide = matchMedia('(min-width: 60rem)');
  const fold = () => {
    panel.open = wide.matches;
  };
  wide.addEventListener('change', fold);
  fold();

  const summary = byId('summary');
  const agreed = byId('agreed');
  const overhead = byId('overhead');
  const chart = createChart();
  byId('chart').append(chart.element);
  agreed.append(...descriptions([['Session', 'none yet']]));
  let due: Traffic | undefined;

  function paint(): void {
    const traffic = due;
    due = undefined;
    if (traffic === undefined) return;
    const { turns, total } = traffic;
    byId('silence').hidden = turns.length > 0;
    byId('figures').hidden = turns.length === 0;
    overhead.hidden = total.overhead === 0;
    overhead.textContent = `Not included: ${bytes(total.overhead)} for negotiating and maintaining the session.`;
    if (turns.length === 0) return;
    summary.textContent = `${bytes(total.turns.socket)} instead of ${bytes(total.turns.http)}`;
    byId('difference').textContent = comparedWithHttp(total.turns);
    byId('socket-total').textContent = bytes(total.turns.socket);
    byId('http-total').textContent = bytes(total.turns.http);
    chart.show(turns);
    byId('table').replaceChildren(...tableOf(turns, total.turns));
  }

  return {
    showSession(session, server, resumed) {
      const { algorithms, encoding, extensions, version, maxPayloadSize } = session.negotiated;
      agreed.replaceChildren(
        ...descriptions([
          ['Session', create('code', {}, session.id)],
          ['Server', create('code', {}, server)],
          ['Resumed', resumed === 0 ? 'never' : `${resumed} ${resumed === 1 ? 'time' : 'times'}`],
          ['Protocol', version],
          ['Algorithms', list(algorithms)],
          ['Encoding', encoding ?? 'none'],
          ['Extensions', list(Object.entries(extensions).map(([name, value]) => describe(name, value)))],
          ['Largest message', maxPayloadSize === 0 ? 'not limited' : bytes(maxPayloadSize)],
        ]),
      );
      if (summary.textContent === '')
        summary.textContent = `${algorithms.length} algorithms, ${encoding ?? 'no encoding'}`;
    },

    showTraffic(traffic) {
      // Parts arrive faster than the eye can follow.
      if (due === undefined) requestAnimationFrame(paint);
      due = traffic;
    },
  };
}

function comparedWithHttp(total: Comparison): string {
  const change = difference(total);
  return change === SAME ? 'The same as plain HTTP' : `${change} than plain HTTP`;
}

function tableOf(turns: readonly TurnTraffic[], total: Comparison): HTMLElement[] {
  const first = Math.max(0, turns.length - LISTED);
  const groups = turns.slice(first).map(({ sent, received }, index) => {
    const head = create('th', { scope: 'rowgroup', rowSpan: 2 }, `${first + index + 1}`);
    return create(
      'tbody',
      {},
      create('tr', {}, head, ...cells('sent', sent)),
      create('tr', {}, ...cells('received', received)),
    );
  });
  const heads = ['Turn', '', 'HTTP', 'Socket', ''].map((text) => create('th', { scope: 'col' }, text));
  return [
    create('caption', { className: 'unseen' }, 'Bytes of each turn, as plain HTTP and on the socket'),
    create('thead', {}, create('tr', {}, ...heads)),
    ...groups,
    create(
      'tfoot',
      {},
      create('tr', {}, create('th', { scope: 'row', colSpan: 2 }, 'All turns'), ...numbers(total)),
    ),
  ];
}

function cells(direction: string, comparison: Comparison): HTMLElement[] {
  return [create('td', {}, direction), ...numbers(comparison)];
}

function numbers(comparison: Comparison): HTMLElement[] {
  return [
    create('td', {}, bytes(comparison.http)),
    create('td', {}, bytes(comparison.socket)),
    create('td', {}, difference(comparison)),
  ];
}

function list(items: readonly string[]): HTMLElement {
  return create('ul', {}, ...items.map((item) => create('li', {}, item)));
}

/** `link: max_streams 128`. Parameters are JSON by convention; others are shown unchanged. */
function describe(name: string, parameters: string): string {
  let value: unknown;
  try {
    value = JSON.parse(parameters);
  } catch {
    return `${name}: ${shorten(parameters)}`;
  }
  if (typeof value !== 'object' || value === null) return `${name}: ${shorten(parameters)}`;
  const entries = Object.entries(value).map(([key, each]) => `${key} ${shorten(String(each))}`);
  return entries.length === 0 ? name : `${name}: ${entries.join(', ')}`;
}

function shorten(text: string): string {
  return text.length <= 24 ? text : `${text.slice(0, 8)}…`;
}
