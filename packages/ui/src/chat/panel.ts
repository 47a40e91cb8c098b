import type { ClientSession } from '@parlance/client';
import { byId, create, descriptions } from '../shared/dom.js';
import { bytes, smaller } from '../shared/format.js';
import { createPainter } from '../shared/paint.js';
import type { Curve } from './curve.js';
import type { lostIn, ReadTurn } from './proof/lost.js';
import { bothWays, type Total, totalOf } from './traffic.js';

/** The panel next to the conversation: traffic, and what was negotiated. */
export interface Panel {
  /** @param resumed how often the session was resumed. */
  showSession(session: ClientSession, server: string, resumed: number): void;
  /**
   * Updates the figures, though not more often than people can read them.
   *
   * @param omitted how many turns the first one stands for; 0 if it is a turn like any other.
   */
  showTraffic(turns: readonly ReadTurn[], overhead: number, omitted: number): void;
}

const FIGURES_MS = 250;
/** With fewer, there is hardly any history to send again, and gzip needs about as much. */
const HISTORY_TURNS = 3;

export function createPanel(): Panel {
  const panel = byId<HTMLDetailsElement>('panel');
  const wide = matchMedia('(min-width: 60rem)');
  const fold = () => {
    panel.open = wide.matches;
  };
  wide.addEventListener('change', fold);
  fold();
  const opener = byId<HTMLButtonElement>('panel-open');
  panel.addEventListener('toggle', () => {
    // Below the width, its summary opens it.
    opener.hidden = !wide.matches || panel.open;
    opener.ariaExpanded = String(panel.open);
  });
  const open = (isOpen: boolean) => {
    panel.open = isOpen;
    opener.hidden = isOpen;
    byId(isOpen ? 'panel-close' : 'panel-open').focus();
  };
  opener.addEventListener('click', () => open(true));
  byId('panel-close').addEventListener('click', () => open(false));

  const agreed = byId('agreed');
  const overheadLine = byId('overhead');
  let curve: Curve | undefined;
  agreed.append(...descriptions([['Session', 'none yet']]));
  let isOverHttp = false;
  const table = byId('table');
  const byTurn = byId<HTMLDetailsElement>('by-turn');
  let figures: Parameters<Panel['showTraffic']> = [[], 0, 0];
  const painter = createPainter(paint, FIGURES_MS);
  byTurn.addEventListener('toggle', painter.now);

  const pieces = ['pieces-title', 'pieces', 'pieces-told'].map((id) => byId(id));
  const [title = '', headline = '', told = ''] = pieces.map(({ textContent }) => textContent);
  let loading: Promise<typeof import('./proof/card.js') | null> | undefined;

  /** Shows the parts that are loaded with the first answer. */
  async function showLoaded(turns: readonly ReadTurn[]): Promise<void> {
    let said: NonNullable<ReturnType<typeof lostIn>> = { title, headline, told };
    if (turns.length > 0) loading ??= import('./proof/card.js').catch(() => null);
    const card = await loading;
    if (card === null) said = { title: 'Not checked', headline, told: 'This part could not be loaded.' };
    else said = card?.lostIn(turns) ?? said;
    curve ??= card?.createCurve(byId('chart'));
    curve?.show(turns.map(({ traffic }) => traffic));
    for (const [i, text] of [said.title, said.headline, said.told].entries()) {
      const element = pieces[i];
      if (element !== undefined && element.textContent !== text) element.textContent = text;
    }
  }

  function paint(): void {
    const [turns, overhead, omitted] = figures;
    void showLoaded(turns);
    const traffics = turns.map(({ traffic }) => traffic);
    const total = totalOf(traffics);
    const isEmpty = total.http === 0;
    byId('silence').hidden = !isEmpty;
    byId('figures').hidden = isEmpty;
    overheadLine.hidden = overhead === 0;
    overheadLine.textContent = `Not included: ${bytes(overhead)} for opening and keeping the session, and for asking what the server has written.`;
    byId('summary').textContent = isEmpty ? '' : `${bytes(total.socket)}, with gzip ${bytes(total.gzip)}`;
    if (isEmpty) return;
    const count = turns.length + Math.max(1, omitted) - 1;
    byId('difference').textContent =
      count < HISTORY_TURNS
        ? 'Savings begin with the history'
        : smaller(total.socket, total.gzip, 'with gzip');
    byId('compared').replaceChildren(
      create('b', {}, bytes(total.socket)),
      isOverHttp ? ' in this session, without the headers of HTTP, over which it comes' : ' on this socket',
      '. The same requests and answers over HTTP, with answers in gzip: ',
      create('b', {}, bytes(total.gzip)),
      '; with requests in gzip too, which few apps have: ',
      create('b', {}, bytes(total.gzipBoth)),
      '.',
    );
    // It is not visible while it is folded.
    table.replaceChildren(...(byTurn.open ? tableOf(traffics.map(bothWays), total, omitted) : []));
  }

  return {
    showSession(session, server, resumed) {
      isOverHttp = session.transport === 'http';
      const { algorithms, encoding, extensions, version, maxPayloadSize } = session.negotiated;
      agreed.replaceChildren(
        ...descriptions([
          ['Session', create('code', {}, session.id)],
          ['Server', create('code', {}, server)],
          ['Transport', isOverHttp ? 'HTTP' : 'WebSocket'],
          ['Resumed', resumed === 0 ? 'not yet' : `${resumed} ${resumed === 1 ? 'time' : 'times'}`],
          ['Protocol', version],
          ['Codecs', list(algorithms)],
          ['Vocabulary', encoding ?? 'none'],
          ['Extensions', list(Object.entries(extensions).map(([name, value]) => describe(name, value)))],
          ['Largest message', maxPayloadSize === 0 ? 'not limited' : bytes(maxPayloadSize)],
        ]),
      );
    },

    showTraffic(...shown) {
      figures = shown;
      painter.soon();
    },
  };
}

function tableOf(turns: readonly Total[], total: Total, omitted: number): HTMLElement[] {
  const nameOf = (index: number) => {
    const number = index + Math.max(1, omitted);
    return index === 0 && number > 1 ? `1–${number}` : String(number);
  };
  const heads = ['Turn', 'Socket', 'gzip', 'gzip of both', 'HTTP'];
  const row = (head: string, figures: Total) =>
    create(
      'tr',
      {},
      create('th', { scope: 'row' }, head),
      ...(['socket', 'gzip', 'gzipBoth', 'http'] as const).map((name) => figure(figures[name])),
    );
  return [
    create(
      'caption',
      { className: 'unseen' },
      'Bytes of each turn on the socket, over HTTP with answers in gzip, with both in gzip, and uncompressed',
    ),
    create('thead', {}, create('tr', {}, ...heads.map((text) => create('th', { scope: 'col' }, text)))),
    create('tbody', {}, ...turns.map((figures, i) => row(nameOf(i), figures))),
    create('tfoot', {}, row('All', total)),
  ];
}

function figure(value: number): HTMLElement {
  const cell = create('td', {}, bytes(value));
  cell.dataset['bytes'] = String(value);
  return cell;
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
