import type {
  AdminSessions,
  AdminState,
  SessionRow,
  SessionTimeline,
} from '../../../server/src/operate/admin/figures.js';
import { byId, create } from '../shared/dom.js';
import { bytes, clock, duration, number } from '../shared/format.js';
import { age } from './format.js';
import { timelineOf } from './timeline.js';

/** The table of sessions. Rows keep their place in the page while their figures change, so that the focus stays. */
export interface Rows {
  show(list: AdminSessions, mode: AdminState['mode'], now: number): void;
  /** IDs of the sessions whose timeline is open. */
  readonly opened: readonly string[];
  /** @param timeline `undefined` if the session is gone. */
  showTimeline(id: string, timeline: SessionTimeline | undefined): void;
}

export interface RowActions {
  onClose(id: string): void;
  onOpen(id: string): void;
}

const HEADS: readonly (readonly [title: string, isNumber: boolean])[] = [
  ['Principal', false],
  ['State', false],
  ['Age', true],
  ['Streams', true],
  ['In / out', true],
  ['Waits for it', true],
  ['Round trip', true],
];

interface Row {
  readonly element: HTMLTableRowElement;
  readonly name: HTMLElement;
  readonly about: HTMLElement;
  readonly state: HTMLElement;
  readonly figures: readonly HTMLTableCellElement[];
  readonly toggle: HTMLButtonElement;
  readonly close: HTMLButtonElement;
  /** The row beneath it, while it is open. */
  detail: HTMLTableRowElement | undefined;
}

export function createRows({ onClose, onOpen }: RowActions): Rows {
  const body = create('tbody');
  const action = create('th', { scope: 'col' }, create('span', { className: 'unseen' }, 'Action'));
  const heads = HEADS.map(([title, isNumber]) =>
    create('th', { scope: 'col', className: isNumber ? 'number' : '' }, title),
  );
  const table = create('table', {}, create('thead', {}, create('tr', {}, ...heads, action)), body);
  const empty = create('p', { className: 'muted' }, 'None.');
  byId('rows').append(table, empty);
  const rows = new Map<string, Row>();
  /** Since when a session has waited to be read, as far as this page has seen. */
  const slowSince = new Map<string, number>();

  const toggle = (id: string): void => {
    const row = rows.get(id);
    if (row === undefined) return;
    const isOpen = row.detail !== undefined;
    row.toggle.setAttribute('aria-expanded', String(!isOpen));
    row.detail?.remove();
    row.detail = undefined;
    if (isOpen) return;
    const cell = create(
      'td',
      { colSpan: HEADS.length + 1 },
      create('p', { className: 'muted' }, 'Loading …'),
    );
    row.detail = create('tr', { className: 'detail' }, cell);
    row.element.after(row.detail);
    onOpen(id);
  };

  const rowFor = (id: string): Row => {
    const known = rows.get(id);
    if (known !== undefined) return known;
    const [name, about, state] = [create('span'), create('small'), create('span')];
    const opener = create(
      'button',
      { type: 'button', className: 'open', onclick: () => toggle(id) },
      name,
      about,
    );
    opener.setAttribute('aria-expanded', 'false');
    const close = create('button', { type: 'button', onclick: () => onClose(id) }, 'Close');
    close.setAttribute('aria-label', `Close session ${id}`);
    const figures = HEADS.slice(2).map(() => create('td', { className: 'number' }));
    const head = create('th', { scope: 'row' }, opener);
    const dot = create('i', { ariaHidden: 'true' });
    const element = create('tr', {}, head, create('td', {}, dot, state), ...figures, create('td', {}, close));
    const row: Row = { element, name, about, state, figures, toggle: opener, close, detail: undefined };
    rows.set(id, row);
    return row;
  };

  return {
    get opened() {
      return [...rows].filter(([, { detail }]) => detail !== undefined).map(([id]) => id);
    },

    show({ sessions, found, total }, mode, now) {
      byId('found').textContent = found === total ? number(total) : `${number(found)} of ${number(total)}`;
      action.hidden = mode === 'read';
      empty.hidden = sessions.length > 0;
      table.hidden = sessions.length === 0;
      const listed = new Set(sessions.map(({ id }) => id));
      for (const [id, { element, detail }] of rows) {
        if (listed.has(id)) continue;
        element.remove();
        detail?.remove();
        rows.delete(id);
        slowSince.delete(id);
      }
      let next = body.firstElementChild;
      for (const session of sessions) {
        const row = rowFor(session.id);
        for (const element of [row.element, row.detail]) {
          if (element === undefined) continue;
          if (element === next) next = next.nextElementSibling;
          else body.insertBefore(element, next);
        }
        if (session.waits === null) slowSince.delete(session.id);
        else if (!slowSince.has(session.id)) slowSince.set(session.id, now);
        const [state, words] = stateOf(session, now, slowSince.get(session.id) ?? now);
        row.element.dataset['state'] = state;
        write(row.name, session.principal ?? 'no principal');
        row.name.classList.toggle('muted', session.principal === null);
        write(
          row.about,
          [session.id.replace(/^sess_/, '').slice(0, 12), ...Object.values(session.labels)].join(' · '),
        );
        write(row.state, words);
        (row.close.parentElement as HTMLElement).hidden = mode === 'read';
        for (const [i, text] of figuresOf(session, now).entries()) write(row.figures[i], text);
      }
    },

    showTimeline(id, timeline) {
      const cell = rows.get(id)?.detail?.cells[0];
      cell?.replaceChildren(
        ...(timeline === undefined
          ? [create('p', { className: 'muted' }, 'The session has ended.')]
          : timelineOf(timeline)),
      );
    },
  };
}

function write(element: HTMLElement | undefined, text: string): void {
  if (element !== undefined && element.textContent !== text) element.textContent = text;
}

function figuresOf(row: SessionRow, now: number): string[] {
  return [
    age(now - row.since),
    number(row.streams),
    `${bytes(row.received)} / ${bytes(row.sent)}`,
    bytes(row.queuedBytes),
    row.roundTripMs === null ? 'unknown' : `${Math.round(row.roundTripMs)}\u00a0ms`,
  ];
}

/** In one word for the styles, and in words. */
function stateOf(row: SessionRow, now: number, slowSince: number): readonly [string, string] {
  const { state, waits, suspendedUntil, silentMs } = row;
  if (suspendedUntil !== null) return ['away', `away, ${clock(suspendedUntil - now)} left`];
  if (silentMs !== null) return ['silent', `silent for ${duration(silentMs)}`];
  const since = now - slowSince >= 2_000 ? `, ${age(now - slowSince)}` : '';
  if (waits === 'credit') return ['slow', `reads too slowly${since}`];
  if (waits === 'rate') return ['slow', `sends too much${since}`];
  return state === 'established' ? ['live', 'live'] : ['other', state];
}
