import type { AdminSessions, AdminState, SessionRow } from '../../../server/src/operate/admin/figures.js';
import { byId, create } from '../shared/dom.js';
import { bytes, clock, number } from '../shared/format.js';
import { age, percent } from './format.js';

/** The table of sessions. Rows keep their place in the page while their figures change, so that the focus stays. */
export interface Rows {
  show(list: AdminSessions, mode: AdminState['mode'], now: number): void;
}

const HEADS: readonly (readonly [title: string, isNumber: boolean])[] = [
  ['Session', false],
  ['Principal', false],
  ['Agent', false],
  ['Address', false],
  ['Over', false],
  ['Age', true],
  ['Streams', true],
  ['Wire in / out', true],
  ['Saved of plain', true],
  ['Queued', true],
  ['Round trip', true],
  ['Waits', false],
];

interface Row {
  readonly element: HTMLTableRowElement;
  readonly cells: readonly HTMLTableCellElement[];
  readonly button: HTMLButtonElement;
}

/** @param onClose called with the ID of a session that is to be closed. */
export function createRows(onClose: (id: string) => void): Rows {
  const body = create('tbody');
  const action = create('th', { scope: 'col' }, create('span', { className: 'unseen' }, 'Action'));
  const heads = HEADS.map(([title, isNumber]) =>
    create('th', { scope: 'col', className: isNumber ? 'number' : '' }, title),
  );
  const table = create('table', {}, create('thead', {}, create('tr', {}, ...heads, action)), body);
  const empty = create('p', { className: 'muted' }, 'None.');
  byId('rows').append(table, empty);
  const rows = new Map<string, Row>();

  const rowFor = (id: string): Row => {
    const known = rows.get(id);
    if (known !== undefined) return known;
    const cells = HEADS.map(([, isNumber]) => create('td', { className: isNumber ? 'number' : '' }));
    const button = create('button', { type: 'button', onclick: () => onClose(id) }, 'Close');
    button.setAttribute('aria-label', `Close session ${id}`);
    const row = { element: create('tr', {}, ...cells, create('td', {}, button)), cells, button };
    rows.set(id, row);
    return row;
  };

  return {
    show({ sessions, found, total }, mode, now) {
      byId('found').textContent = found === total ? number(total) : `${number(found)} of ${number(total)}`;
      action.hidden = mode === 'read';
      empty.hidden = sessions.length > 0;
      table.hidden = sessions.length === 0;
      const listed = new Set(sessions.map(({ id }) => id));
      for (const [id, { element }] of rows) {
        if (listed.has(id)) continue;
        element.remove();
        rows.delete(id);
      }
      for (const [index, session] of sessions.entries()) {
        const { element, cells, button } = rowFor(session.id);
        if (body.rows[index] !== element) body.insertBefore(element, body.rows[index] ?? null);
        element.dataset['state'] = session.state;
        (button.parentElement as HTMLElement).hidden = mode === 'read';
        for (const [i, text] of textsOf(session, now).entries()) {
          const cell = cells[i];
          if (cell !== undefined && cell.textContent !== text) cell.textContent = text;
        }
        const [first] = cells;
        if (first !== undefined) first.title = session.id;
      }
    },
  };
}

function textsOf(row: SessionRow, now: number): string[] {
  const wire = row.received + row.sent;
  return [
    row.id.replace(/^sess_/, ''),
    row.principal ?? '',
    row.labels['agent'] ?? '',
    row.address,
    row.labels['transport'] ?? '',
    age(now - row.since),
    number(row.streams),
    `${bytes(row.received)} / ${bytes(row.sent)}`,
    // Below that, most bytes are those of the handshake.
    row.content > wire ? percent(1 - wire / row.content) : '',
    bytes(row.queuedBytes),
    row.roundTripMs === null ? '' : `${Math.round(row.roundTripMs)}\u00a0ms`,
    waits(row, now),
  ];
}

function waits({ state, waits: reason, suspendedUntil }: SessionRow, now: number): string {
  if (suspendedUntil !== null) return `suspended, ${clock(suspendedUntil - now)} left`;
  return reason ?? (state === 'established' ? '' : state);
}
