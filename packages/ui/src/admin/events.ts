import type { AdminEvent } from '../../../server/src/operate/admin/figures.js';
import { byId, create } from '../shared/dom.js';
import { duration, number } from '../shared/format.js';

/** Events of one kind that follow each other are one entry, which stays when the server is away. */

/** Entries that are kept, and the time within which events are of one entry. */
const ENTRIES = 200;
const TOGETHER_MS = 60_000;
/** IDs that are remembered: a server tells the newest 200 events again to each reader. */
const IDS = 1_000;
const NAMES = 3;

interface Entry {
  readonly item: HTMLLIElement;
  last: number;
  count: number;
  readonly names: Set<string>;
  /** Further names that are not shown. */
  more: number;
}

const seen = new Set<string>();
let process = '';
const entries = new Map<string, Entry>();

/** In words, for those that an operator sees often. */
const WORDS: Readonly<Record<string, string>> = {
  'session.accepted': 'opened',
  'session.resumed': 'came back',
  'session.taken_up': 'loaded again',
  'session.refused': 'refused',
  'session.ended closed': 'closed',
  'session.ended session_lost': 'never came back',
  'session.ended page_left': 'tab closed',
  'session.ended draining': 'ended by a drain',
  'session.ended closed_by_operator': 'closed by an operator',
  'session.unread': 'does not read',
  'session.throttled': 'sends too much',
  'session.not_resumed': 'came back too late',
  'request.failed': 'request failed',
  'request.failed upstream_status': 'upstream failed',
  'admin.closed': 'operator closes a session',
  'admin.listening': 'admin port open',
  'server.listening': 'server started',
  'server.draining': 'server drains',
  'server.drained': 'server drained',
  'engine.stalled': 'engine does not answer',
  'engine.back': 'engine answers again',
};
/** The fields that tell kinds of an event apart. */
const KINDS = ['reason', 'code', 'limit', 'error'];
/** Fields that are not shown: the principal says more than an ID. */
const HIDDEN = new Set(['session', 'principal', 'algorithms', 'encoding', 'attempt', ...KINDS]);

export function showEvent({ id, at, level, event, message, fields }: AdminEvent): void {
  if (seen.has(id)) return;
  seen.add(id);
  const [from = ''] = id.split('-');
  // Another process of the server: what it tells is an entry of its own.
  if (from !== process) entries.clear();
  process = from;
  if (seen.size > IDS) seen.delete(seen.values().next().value ?? '');
  const kind = KINDS.map((name) => fields[name]).find((value) => typeof value === 'string');
  const key = kind === undefined ? event : `${event} ${kind}`;
  const name = fields['principal'] ?? fields['session'];
  const isBad = level === 'warn' || level === 'error' || WORDS[key] === 'never came back';
  add({
    key,
    at,
    isBad,
    title: message,
    words: WORDS[key] ?? wordsOf(event, kind),
    name: String(name ?? ''),
    details: detailsOf(fields),
  });
}

/** Events that the page has noticed itself. */
export function tell(words: string, details: string, isBad: boolean): void {
  add({ key: words, at: Date.now(), isBad, title: '', words, name: '', details });
}

interface Told {
  readonly key: string;
  readonly at: number;
  readonly isBad: boolean;
  readonly title: string;
  readonly words: string;
  readonly name: string;
  readonly details: string;
}

function add({ key, at, isBad, title, words, name, details }: Told): void {
  const list = byId('events');
  const known = entries.get(key);
  const isSame = known !== undefined && at - known.last < TOGETHER_MS;
  const entry = isSame
    ? known
    : { item: create('li'), last: at, count: 0, names: new Set<string>(), more: 0 };
  entry.last = at;
  entry.count++;
  if (name !== '' && !entry.names.has(name)) {
    if (entry.names.size < NAMES) entry.names.add(name);
    else entry.more++;
  }
  entries.set(key, entry);
  const who = [...entry.names].join(', ') + (entry.more > 0 ? ' …' : '');
  const about = entry.count > 1 ? who : [who, details].filter((text) => text !== '').join(', ');
  const { item } = entry;
  item.classList.toggle('bad', isBad);
  item.title = title;
  item.replaceChildren(
    create('time', { dateTime: new Date(at).toISOString() }, new Date(at).toLocaleTimeString('en-GB')),
    create('span', {}, create('b', {}, words), about === '' ? '' : ` ${about}`),
    create('span', { className: 'times' }, entry.count > 1 ? `×${number(entry.count)}` : ''),
  );
  list.prepend(item);
  if (list.childElementCount <= ENTRIES) return;
  list.lastElementChild?.remove();
  for (const [each, { item: old }] of entries) if (!old.isConnected) entries.delete(each);
}

function wordsOf(event: string, kind: unknown): string {
  const words = WORDS[event] ?? event;
  return typeof kind === 'string' ? `${words}: ${kind.replaceAll('_', ' ').toLowerCase()}` : words;
}

function detailsOf(fields: AdminEvent['fields']): string {
  return Object.entries(fields)
    .filter(([name]) => !HIDDEN.has(name))
    .map(([name, value]) =>
      name === 'awayMs' ? `away ${duration(Number(value))}` : `${name} ${String(value)}`,
    )
    .join(' · ');
}
