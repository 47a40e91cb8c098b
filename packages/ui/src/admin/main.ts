import {
  type AdminEvent,
  type AdminState,
  bucketsOf,
  type Figures,
  figuresOf,
} from '../../../server/src/operate/admin/figures.js';
import { byId, create } from '../shared/dom.js';
import { bytes, clock, number } from '../shared/format.js';
import { type AdminApi, AdminFailure, createAdminApi } from './api.js';
import { createHeatMap, createSessionsChart, createWireChart } from './charts.js';
import { age, amount, bound, pair, percent, perSecond, rate, seconds } from './format.js';
import { createRows } from './rows.js';

/** The dashboard of a server, on its admin port. */

const INTERVAL_MS = 2_000;
/** Rows of the table; the filters find the others. */
const ROWS = '200';
const EVENTS = 200;
const TOKEN_KEY = 'parlance-admin-token';

const find = byId<HTMLInputElement>('find');
const show = byId<HTMLSelectElement>('show');
const sort = byId<HTMLSelectElement>('sort');
const dialog = byId<HTMLDialogElement>('confirm');
const charts = { wire: createWireChart(), sessions: createSessionsChart(), first: createHeatMap() };
byId('wire-chart').append(charts.wire.element);
byId('sessions-chart').append(charts.sessions.element);
byId('first-chart').append(charts.first.element);
const rows = createRows((id) => void closeSession(id));

let api: AdminApi | undefined;
let before: AdminState | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;
let reading: AbortController | undefined;

byId<HTMLFormElement>('token-form').addEventListener('submit', (event) => {
  event.preventDefault();
  open(byId<HTMLInputElement>('token').value.trim());
});
byId('drain').addEventListener('click', () => void drain());
byId('finish').addEventListener('click', () => void finishDrain());
for (const [element, kind] of [
  [find, 'input'],
  [show, 'change'],
  [sort, 'change'],
] as const)
  element.addEventListener(kind, () => void showSessions().catch(fail));
const kept = storedToken();
if (kept !== null) open(kept);

function open(token: string): void {
  const fresh = createAdminApi(token);
  api = fresh;
  byId('entry-error').textContent = '';
  void look(fresh, token);
}

/** Reads the state again and again. A token that is wrong ends it. */
async function look(used: AdminApi, token: string): Promise<void> {
  clearTimeout(timer);
  if (api !== used) return;
  try {
    const state = await used.state();
    if (document.body.dataset['state'] === 'token') begin(used, token);
    showState(state);
    await showSessions();
    setStatus('live', 'Live');
  } catch (error) {
    if (fail(error)) return;
  }
  timer = setTimeout(() => void look(used, token), INTERVAL_MS);
}

function begin(used: AdminApi, token: string): void {
  store(token);
  byId('entry').hidden = true;
  byId('board').hidden = false;
  reading = new AbortController();
  void readEvents(used, reading.signal);
}

/** @returns whether it is final. */
function fail(error: unknown): boolean {
  if (!(error instanceof AdminFailure)) throw error;
  if (error.status !== 401 && document.body.dataset['state'] !== 'token') {
    setStatus('lost', error.status === undefined ? 'No answer' : error.message);
    return false;
  }
  api = undefined;
  reading?.abort();
  store(undefined);
  byId('entry').hidden = false;
  byId('board').hidden = true;
  byId('drain').hidden = true;
  byId('entry-error').textContent =
    error.status === 401 ? 'The server does not accept this token.' : error.message;
  setStatus('token', 'Not connected');
  byId('token').focus();
  return true;
}

function setStatus(state: 'token' | 'live' | 'lost', text: string): void {
  document.body.dataset['state'] = state;
  if (byId('status').textContent !== text) byId('status').textContent = text;
}

async function showSessions(): Promise<void> {
  const query = { limit: ROWS, find: find.value, show: show.value, sort: sort.value };
  const list = await api?.sessions(query);
  if (list !== undefined && before !== undefined) rows.show(list, before.mode, before.now);
}

function showState(state: AdminState): void {
  const figures = figuresOf(state, before);
  byId('about').textContent = [
    `v${state.version}`,
    `up ${age(state.now - state.startedAt)}`,
    ...(state.node === null ? [] : [state.node]),
    state.mode === 'read' ? 'read-only' : 'can close and drain',
  ].join(' · ');
  byId('drain').hidden = state.mode === 'read' || state.draining !== null;
  showTiles(figures);
  showDraining(state, figures);
  charts.sessions.add(figures);
  byId('sessions-caption').textContent =
    `${number(figures.connected)} connected, ${number(figures.suspended)} suspended`;
  showRefused(state);
  if (before !== undefined) {
    charts.wire.add({ wire: figures.wirePerSecond, content: figures.contentPerSecond });
    byId('wire-caption').textContent =
      `${bytes(figures.wirePerSecond | 0)} on the wire, ${bytes(figures.contentPerSecond | 0)} of content (log scale)`;
    charts.first.add(bucketsOf(state, before, 'request_first_part_seconds'));
    const { p50, p95 } = figures.firstPart;
    byId('first-caption').textContent =
      p50 === undefined ? 'no replies began in the last 2 s' : `half ${bound(p50)}, 95 % ${bound(p95)}`;
  }
  before = state;
}

function showTiles(f: Figures): void {
  const saving = f.contentPerSecond > f.wirePerSecond ? 1 - f.wirePerSecond / f.contentPerSecond : undefined;
  const tiles: readonly (readonly [string, string, string])[] = [
    [
      'Sessions',
      number(f.connected + f.suspended),
      `${amount(f.connected, 'connected')} · ${amount(f.suspended, 'suspended')} · ${amount(f.blocked, 'waiting')}`,
    ],
    [
      'Streams open',
      number(f.streams),
      `${perSecond(`${rate(f.requestsPerSecond)} requests`)}${f.failed === undefined ? '' : ` · ${percent(f.failed)} failed`}`,
    ],
    ['First part, p50\u00a0/\u00a0p95', pair(f.firstPart), `whole reply ${pair(f.duration)}`],
    [
      'On the wire',
      perSecond(bytes(Math.round(f.wirePerSecond))),
      `${saving === undefined ? '' : `${percent(saving)} fewer than `}${perSecond(bytes(Math.round(f.contentPerSecond)))} uncompressed`,
    ],
    [
      'Resumed',
      number(f.resumed),
      `${amount(f.lost, 'ended while away')} · ${amount(f.notResumed, 'refused')} · half of the gaps ${bound(f.gap.p50)}`,
    ],
    [
      'Event loop, p99',
      seconds(f.loopLag),
      [
        ...(f.memory === undefined ? [] : [`${bytes(f.memory)} of memory`]),
        ...Object.entries(f.shown).map(([name, value]) => amount(value, name)),
      ].join(' · '),
    ],
  ];
  const list = byId('tiles');
  if (list.childElementCount === 0)
    list.append(
      ...tiles.map(([title]) => create('div', {}, create('dt', {}, title), create('dd'), create('dd'))),
    );
  for (const [index, [, value, rest]] of tiles.entries()) {
    const [, first, second] = list.children[index]?.children ?? [];
    if (first !== undefined && first.textContent !== value) first.textContent = value;
    if (second !== undefined && second.textContent !== rest) second.textContent = rest;
  }
}

function showDraining({ draining, mode, now }: AdminState, { streams }: Figures): void {
  byId('draining').hidden = draining === null;
  if (draining === null) return;
  const { total, left, deadline } = draining;
  const gone = Math.max(0, total - left);
  byId('draining-left').textContent = `${number(gone)} of ${number(total)} sessions have left`;
  byId<HTMLProgressElement>('draining-bar').value = total === 0 ? 1 : gone / total;
  const isOpen = left > 0 && deadline > now;
  const rest = isOpen ? `${clock(deadline - now)} to the deadline` : 'closing what is left';
  byId('draining-rest').textContent =
    left === 0 ? 'no sessions are left' : `${rest} · ${number(streams)} streams open`;
  byId('finish').hidden = !isOpen || mode === 'read';
}

function showRefused({ metrics }: AdminState): void {
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
    ...(items.length > 0 ? items : [create('li', { className: 'muted' }, 'Nothing so far.')]),
  );
}

async function readEvents(used: AdminApi, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    byId('events').replaceChildren();
    await used.events(showEvent, signal).catch((error: unknown) => {
      if (!(error instanceof AdminFailure) && !signal.aborted && !(error instanceof TypeError)) throw error;
    });
    await new Promise((resolve) => setTimeout(resolve, INTERVAL_MS));
  }
}

function showEvent({ at, level, event, message, fields }: AdminEvent): void {
  const list = byId('events');
  const details = Object.entries(fields).map(([name, value]) => `${name} ${String(value)}`);
  const time = create(
    'time',
    { dateTime: new Date(at).toISOString() },
    new Date(at).toLocaleTimeString('en-GB'),
  );
  const item = create('li', { title: message }, time, ' ', create('b', {}, event), ` ${details.join(' · ')}`);
  item.dataset['level'] = level;
  list.prepend(item);
  if (list.childElementCount > EVENTS) list.lastElementChild?.remove();
}

async function closeSession(id: string): Promise<void> {
  const isSure = await confirm(
    'Close this session?',
    `Its client is told that an operator has closed the session, unless it is away and does not come back in time. Requests under way are cancelled. ${id}`,
    'Close the session',
  );
  if (isSure) await api?.closeSession(id).then(showSessions).catch(fail);
}

async function drain(): Promise<void> {
  const isSure = await confirm(
    'Drain this server?',
    'It admits no new sessions, asks every client to leave, and closes what is left after 30 s. It then listens no more, and this cannot be undone.',
    'Drain the server',
  );
  if (isSure) await api?.drain().catch(fail);
}

async function finishDrain(): Promise<void> {
  const isSure = await confirm(
    'Close the sessions that are left?',
    'They are closed as at the deadline: requests under way fail, and clients that reconnect begin new sessions.',
    'Close them now',
  );
  if (!isSure) return;
  byId('finish').hidden = true;
  await api?.finishDrain().then(showSessions).catch(fail);
}

function confirm(title: string, text: string, yes: string): Promise<boolean> {
  byId('confirm-title').textContent = title;
  byId('confirm-text').textContent = text;
  byId('confirm-yes').textContent = yes;
  dialog.returnValue = 'no';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true });
  });
}

function storedToken(): string | null {
  try {
    return sessionStorage.getItem(TOKEN_KEY);
  } catch {
    return null;
  }
}

function store(token: string | undefined): void {
  try {
    if (token === undefined) sessionStorage.removeItem(TOKEN_KEY);
    else sessionStorage.setItem(TOKEN_KEY, token);
  } catch {
    // The browser blocks storage: the token lasts until the page is loaded again.
  }
}
