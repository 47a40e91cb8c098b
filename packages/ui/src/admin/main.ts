import {
  type AdminState,
  bucketsOf,
  figuresOf,
  healthOf,
  pointOf,
} from '../../../server/src/operate/admin/figures.js';
import { byId } from '../shared/dom.js';
import { clock, count, number } from '../shared/format.js';
import { type AdminApi, AdminFailure, createAdminApi } from './api.js';
import type { Charts } from './charts.js';
import { showEvent, tell } from './events.js';
import { age } from './format.js';
import { showRefused, showUpstream } from './lists.js';
import { createRows } from './rows.js';
import { showServer, showTiles } from './tiles.js';
import { Trail } from './trail.js';

/** The dashboard of a server, on its admin port. */

const INTERVAL_MS = 2_000;
/** Rows of the table; the filters find the others. */
const ROWS = '200';
const TOKEN_KEY = 'parlance-admin-token';

const find = byId<HTMLInputElement>('find');
const show = byId<HTMLSelectElement>('show');
const sort = byId<HTMLSelectElement>('sort');
const dialog = byId<HTMLDialogElement>('confirm');
const ranges = byId<HTMLFieldSetElement>('ranges');
const rows = createRows({ onClose: (id) => void closeSession(id), onOpen: (id) => void showTimeline(id) });
const trail = new Trail();

let api: AdminApi | undefined;
let before: AdminState | undefined;
let charts: Charts | undefined;
let rangeMs = 300_000;
let timer: ReturnType<typeof setTimeout> | undefined;
let reading: AbortController | undefined;
/** When the server was last heard, on the clock of this page. */
let heardAt = 0;
let awayTimer: ReturnType<typeof setInterval> | undefined;

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
ranges.addEventListener('change', (event) => {
  rangeMs = Number((event.target as HTMLInputElement).value);
  void remember().then(showPast, fail);
});
const kept = linkedToken() ?? storedToken();
if (kept !== null) open(kept);
else byId('token').focus();

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
    const isOther = before?.startedAt !== state.startedAt;
    if (isOther) await remember();
    handleHeard(isOther && before !== undefined);
    showState(state);
    await showSessions();
    await Promise.all(rows.opened.map(showTimeline));
  } catch (error) {
    if (fail(error)) return;
  }
  timer = setTimeout(() => void look(used, token), INTERVAL_MS);
}

function begin(used: AdminApi, token: string): void {
  store(token);
  byId('entry').hidden = true;
  byId('board').hidden = false;
  ranges.hidden = false;
  reading = new AbortController();
  void readEvents(used, reading.signal);
}

/** Takes what the server remembers of the time that is shown. */
async function remember(): Promise<void> {
  const { points } = (await api?.history(rangeMs)) ?? { points: [] };
  trail.load(points);
}

/** @returns whether it is final. */
function fail(error: unknown): boolean {
  if (!(error instanceof AdminFailure)) throw error;
  if (error.status !== 401 && document.body.dataset['state'] !== 'token') {
    handleAway();
    return false;
  }
  api = undefined;
  before = undefined;
  clearInterval(awayTimer);
  reading?.abort();
  store(undefined);
  byId('entry').hidden = false;
  for (const id of ['board', 'drain', 'ranges']) byId(id).hidden = true;
  byId('entry-error').textContent =
    error.status === 401 ? 'The server does not accept this token.' : error.message;
  setStatus('token', 'Not connected');
  byId('token').focus();
  return true;
}

function handleHeard(isOther: boolean): void {
  clearInterval(awayTimer);
  if (document.body.dataset['state'] === 'lost')
    tell(isOther ? 'server restarted' : 'server is back', `away for ${age(Date.now() - heardAt)}`, false);
  else if (isOther) tell('server restarted', '', false);
  heardAt = Date.now();
  setStatus('live', 'Live');
}

/** The figures stay as they were, without their colours. */
function handleAway(): void {
  if (document.body.dataset['state'] === 'lost') return;
  setStatus('lost', 'Away');
  tell('server is away', '', true);
  const say = () => {
    const last = new Date(heardAt).toLocaleTimeString('en-GB');
    setStatus('lost', `Away for ${age(Date.now() - heardAt)}`);
    showHealth(
      'trouble',
      `The server is away for ${age(Date.now() - heardAt)}.`,
      `This page asks again every 2 s. All figures are those of ${last}. If it does not come back, look at its log.`,
    );
  };
  say();
  awayTimer = setInterval(say, 1_000);
}

function setStatus(state: 'token' | 'live' | 'lost', text: string): void {
  document.body.dataset['state'] = state;
  write('status', text);
}

function showHealth(level: string, text: string, remedy: string, more = ''): void {
  byId('health').dataset['level'] = level;
  write('health-text', text);
  write('health-remedy', remedy);
  write('health-more', more);
}

function write(id: string, text: string): void {
  if (byId(id).textContent !== text) byId(id).textContent = text;
}

async function showSessions(): Promise<void> {
  const query = { limit: ROWS, find: find.value, show: show.value, sort: sort.value };
  const list = await api?.sessions(query);
  if (list !== undefined && before !== undefined) rows.show(list, before.mode, before.now);
}

async function showTimeline(id: string): Promise<void> {
  try {
    rows.showTimeline(id, await api?.timeline(id));
  } catch (error) {
    if (error instanceof AdminFailure && error.status === 404) rows.showTimeline(id, undefined);
    else fail(error);
  }
}

function showState(state: AdminState): void {
  write(
    'about',
    [
      ...(state.node === null ? [] : [state.node]),
      `v${state.version}`,
      `up ${age(state.now - state.startedAt)}`,
      state.mode === 'read' ? 'read-only' : 'can close and drain',
    ].join(' · '),
  );
  byId('drain').hidden = state.mode === 'read' || state.draining !== null;
  const now = pointOf(state);
  trail.add(now);
  const [worst, ...others] = healthOf(state, trail.points);
  const more = others.map(({ text }) => text).join(' ');
  showHealth(worst.level, worst.text, worst.remedy, more === '' ? '' : `Also: ${more}`);
  showDraining(state);
  showRefused(state);
  showUpstream(now, trail.points);
  before = state;
  showPast();
}

/** All that shows more than one point of time. */
function showPast(): void {
  const state = before;
  if (state === undefined) return;
  const lines = trail.lines(rangeMs);
  const known = {
    state,
    figures: figuresOf(state, undefined),
    now: pointOf(state),
    points: trail.points,
    lines,
  };
  showTiles(known);
  showServer(known);
  const bounds = bucketsOf(state, undefined, 'request_first_part_seconds').map(({ bound }) => bound);
  if (charts !== undefined) charts.show(lines, bounds);
  else void loadCharts();
}

/** After the figures, which do not wait for the library. */
async function loadCharts(): Promise<void> {
  const { createCharts } = await import('./charts.js');
  if (charts !== undefined) return;
  charts = createCharts(byId('charts'));
  showPast();
}

function showDraining({ draining, mode, now, metrics }: AdminState): void {
  byId('draining').hidden = draining === null;
  if (draining === null) return;
  const { total, remaining, deadline } = draining;
  const gone = Math.max(0, total - remaining);
  byId('draining-left').textContent =
    `${number(gone)} of ${number(total)} ${total === 1 ? 'session has' : 'sessions have'} left`;
  byId<HTMLProgressElement>('draining-bar').value = total === 0 ? 1 : gone / total;
  const isOpen = remaining > 0 && deadline > now;
  const rest = isOpen ? `${clock(deadline - now)} to the deadline` : 'closing those that remain';
  const streams = metrics['streams_open']?.[0]?.value ?? 0;
  byId('draining-rest').textContent =
    remaining === 0 ? 'no sessions are left' : `${rest} · ${count(streams, 'stream')} open`;
  byId('finish').hidden = !isOpen || mode === 'read';
}

async function readEvents(used: AdminApi, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await used.events(showEvent, signal).catch((error: unknown) => {
      if (!(error instanceof AdminFailure) && !signal.aborted && !(error instanceof TypeError)) throw error;
    });
    await new Promise((resolve) => setTimeout(resolve, INTERVAL_MS));
  }
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

/** From a link that `parlance serve` has printed: the address of the page forgets it at once. */
function linkedToken(): string | null {
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  if (token !== null) history.replaceState(null, '', location.pathname);
  return token;
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
