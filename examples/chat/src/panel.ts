import type { Session } from '@parlance/client';
import { byId, create, descriptions } from './dom.js';
import { bytes, difference, SAME } from './format.js';
import type { Comparison, Traffic, TurnTraffic } from './traffic.js';

/** The panel beside the conversation: what was agreed, and what it costs. */
export interface Panel {
  showSession(session: Session, server: string): void;
  showTraffic(traffic: Traffic): void;
}

/** Requests that the table lists; the sums are over all of them. */
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
  const box = byId('bytes');
  const overhead = byId('overhead');
  agreed.append(...descriptions([['Session', 'none yet']]));

  return {
    showSession(session, server) {
      const { algorithms, encoding, extensions, version, maxPayloadSize } = session.negotiated;
      agreed.replaceChildren(
        ...descriptions([
          ['Session', create('code', {}, session.id)],
          ['Server', create('code', {}, server)],
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
      const { turns, total } = traffic;
      if (turns.length > 0) {
        summary.textContent = `${bytes(total.turns.socket)} instead of ${bytes(total.turns.json)}`;
      }
      box.replaceChildren(
        ...(turns.length === 0
          ? [remark('Nothing has been said yet.')]
          : [
              headline(total.turns),
              table(turns, total.turns),
              remark(
                'As JSON: the requests as JSON text and the answers as bare text, with nothing around each part. Frame headers of the WebSocket itself are left out on both sides.',
              ),
            ]),
      );
      overhead.hidden = total.overhead === 0;
      overhead.textContent = `Not counted above: ${bytes(total.overhead)} for agreeing on the session and keeping it.`;
    },
  };
}

function remark(text: string): HTMLElement {
  return create('p', { className: 'muted' }, text);
}

function headline(total: Comparison): HTMLElement {
  const most = Math.max(total.json, total.socket, 1);
  const bar = (label: string, count: number, className: string) => {
    const fill = create('i', { className: `fill ${className}` });
    fill.style.width = `${(count / most) * 100}%`;
    fill.ariaHidden = 'true';
    return create(
      'div',
      { className: 'bar' },
      create('span', {}, label),
      create('b', {}, bytes(count)),
      fill,
    );
  };
  return create(
    'div',
    { className: 'headline' },
    create('p', { id: 'difference' }, comparedWithJson(total)),
    bar('On the socket', total.socket, 'socket'),
    bar('As JSON', total.json, 'json'),
  );
}

function comparedWithJson(total: Comparison): string {
  const change = difference(total);
  return change === SAME ? 'The same as JSON' : `${change} than JSON`;
}

function table(turns: readonly TurnTraffic[], total: Comparison): HTMLElement {
  const row = (name: string, sent: Comparison, received: Comparison) => [
    create('th', { scope: 'rowgroup', rowSpan: 2 }, name),
    ...cells('sent', sent),
    ...cells('received', received),
  ];
  const first = Math.max(0, turns.length - LISTED);
  const groups = turns.slice(first).map(({ sent, received }, index) => {
    const [head, ...rest] = row(`${first + index + 1}`, sent, received);
    return create(
      'tbody',
      {},
      create('tr', {}, head as Node, ...rest.slice(0, 4)),
      create('tr', {}, ...rest.slice(4)),
    );
  });
  const heads = ['Turn', '', 'JSON', 'Socket', ''].map((text) => create('th', { scope: 'col' }, text));
  return create(
    'table',
    {},
    create('caption', { className: 'unseen' }, 'Bytes of each turn, as JSON and on the socket'),
    create('thead', {}, create('tr', {}, ...heads)),
    ...groups,
    create(
      'tfoot',
      {},
      create('tr', {}, create('th', { scope: 'row', colSpan: 2 }, 'All turns'), ...numbers(total)),
    ),
  );
}

function cells(direction: string, comparison: Comparison): HTMLElement[] {
  return [create('td', {}, direction), ...numbers(comparison)];
}

function numbers(comparison: Comparison): HTMLElement[] {
  return [
    create('td', {}, bytes(comparison.json)),
    create('td', {}, bytes(comparison.socket)),
    create('td', {}, difference(comparison)),
  ];
}

function list(items: readonly string[]): HTMLElement {
  return create('ul', {}, ...items.map((item) => create('li', {}, item)));
}

/** `link: max_streams 128`; parameters are JSON by convention, and shown as they are where they are not. */
function describe(name: string, parameters: string): string {
  let value: unknown;
  try {
    value = JSON.parse(parameters);
  } catch {
    return `${name}: ${shorten(parameters)}`;
  }
  if (typeof value !== 'object' || value === null) return `${name}: ${shorten(parameters)}`;
  const told = Object.entries(value).map(([key, each]) => `${key} ${shorten(String(each))}`);
  return told.length === 0 ? name : `${name}: ${told.join(', ')}`;
}

function shorten(text: string): string {
  return text.length <= 24 ? text : `${text.slice(0, 8)}…`;
}
