import type { Timers } from '@parlance/protocol';
import { systemClock } from '@parlance/protocol/internal';
import type { Labels } from '../../server/features/feature.js';
import type { ServerEndpoint } from '../../session/endpoint.js';
import type { AdminSessions, SessionRow } from './report.js';

/** The sessions of a server, as its operator sees them. */

/** Rows of one answer. */
export const MAX_ROWS = 1_000;
const DEFAULT_ROWS = 100;

/** How rows are sorted: the first one has most of it. */
const ORDERS: ReadonlyMap<string, (row: SessionRow) => number> = new Map<string, (row: SessionRow) => number>(
  [
    ['wire', (row) => row.received + row.sent],
    ['streams', (row) => row.streams],
    ['queued', (row) => row.queuedBytes],
    ['age', (row) => -row.since],
    ['roundTrip', (row) => row.roundTripMs ?? -1],
    ['principal', () => 0],
  ],
);

const FILTERS: ReadonlyMap<string, (row: SessionRow) => boolean> = new Map<
  string,
  (row: SessionRow) => boolean
>([
  ['', () => true],
  ['waits', ({ waits }) => waits !== null],
  ['silent', ({ silentMs }) => silentMs !== null],
  ['suspended', ({ state }) => state === 'suspended'],
]);

/**
 * @param query `sort`, `limit`, `show` (`waits`, `silent`, `suspended` or the name of a label) and `find`, a part of an ID, a principal, a
 * label or an address.
 * @returns `undefined` if a parameter has another value.
 */
export function listSessions(
  endpoints: Iterable<ServerEndpoint>,
  query: URLSearchParams,
  timers: Pick<Timers, 'resumeWindowMs'>,
  labels: Labels,
): AdminSessions | undefined {
  const order = ORDERS.get(query.get('sort') ?? 'wire');
  const filter = filterOf(query.get('show') ?? '', labels);
  const limit = Number(query.get('limit') ?? DEFAULT_ROWS);
  if (
    order === undefined ||
    filter === undefined ||
    !(Number.isInteger(limit) && limit >= 0 && limit <= MAX_ROWS)
  )
    return undefined;
  const wanted = (query.get('find') ?? '').toLowerCase();
  const rows = Array.from(endpoints, (each) => rowOf(each, timers, labels));
  const found = rows.filter((row) => filter(row) && isFound(row, wanted));
  const byName = query.get('sort') === 'principal';
  found.sort(
    (a, b) => (byName ? nameOf(a).localeCompare(nameOf(b)) : order(b) - order(a)) || a.since - b.since,
  );
  return { total: rows.length, found: found.length, sessions: found.slice(0, limit) };
}

/** Those without a principal come last. */
const nameOf = ({ principal }: SessionRow): string => principal ?? '\uffff';

function filterOf(name: string, labels: Labels): ((row: SessionRow) => boolean) | undefined {
  return Object.hasOwn(labels, name) ? (row) => row.labels[name] !== undefined : FILTERS.get(name);
}

function isFound({ id, principal, labels, address }: SessionRow, wanted: string): boolean {
  if (wanted === '') return true;
  return [id, principal, address, ...Object.values(labels)].some(
    (text) => text?.toLowerCase().includes(wanted) === true,
  );
}

export function rowOf(
  session: ServerEndpoint,
  { resumeWindowMs }: Pick<Timers, 'resumeWindowMs'>,
  labels: Labels,
): SessionRow {
  const said = Object.entries(labels).map(([name, read]) => [name, read(session)] as const);
  const { sent, received, openStreams, queuedBytes, blockedOnCredit, peerBlockedOnRate, roundTripMs } =
    session.stats();
  const { algorithms, encoding } = session.negotiated;
  const isSuspended = session.state === 'suspended' && session.lostAt > 0;
  return {
    id: session.id,
    principal: session.principal ?? null,
    labels: Object.fromEntries(said.filter((each): each is [string, string] => each[1] !== undefined)),
    address: session.client.remoteAddress,
    state: session.state,
    since: session.since,
    awaySince: isSuspended ? unixOf(session.lostAt) : null,
    suspendedUntil: isSuspended ? unixOf(session.lostAt + resumeWindowMs) : null,
    streams: openStreams,
    queuedBytes,
    waits: blockedOnCredit ? 'credit' : peerBlockedOnRate ? 'rate' : null,
    roundTripMs: roundTripMs ?? null,
    silentMs: session.silentMs ?? null,
    received: session.recorder.traffic.received,
    sent: session.recorder.traffic.sent,
    content: received.contentBytes + sent.contentBytes,
    algorithms,
    encoding,
  };
}

/** Unix milliseconds of a reading of the clock. */
const unixOf = (reading: number): number => Math.round(systemClock.timeOrigin + reading);
